import Air
import CommandLine
import Common
import Radio

/// The parsed options of the program.
struct AirOptions {
  /// An invalid value of an option.
  struct Mistake: Error {
    let sentence: String
  }

  let socket: String
  let seed: UInt64
  let isVerbose: Bool
  let conditions: AirConditions
  let controller: AirController
  let field: Field?

  /// The positions of nodes on a grid, which follow from the last two bytes of their addresses, and the radio range of
  /// a node.
  struct Field {
    /// Columns of the grid; if there are more than nodes, all nodes are in one row.
    let columns: Int
    /// The range of a node in each direction, in steps of the grid.
    let reach: Int

    func isInRange(_ one: BluetoothAddress, _ other: BluetoothAddress) -> Bool {
      let (one, other) = (Int(one.value & 0xFFFF), Int(other.value & 0xFFFF))
      return abs(one / columns - other / columns) <= reach && abs(one % columns - other % columns) <= reach
    }
  }

  static let command = Command(
    "earshot-air", "A simulated radio that several processes share, for tests without Bluetooth.",
    details: [
      "Runs until SIGTERM or SIGINT. For earshotd, set Backend=air and AirSocket=PATH in the section [Radio]."
    ],
    options: [
      Option("socket", short: "s", value: .file("PATH"), "The socket to listen at. Required."),
      Option("latency", value: .text("TIME"), "Latency of a packet in ms; 0 for none (7.5)."),
      Option("loss", value: .text("PERCENT"), "Share of lost writes without response (0)."),
      Option("notification-loss", value: .text("PERCENT"), "Share of lost notifications (0)."),
      Option("mtu", value: .integer("N", 23...517), "Maximum ATT MTU of links (517)."),
      Option("slots", value: .integer("N", 1...100), "Maximum simultaneous advertisements of a node (3)."),
      Option("links", value: .integer("N", 1...1000), "Maximum links of a node (unlimited)."),
      Option("falls-silent", "An advertisement stops when a peer connects to it; nodes then restart it."),
      Option(
        "reach", value: .integer("N", 1...1000),
        "Nodes are placed in a line by the last two bytes of their addresses. Each receives nodes up to N positions "
          + "away (all)."),
      Option("columns", value: .integer("N", 1...65_536), "Nodes are placed in rows of N (65536)."),
      Option("every-subscriber", "Notifications reach all subscribers, as with BlueZ before 5.76."),
      Option("seed", value: .integer("N", 0...Int.max), "Seed of the random numbers (1)."),
      Option("verbose", short: "v", "Log nodes that connect and disconnect."),
    ])

  init(_ options: ParsedCommand) throws(Mistake) {
    guard let socket = options.value("socket") else {
      throw Mistake(sentence: "--socket is missing. Give the socket to listen at, for example --socket /tmp/air.")
    }
    self.socket = socket
    seed = UInt64(options.integer("seed") ?? 1)
    let columns = options.integer("columns") ?? 65_536
    field = options.integer("reach").map { Field(columns: columns, reach: $0) }
    isVerbose = options.flag("verbose")
    var conditions = AirConditions()
    if let text = options.value("latency") { conditions.latency = try Self.latency(text) }
    if let text = options.value("loss") { conditions.commandLoss = try Self.share(text, "loss") }
    if let text = options.value("notification-loss") {
      conditions.notificationLoss = try Self.share(text, "notification-loss")
    }
    if let mtu = options.integer("mtu") { conditions.maximumMTU = mtu }
    self.conditions = conditions
    controller = AirController(
      advertisingSlots: options.integer("slots") ?? 3, linkLimit: options.integer("links"),
      fallsSilent: options.flag("falls-silent"), reachesEverySubscriber: options.flag("every-subscriber"))
  }

  /// Parses `5`, `7.5`, `5ms`: at most ten seconds.
  private static func latency(_ text: String) throws(Mistake) -> Duration {
    guard let number = number(text, unit: "ms"), number <= 10_000 else {
      throw Mistake(sentence: "--latency: \(text) is not a time in ms from 0 to 10000.")
    }
    return .nanoseconds(Int64(number * 1_000_000))
  }

  /// Parses `10`, `2.5`, `10%`.
  ///
  /// - Parameter option: the name of the option.
  private static func share(_ text: String, _ option: String) throws(Mistake) -> Double {
    guard let number = number(text, unit: "%"), number <= 100 else {
      throw Mistake(sentence: "--\(option): \(text) is not a percentage from 0 to 100.")
    }
    return number / 100
  }

  private static func number(_ text: String, unit: String) -> Double? {
    let digits = text.hasSuffix(unit) ? text.dropLast(unit.count) : text[...]
    let isPlain = digits.utf8.allSatisfy {
      (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: ".")
    }
    return isPlain ? Double(digits) : nil
  }
}
