/// The syntax of a setting's values: parsing, formatting, and a description.
public struct ValueKind<Value: Sendable & Equatable>: Sendable {
  /// Description of a valid value, which completes "Takes …" and "… is not …": `a size from 1K to 64M`.
  public let form: String
  /// Whether a value may be any text, such as a name, a path or an address.
  let isFree: Bool
  let parse: @Sendable (String) -> Result<Value, BadValue>
  let show: @Sendable (Value) -> String

  /// - Parameters:
  ///   - form: the description of a value.
  ///   - isFree: whether a value may be any text.
  ///   - show: formats a value so that `parse` returns it.
  ///   - parse: never receives an empty text, which means the default.
  init(
    _ form: String, isFree: Bool = false, show: @escaping @Sendable (Value) -> String,
    parse: @escaping @Sendable (String) -> Result<Value, BadValue>
  ) {
    self.form = form
    self.isFree = isFree
    self.parse = parse
    self.show = show
  }

  /// Adds a rule to this kind.
  /// - Parameter objection: returns the error of a value with valid syntax, or nil.
  public func refusing(_ objection: @escaping @Sendable (Value) -> String?) -> ValueKind {
    ValueKind(
      form, isFree: isFree, show: show,
      parse: { text in
        parse(text).flatMap { value in objection(value).map { .failure(.because($0)) } ?? .success(value) }
      })
  }
}

extension ValueKind {
  /// Uses the same syntax for values of another type.
  ///
  /// - Parameters:
  ///   - into: converts a parsed value.
  ///   - back: converts a value for `show`.
  public func converted<Other: Sendable & Equatable>(
    into: @escaping @Sendable (Value) -> Other, back: @escaping @Sendable (Other) -> Value
  ) -> ValueKind<Other> {
    ValueKind<Other>(
      form, isFree: isFree, show: { show(back($0)) }, parse: { text in parse(text).map(into) })
  }
}

/// The reason why a value is invalid.
enum BadValue: Error, Equatable {
  /// The text does not have the syntax of the setting.
  case form
  /// The value is not allowed for this reason, a sentence without a full stop.
  case because(String)
}

extension ValueKind where Value == Bool {
  /// `yes`, `no` and systemd's synonyms.
  public static var bool: ValueKind {
    ValueKind(
      "yes or no", show: { $0 ? "yes" : "no" },
      parse: { text in
        switch text.lowercased() {
        case "yes", "true", "on", "1", "y", "t": .success(true)
        case "no", "false", "off", "0", "n", "f": .success(false)
        default: .failure(.form)
        }
      })
  }
}

extension ValueKind where Value == Int {
  /// An integer.
  public static func number(_ range: ClosedRange<Int>) -> ValueKind {
    ValueKind(
      "a number from \(range.lowerBound) to \(range.upperBound)", show: { String($0) },
      parse: { text in
        guard let number = Int(text), range.contains(number) else { return .failure(.form) }
        return .success(number)
      })
  }

  /// A number of bytes, with `K`, `M` or `G` for powers of 1024.
  public static func size(_ range: ClosedRange<Int>) -> ValueKind {
    let form = "a size from \(Size.show(range.lowerBound)) to \(Size.show(range.upperBound))"
    return ValueKind(
      form, show: Size.show,
      parse: { text in
        guard let size = Size.parse(text), range.contains(size) else { return .failure(.form) }
        return .success(size)
      })
  }
}

extension ValueKind where Value == Duration {
  /// A time span with the units `ms`, `s`, `min` and `h`; a number without a unit counts as seconds, as in systemd.
  public static func duration(_ range: ClosedRange<Duration>) -> ValueKind {
    let form = "a time from \(TimeSpan.show(range.lowerBound)) to \(TimeSpan.show(range.upperBound))"
    return ValueKind(
      form, show: TimeSpan.show,
      parse: { text in
        guard let duration = TimeSpan.parse(text), range.contains(duration) else { return .failure(.form) }
        return .success(duration)
      })
  }
}

extension ValueKind where Value == String {
  /// One line of text; `limit` counts bytes of UTF-8.
  public static func text(upTo limit: Int) -> ValueKind {
    ValueKind(
      "a text of at most \(limit) bytes", isFree: true, show: { $0 },
      parse: { text in
        let isPlain = text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        return isPlain && text.utf8.count <= limit ? .success(text) : .failure(.form)
      })
  }

  /// The absolute path of a file. With `isSocket`, the maximum length is that of a Unix socket's address.
  public static func path(isSocket: Bool = false) -> ValueKind {
    let limit = isSocket ? 107 : 4095
    return ValueKind(
      "an absolute path of at most \(limit) bytes", isFree: true, show: { $0 },
      parse: { text in
        text.hasPrefix("/") && text.utf8.count <= limit ? .success(text) : .failure(.form)
      })
  }
}

