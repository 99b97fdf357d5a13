@testable import Config

/// Two sections for tests alone.
enum Samples {
  struct Shop: SettingsSection {
    enum Fruit: String, Sendable, CaseIterable { case apple, pear, fig }

    var name = "corner"
    var kept = 16
    var fruits = [Fruit.apple, .pear]
    var patience = Duration.seconds(60)
    var size = 4 << 20
    var throwAway = Duration.seconds(600)

    static let section = "Shop"
    static let keys: [Setting<Shop>] = [
      Setting("Name", \.name, .text(upTo: 14), .onRestart, "What is written over the door."),
      Setting("Kept", \.kept, .number(1...1000), .onReload, "How many bags are kept."),
      Setting(
        "Fruits", \.fruits,
        .list().refusing { $0.contains(.pear) && $0.contains(.fig) ? "pear and fig share a shelf" : nil }, .onReload,
        "What there is to be had."),
      Setting("Patience", \.patience, .duration(.seconds(1) ... .seconds(3600)), .onReload, "How long to wait."),
      Setting("Size", \.size, .size(1024...(64 << 20)), .onReload, "How large a bag may be."),
      Setting(
        "Throw", \.throwAway, .duration(.seconds(1) ... .seconds(7200)), .onReload, "When what nobody fetches goes.",
        erasesLeast: .seconds(7200)),
    ]
    static let renamedKeys = ["Stock": "Kept", "Discard": "Throw"]
  }

  struct Sign: SettingsSection {
    enum Colour: String, Sendable, CaseIterable { case red, green }

    var colour = Colour.red
    var socket: String?

    static let section = "Sign"
    static let keys: [Setting<Sign>] = [
      Setting("Colour", \.colour, .choice, .onReload, "The colour of the sign."),
      Setting("Socket", \.socket, .optional(.path(isSocket: true)), .onRestart, "Where the sign is plugged in."),
    ]
  }

  static let defaults = Configuration(of: "a shop", [Shop.self, Sign.self])

  /// The configuration from a file's text over the defaults, and the complaints about the text.
  static func read(_ text: String) -> (configuration: Configuration, complaints: [String]) {
    var configuration = defaults
    let complaints = configuration.apply(INI(Array(text.utf8), file: "f"))
    return (configuration, complaints.map(\.description))
  }
}

extension Configuration {
  /// Whether all keys have the same values.
  func isSame(as other: Configuration) -> Bool { changes(to: other) == [] }
}
