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
    "A mesh of thousands of nodes in virtual time, without Bluetooth: what is delivered, and what it costs.",
    details: [
      "The same scenario with the same seed prints and writes the same bytes, with any number of parts. Time and memory that the "
        + "simulation took are told on the standard error.",
      "Signatures of equal bytes are checked at most once for all nodes; everything else each node does by itself.",
      "SCENARIO is a file of sections and keys; --keys shows all of them. Without one the defaults are simulated.",
      "Aims of the scenario that were missed are named on the standard error, and the status is 1 then.",
    ],
    options: [
      Option("seed", short: "s", value: .integer("N", 0...Int.max), "What chance begins with (1)."),
      Option("parts", short: "p", value: .integer("N", 1...64), "In how many parts it is computed side by side (8)."),
      Option(
        "output", short: "o", value: .file("DIR"), "Write results.json, costs.json and the plots into this folder."),
      Option("mains", value: .text("LIST"), "One simulation for each of these percents of mains among apps: 0,50,100."),
      Option("compare-flood", "A second simulation without those who flood, for comparison."),
      Option("compare-couriers", "A second simulation in which nobody carries letters of others."),
      Option("quiet", short: "q", "Tell nothing of how far it has come."),
      Option("keys", "Show all keys of a scenario with their defaults."),
    ],
    arguments: [Argument(.file("SCENARIO"), "What is simulated.", count: .optional)])

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
      throw Mistake(sentence: "--mains takes percents with commas between them, as in 0,50,100.")
    }
    if comparesFlood, scenario.flood.share == 0 {
      throw Mistake(sentence: "--compare-flood needs a scenario in which somebody floods: Share in section [Flood].")
    }
  }
}