extension ValueKind where Value: RawRepresentable<String> & CaseIterable {
  /// A word of an enumeration.
  public static var choice: ValueKind { choice(of: Array(Value.allCases)) { $0.rawValue } }
}

extension ValueKind {
  /// One of several values, each with its own word.
  public static func choice(of values: [Value], _ word: @escaping @Sendable (Value) -> String) -> ValueKind {
    ValueKind(
      values.map(word).listed("or"), show: word,
      parse: { text in
        values.first { word($0) == text }.map { .success($0) } ?? .failure(.form)
      })
  }
}

extension ValueKind {
  /// One or more words of an enumeration, in any order, separated by spaces or commas.
  public static func list<Element>() -> ValueKind
  where Value == [Element], Element: RawRepresentable<String> & CaseIterable & Sendable & Equatable {
    let words = Element.allCases.map(\.rawValue)
    let form = "one or more of \(words.listed("and"))"
    return ValueKind(
      form, show: { $0.map(\.rawValue).joined(separator: " ") },
      parse: { text in
        var elements: [Element] = []
        for word in text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "\t" }) {
          guard let element = Element(rawValue: String(word)) else { return .failure(.form) }
          if !elements.contains(element) { elements.append(element) }
        }
        return elements.isEmpty ? .failure(.form) : .success(elements)
      })
  }

  /// Words with a syntax of the section, separated by spaces or commas. If several words have equal keys, the last one
  /// counts.
  ///
  /// - Parameters:
  ///   - form: completes "Takes …".
  ///   - limit: maximum number of words.
  ///   - key: the subject of a word.
  ///   - show: formats an element so that `parse` returns it.
  ///   - parse: returns nil for an invalid word.
  public static func words<Element: Sendable & Equatable, Key: Hashable>(
    _ form: String, upTo limit: Int, key: @escaping @Sendable (Element) -> Key,
    show: @escaping @Sendable (Element) -> String, parse: @escaping @Sendable (String) -> Element?
  ) -> ValueKind where Value == [Element] {
    ValueKind(
      form, isFree: true, show: { $0.map(show).joined(separator: " ") },
      parse: { text in
        var elements: [Element] = []
        for word in text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "\t" }) {
          guard let element = parse(String(word)) else { return .failure(.form) }
          elements.removeAll { key($0) == key(element) }
          elements.append(element)
        }
        guard elements.count <= limit else { return .failure(.because("it has more than \(limit) elements")) }
        return elements.isEmpty ? .failure(.form) : .success(elements)
      })
  }

  /// A kind that also accepts an empty value.
  public static func optional<Wrapped>(_ kind: ValueKind<Wrapped>) -> ValueKind where Value == Wrapped? {
    ValueKind(
      "\(kind.form), or nothing", isFree: kind.isFree, show: { $0.map(kind.show) ?? "" },
      parse: { text in
        kind.parse(text).map { $0 }
      })
  }
}

extension ValueKind {
  /// A kind that also accepts a word that turns the setting off.
  public static func either<Wrapped>(_ kind: ValueKind<Wrapped>, or word: String) -> ValueKind where Value == Wrapped? {
    ValueKind(
      "\(kind.form), or \(word)", isFree: kind.isFree, show: { $0.map(kind.show) ?? word },
      parse: { text in text == word ? .success(nil) : kind.parse(text).map { $0 } })
  }
}

extension [String] {
  /// Formats `a, b or c`.
  fileprivate func listed(_ conjunction: String) -> String {
    guard count > 1, let last else { return first ?? "" }
    return dropLast().joined(separator: ", ") + " \(conjunction) " + last
  }
}

extension ValueKind where Value == ClosedRange<Duration> {
  /// One time or two, in ascending order: `11.25ms 15ms`. Each has the unit `ms` or `s`, and any number of decimals.
  ///
  /// - Parameter step: each time must be a multiple of it; whole microseconds.
  public static func steps(_ range: ClosedRange<Duration>, step: Duration) -> ValueKind {
    let show: @Sendable (Duration) -> String = { DecimalTime.show($0) }
    let form =
      "one or two times from \(show(range.lowerBound)) to \(show(range.upperBound)), in steps of \(show(step)), the shorter first"
    return ValueKind(
      form,
      show: {
        $0.lowerBound == $0.upperBound ? show($0.lowerBound) : "\(show($0.lowerBound)) \(show($0.upperBound))"
      },
      parse: { text in
        let words = text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "\t" })
        let times = words.compactMap { DecimalTime.parse(String($0)) }
        guard (1...2).contains(words.count), times.count == words.count, let first = times.first, let last = times.last,
          first <= last,
          times.allSatisfy({ range.contains($0) && DecimalTime.count($0).isMultiple(of: DecimalTime.count(step)) })
        else { return .failure(.form) }
        return .success(first...last)
      })
  }
}

