import CommandLine
import Glibc
import MeshField

/// Simulates a field of nodes, and prints the results.
@main
struct EarshotSim {
  static func main() async {
    exit(await run(Array(Swift.CommandLine.arguments.dropFirst())).rawValue)
  }

  private static func run(_ words: [String]) async -> ExitCode {
    let parsed: ParsedCommand
    do throws(UsageError) {
      parsed = try SimOptions.command.parse(words)
    } catch {
      complain("\(error.sentence)\n\(error.hint)")
      return .usage
    }
    if parsed.wantsHelp || parsed.flag("keys") {
      say(parsed.wantsHelp ? parsed.help : Scenario.keysText)
      return .ok
    }
    do throws(SimOptions.Mistake) {
      return await simulate(try SimOptions(parsed))
    } catch {
      complain("\(error.sentence)\nTry: earshot-sim --help")
      return .usage
    }
  }

  private static func simulate(_ options: SimOptions) async -> ExitCode {
    var scenarios: [(name: String, scenario: Scenario)] = [("", options.scenario)]
    if !options.mains.isEmpty {
      scenarios = options.mains.map { ("\($0) % mains", options.scenario.with(mains: $0)) }
    } else if options.comparesFlood {
      scenarios = [("with flood", options.scenario), ("without", options.scenario.withoutFlood)]
    } else if options.comparesCouriers {
      scenarios = [("with couriers", options.scenario), ("without", options.scenario.withoutCouriers)]
    }
    var results: [(name: String, results: FieldResults)] = []
    var costs: [JSONValue] = []
    for (name, scenario) in scenarios {
      let signatures = SharedSignatures()
      let begin = Cost.Moment.now()
      var field = FieldRun(scenario, seed: options.seed, parts: options.parts, signatures: signatures)
      let isQuiet = options.isQuiet
      let result = await field.run { second in
        if !isQuiet, second.isMultiple(of: 30) { complain("\(name) \(second) s") }
      }
      results.append((name, result))
      if !name.isEmpty { say("== \(name)\n") }
      say(result.text)
      let cost = Cost(from: begin, to: .now(), signatures.counts)
      complain(cost.sentence)
      costs.append(cost.json(name))
    }
    let isReached = judge(results)
    if let output = options.output {
      let written = write(results, .array(costs), to: output)
      guard written == .ok else { return written }
    }
    return isReached ? .ok : .failed
  }

  /// Prints the scenario's targets that were missed.
  ///
  /// - Returns: whether all were reached.
  private static func judge(_ results: [(name: String, results: FieldResults)]) -> Bool {
    // The second of two results may be the baseline: without flooding nodes, or without couriers.
    let other = results.count == 2 ? results[1].results : nil
    var isReached = true
    for (name, results) in results {
      for sentence in results.scenario.aim.missed(results, other: other) {
        complain("Missed\(name.isEmpty ? "" : ", \(name)"): \(sentence)")
        isReached = false
      }
    }
    return isReached
  }

  private static func write(
    _ results: [(name: String, results: FieldResults)], _ costs: JSONValue, to folder: String
  ) -> ExitCode {
    let json: JSONValue =
      results.count == 1
      ? results[0].results.json
      : .object(results.map { JSONValue.Member($0.name, $0.results.json) })
    let drawings =
      results.count == 1
      ? results[0].results.drawings
      : FieldResults.comparison(results) + results[0].results.drawings.filter { $0.name == "carrying" }
    let texts = [("results.json", json), ("costs.json", costs)].map { ($0, JSONWriter.write($1, .pretty) + "\n") }
    let files = texts + drawings.map { ("\($0.name).svg", $0.svg) }
    mkdir(folder, 0o755)
    for (name, text) in files {
      guard save(text, as: "\(folder)/\(name)") else {
        complain("\(folder)/\(name) cannot be written: \(String(cString: strerror(errno))).")
        return .notWritten
      }
    }
    return .ok
  }

  private static func save(_ text: String, as path: String) -> Bool {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { return false }
    let isWritten = writeAll(text, to: descriptor)
    return close(descriptor) == 0 && isWritten
  }

  private static func writeAll(_ text: String, to descriptor: Int32) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  private static func say(_ text: String) { _ = writeAll("\(text)\n", to: STDOUT_FILENO) }

  private static func complain(_ text: String) { _ = writeAll("\(text)\n", to: STDERR_FILENO) }
}
