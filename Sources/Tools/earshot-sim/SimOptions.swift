import CommandLine
import MeshField

/// The parsed options of the program.
struct SimOptions {
  struct Mistake: Error {
    let sentence: String
  }

  let scenario: Scenario
  let seed: UInt64
  let parts: Int
  let output: String?
  /// Percentages of mains-powered nodes among apps, one simulation for each; empty for one simulation with the
  /// scenario's value.
  let mains: [Int]
  let comparesFlood: Bool
  let comparesCouriers: Bool
  let isQuiet: Bool

  static let command = Command(
    "earshot-sim",
    "Simulates a mesh of thousands of nodes in virtual time: which messages arrive, and the cost.",
    details: [
      "A scenario and a seed always give the same output, with any number of parts. Time and memory of the simulation "
        + "are reported on standard error.",
      "Signatures of equal bytes are verified at most once for all nodes; each node does everything else by itself.",
      "SCENARIO is a file of sections and keys; --keys lists all keys. Without a file, the defaults are simulated.",
      "Missed aims of the scenario are reported on standard error, and the exit status is 1.",
    ],
    options: [
      Option("seed", short: "s", value: .integer("N", 0...Int.max), "Seed of the random numbers (1)."),
      Option("parts", short: "p", value: .integer("N", 1...64), "Number of parts that run in parallel (8)."),
      Option(
        "output", short: "o", value: .file("DIR"), "Write results.json, costs.json and the plots into this folder."),
      Option(
        "mains", value: .text("LIST"),
        "One simulation for each percentage of mains nodes among app nodes: 0,50,100."),
      Option("compare-flood", "Run a second simulation without flooding nodes, for comparison."),
      Option("compare-couriers", "Run a second simulation without couriers, for comparison."),
      Option("quiet", short: "q", "Do not report progress."),
      Option("keys", "Show all keys of a scenario with their defaults."),
    ],
    arguments: [Argument(.file("SCENARIO"), "The scenario to simulate.", count: .optional)])

  init(_ options: ParsedCommand) throws(Mistake) {
    var scenario = Scenario()
    if let file = options.argument("SCENARIO") {
      do throws(Scenario.Mistake) { scenario = try Scenario(file: file) } catch {
        throw Mistake(sentence: error.sentences.joined(separator: "\n"))
      }
    }
    self.scenario = scenario
    seed = UInt64(options.integer("seed") ?? 1)
    parts = options.integer("parts") ?? 8
    output = options.value("output")
    comparesFlood = options.flag("compare-flood")
    comparesCouriers = options.flag("compare-couriers")
    isQuiet = options.flag("quiet")
    let words = (options.value("mains") ?? "").split(separator: ",")
    mains = words.compactMap { Int($0) }.filter { (0...100).contains($0) }
    guard mains.count == words.count else {
      throw Mistake(sentence: "--mains takes percentages separated by commas, for example 0,50,100.")
    }
    if comparesFlood, scenario.flood.share == 0 {
      throw Mistake(sentence: "--compare-flood needs a scenario with flooding nodes: set Share in section [Flood].")
    }
  }
}
