/// Tests must not assert a speed, a processor time, or that something happens within a real second. A loaded machine
/// would fail such a test without a fault.
extension Rules {
  /// Names that measure a duration or processor time.
  private static let stopwatches: Set = [
    "clock_gettime", "clock_getcpuclockid", "gettimeofday", "timespec_get", "getrusage", "times", "cpuTime",
    "processorTime", "ContinuousClock", "SuspendingClock", "DispatchTime", "systemUptime", "mach_absolute_time",
  ]
  private static let sleeps: Set = ["sleep", "usleep", "nanosleep", "clock_nanosleep"]
  /// A time limit of the testing library ends a test that hangs; a shorter one judges the machine.
  static let leastTimeLimit = 10

  /// No test measures time, sleeps, or has a limit that a loaded machine could reach.
  ///
  /// A test may compare the loop's clock with `>=`, to see that nothing happens too early. Virtual time is free.
  static func testsJudgeNoTime(_ files: [SourceFile]) -> [String] {
    files.filter { $0.path.hasPrefix("Tests/") }.flatMap { file in
      guard let swift = file.swift else { return [String]() }
      let places = words(swift) + limits(swift) + comparisons(swift)
      return places.map { "\(file.path):\($0.line): \($0.what)" }
    }
  }

  /// The end-to-end tests do not judge time either: measured times are printed, and `limit(…)` scales every limit by
  /// the measured speed of the guest.
  static func guestsJudgeNoTime(_ files: [SourceFile]) -> [String] {
    files.filter { $0.path.hasPrefix("Tests/EndToEnd/") && $0.path.hasSuffix(".py") }.flatMap { file in
      file.text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap { number, line in
        judgement(in: line).map { "\(file.path):\(number + 1): \($0)" }
      }
    }
  }

  private static func judgement(in line: Substring) -> String? {
    let code = line.drop { $0 == " " }
    if code.contains("timeout("), code.contains(/^[^#]*asyncio\.timeout\(\s*[0-9]/) {
      return "a limit that does not follow the guest's speed"
    }
    guard code.hasPrefix("assert ") else { return nil }
    let measures = ["monotonic()", "process_time()", "perf_counter()", "cpu(", ".seconds", "speed("]
    return measures.first { code.contains($0) }.map { "asserts a measured time (\($0))" }
  }

  private typealias Place = (line: Int, what: String)

  private static func words(_ swift: SwiftText) -> [Place] {
    swift.tokens.enumerated().compactMap { index, token in
      let next = index + 1 < swift.tokens.count ? swift.tokens[index + 1].text : ""
      if stopwatches.contains(token.text), !isDeclared(index, swift.tokens) {
        return (token.line, "measures time with \(token.text)")
      }
      return sleeps.contains(token.text) && next == "(" ? (token.line, "sleeps") : nil
    }
  }

  /// A label or a member of another type may have any name.
  private static func isDeclared(_ index: Int, _ tokens: [SwiftText.Token]) -> Bool {
    let next = index + 1 < tokens.count ? tokens[index + 1].text : ""
    let isCalledOrNamed = next == "(" || next == "." || tokens[index].text.first?.isUppercase == true
    return !isCalledOrNamed || next == ":"
  }

  private static func limits(_ swift: SwiftText) -> [Place] {
    swift.tokens.indices.compactMap { index in
      let words = swift.tokens[index...].prefix(6).map(\.text)
      guard words.first == "timeLimit", words.count == 6, words[1] == "(", words[2] == "." else { return nil }
      let isLong = words[3] == "minutes" && (Int(words[5]) ?? 0) >= leastTimeLimit
      return isLong ? nil : (swift.tokens[index].line, "ends a test after \(words[5]) \(words[3])")
    }
  }

  /// Expectations of the loop's clock, or of values computed from it, other than that a time has come.
  private static func comparisons(_ swift: SwiftText) -> [Place] {
    guard swift.tokens.contains(where: { $0.text == "EventLoop" }) else { return [] }
    var clock = Clock()
    var places: [Place] = []
    for line in lines(swift.tokens) {
      let isMeasured = clock.isIn(line)
      if let name = declared(in: line) {
        if line.suffix(3).map(\.text) == ["EventLoop", ".", "shared"] { clock.loops.insert(name) }
        if isMeasured { clock.measured.insert(name) }
      }
      guard isMeasured, line.contains(where: { ["expect", "require"].contains($0.text) }), isComparison(line) else {
        continue
      }
      places.append((line[line.startIndex].line, "judges how long something took"))
    }
    return places
  }

  /// The names in a file for the loop's clock and values computed from it.
  private struct Clock {
    var loops: Set<String> = []
    var measured: Set<String> = []

    func isIn(_ line: ArraySlice<SwiftText.Token>) -> Bool {
      line.indices.contains { index in
        let token = line[index]
        let isMember = token.before == UInt8(ascii: ".") && !isRange(endingAt: index, line)
        if !isMember { return measured.contains(token.text) }
        guard token.text == "now", index - line.startIndex >= 2 else { return false }
        let owner = line[index - 2]
        return owner.text == "shared" || loops.contains(owner.text) && owner.before != UInt8(ascii: ".")
      }
    }

    /// Whether the characters before a word are `...` or `..<`, not a member's dot.
    private func isRange(endingAt index: Int, _ line: ArraySlice<SwiftText.Token>) -> Bool {
      line[..<index].suffix(2).map(\.text) == [".", "."]
    }
  }

  /// `let name = …` or `var name = …`.
  private static func declared(in line: ArraySlice<SwiftText.Token>) -> String? {
    guard let word = line.firstIndex(where: { ["let", "var"].contains($0.text) }), word + 2 < line.endIndex,
      line[word + 2].text == "="
    else { return nil }
    return line[word + 1].text
  }

  /// Whether two values are compared, other than by `>=`.
  private static func isComparison(_ line: ArraySlice<SwiftText.Token>) -> Bool {
    line.indices.dropLast().contains { index in
      let (token, next) = (line[index], line[index + 1])
      let isDouble = next.text == "=" && next.before != nil
      switch token.text {
      case "<": return token.before == nil && (isDouble || next.before == nil)
      case ">": return token.before == nil && !isDouble && next.before == nil
      case "=": return token.before == nil && isDouble
      case ".": return next.text == "." && next.before != nil
      default: return token.text == "contains"
      }
    }
  }

  private static func lines(_ tokens: [SwiftText.Token]) -> [ArraySlice<SwiftText.Token>] {
    var lines: [ArraySlice<SwiftText.Token>] = []
    var start = tokens.startIndex
    for index in tokens.indices where index + 1 == tokens.endIndex || tokens[index + 1].line != tokens[index].line {
      lines.append(tokens[start...index])
      start = index + 1
    }
    return lines
  }
}