/// Notation of time spans: `40ms`, `30s`, `1min 30s`, `2h`.
enum TimeSpan {
  private static let milliseconds: [(unit: String, count: Int64)] = [
    ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1),
  ]
  /// Maximum time span, 366 days in milliseconds. It prevents an overflow of the sum.
  private static let limit: Int64 = 366 * 24 * 3_600_000

  /// Parses the sum of the parts; a part without a unit counts as seconds. Nil if the text is not a time span, or is
  /// longer than 366 days.
  static func parse(_ text: String) -> Duration? {
    var rest = text.utf8.filter { $0 != 0x20 && $0 != 0x09 }[...]
    var sum: Int64 = 0
    guard !rest.isEmpty else { return nil }
    while !rest.isEmpty {
      let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      rest = rest.dropFirst(digits.count)
      let letters = rest.prefix { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      rest = rest.dropFirst(letters.count)
      let name = letters.isEmpty ? "s" : String(decoding: letters, as: UTF8.self)
      guard let number = Int64(String(decoding: digits, as: UTF8.self)), number <= limit,
        let unit = milliseconds.first(where: { $0.unit == name })
      else { return nil }
      sum += number * unit.count
      guard sum <= limit else { return nil }
    }
    return .milliseconds(sum)
  }

  /// Formats the time span in the largest exact unit, with a resolution of one millisecond.
  static func show(_ duration: Duration) -> String {
    let count = duration.components.seconds * 1_000 + duration.components.attoseconds / 1_000_000_000_000_000
    guard count != 0, let unit = milliseconds.first(where: { count.isMultiple(of: $0.count) }) else { return "0s" }
    return "\(count / unit.count)\(unit.unit)"
  }
}

/// Decimal notation of short times: `11.25ms`, `0.5s`, with a resolution of one microsecond.
enum DecimalTime {
  /// Converts a time to microseconds.
  static func count(_ time: Duration) -> Int64 {
    time.components.seconds * 1_000_000 + time.components.attoseconds / 1_000_000_000_000
  }

  /// Parses a time; nil if the text is not a time. A sign is not allowed, and at most six digits before the point.
  static func parse(_ text: String) -> Duration? {
    let isMilliseconds = text.hasSuffix("ms")
    guard isMilliseconds || text.hasSuffix("s") else { return nil }
    let places = isMilliseconds ? 3 : 6
    let parts = text.dropLast(isMilliseconds ? 2 : 1).split(separator: ".", omittingEmptySubsequences: false)
    let decimals = parts.count == 2 ? String(parts[1]) : ""
    guard let whole = parts.first, (1...2).contains(parts.count), (1...6).contains(whole.utf8.count),
      parts.count == 1 || (1...places).contains(decimals.utf8.count)
    else { return nil }
    let digits = String(whole) + decimals + String(repeating: "0", count: places - decimals.utf8.count)
    guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let count = Int64(digits)
    else { return nil }
    return .microseconds(count)
  }

  /// Formats the time in seconds if that needs no decimals, otherwise in milliseconds.
  static func show(_ time: Duration) -> String {
    let count = count(time)
    let isSeconds = count.isMultiple(of: 1_000_000)
    let (unit, places) = isSeconds ? (Int64(1_000_000), 0) : (Int64(1_000), 3)
    var text = "\(count / unit)"
    let rest = count % unit
    if rest != 0 {
      var decimals = String(repeating: "0", count: places - "\(rest)".utf8.count) + "\(rest)"
      while decimals.hasSuffix("0") { decimals.removeLast() }
      text += "." + decimals
    }
    return text + (isSeconds ? "s" : "ms")
  }
}

/// Notation of numbers of bytes.
enum Size {
  private static let units = [("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)]

  /// Parses a size: `64K` is 65 536, `100` is 100. Nil if the text is not a size or exceeds `Int`.
  static func parse(_ text: String) -> Int? {
    let unit = units.first { text.uppercased().hasSuffix($0.0) }
    let digits = unit == nil ? text : String(text.dropLast())
    guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let number = Int(digits)
    else { return nil }
    let (size, overflow) = number.multipliedReportingOverflow(by: unit?.1 ?? 1)
    return overflow ? nil : size
  }

  /// Formats the size in the largest exact unit.
  static func show(_ size: Int) -> String {
    guard size > 0, let unit = units.first(where: { size.isMultiple(of: $0.1) }) else { return String(size) }
    return "\(size / unit.1)\(unit.0)"
  }
}
