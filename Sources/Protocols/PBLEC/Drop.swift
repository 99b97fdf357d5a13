/// Why something that came over the air was not told to anybody.
public enum Drop: Int, CaseIterable, Hashable, Sendable {
  /// The list of AD structures runs over its end, or is longer than any.
  case malformedReport
  /// A name that begins with the mark and goes on without a digit.
  case noDigit
  /// A text that is not UTF-8, or longer than any.
  case badText
  /// A text with a control character in it.
  case controlCharacter
  /// The peer's last message again.
  case duplicate
  /// One of the messages before that.
  case late
  /// A message too soon after the last one of the peer.
  case tooFast
  /// A message of a new peer, while as many as there may be are remembered.
  case noRoom
  /// A message of a new peer, while enough of them have come in this second.
  case tooManyNew
  /// A message that was just heard from another address, as close as this one.
  case moved
  /// A beacon of the protocol's UUID that is not as long as a beacon is.
  case badBeacon
  /// A beacon that was told already today.
  case repeatedBeacon
  /// A beacon over the number that is wanted in a day.
  case tooManyBeacons

  /// What its counter is called.
  public var name: String {
    switch self {
    case .malformedReport: "MalformedReports"
    case .noDigit: "NamesWithoutDigit"
    case .badText: "BadTexts"
    case .controlCharacter: "ControlCharacters"
    case .duplicate: "Duplicates"
    case .late: "LateCopies"
    case .tooFast: "TooFast"
    case .noRoom: "PeersFull"
    case .tooManyNew: "TooManyNewPeers"
    case .moved: "AddressChanges"
    case .badBeacon: "BadBeacons"
    case .repeatedBeacon: "RepeatedBeacons"
    case .tooManyBeacons: "TooManyBeacons"
    }
  }
}
