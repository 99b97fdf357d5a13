/// Reason why a received report was not reported to local programs.
public enum Drop: Int, CaseIterable, Hashable, Sendable {
  /// The list of AD structures overruns its end, or is longer than 62 bytes.
  case malformedReport
  /// A name starts with the mark `~`, and no digit follows.
  case noDigit
  /// The text is not UTF-8, or longer than 27 bytes.
  case badText
  /// The text contains a control character.
  case controlCharacter
  /// A copy of the peer's last message.
  case duplicate
  /// A copy of one of the four messages before the last one.
  case late
  /// The message follows the peer's last one within `Limits.heardPeriod` (4 s).
  case tooFast
  /// A message of a new peer, while `Limits.peers` (256) peers are stored.
  case noRoom
  /// A message of a new peer, above `Limits.newPeersPerSecond` (20).
  case tooManyNew
  /// A copy of a message that another address sent within 4 s at a similar signal strength.
  case moved
  /// A beacon with the protocol's UUID and a wrong length.
  case badBeacon
  /// A beacon that was reported earlier today.
  case repeatedBeacon
  /// A beacon above the day's limit.
  case tooManyBeacons

  /// Name of the counter.
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
