import Bytes

/// Content of one advertising report that belongs to this protocol. Facts: pblec.md sections 3 and 4.
enum Report: Hashable {
  /// The advertisement has no content of this protocol.
  case nothing
  case message(MessagePacket)
  /// End of a message, which some senders mark by a name without text. The digit is nil for an empty name.
  case stop(digit: UInt8?)
  case beacon(NotifyBeacon)
  case refused(Drop)

  /// Parses AD structures without allocating memory.
  ///
  /// The list ends at its last byte or at a length of 0. A complete name takes precedence over a shortened one, the
  /// first of a kind over later ones, and a message over a beacon.
  init(reading data: [UInt8]) {
    guard data.count <= Limits.reportBytes else {
      self = .refused(.malformedReport)
      return
    }
    var complete: ArraySlice<UInt8>?
    var shortened: ArraySlice<UInt8>?
    var manufacturer: ArraySlice<UInt8>?
    var reader = ByteReader(data)
    do throws(WireError) {
      while !reader.isAtEnd {
        let length = Int(try reader.u8())
        guard length > 0 else { break }
        let type = try reader.u8()
        let value = try reader.bytes(length - 1)
        switch type {
        case MessagePacket.completeName where complete == nil: complete = value
        case MessagePacket.shortenedName where shortened == nil: shortened = value
        case NotifyBeacon.manufacturerData where value.starts(with: NotifyBeacon.prefix): manufacturer = value
        default: break
        }
      }
    } catch {
      self = .refused(.malformedReport)
      return
    }
    self =
      complete.map { Self(name: $0, isComplete: true) } ?? shortened.map { Self(name: $0, isComplete: false) }
      ?? .nothing
    guard case .nothing = self, let manufacturer else { return }
    do throws(WireError) {
      self = .beacon(try NotifyBeacon(reading: manufacturer))
    } catch {
      self = .refused(.badBeacon)
    }
  }

  private init(name: ArraySlice<UInt8>, isComplete: Bool) {
    var rest = name
    guard let mark = rest.popFirst() else {
      self = .stop(digit: nil)
      return
    }
    guard mark == MessagePacket.mark else {
      self = .nothing
      return
    }
    guard let digit = rest.popFirst(), (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else {
      self = .refused(.noDigit)
      return
    }
    // A shortened name may end within a character.
    guard rest.count <= Limits.heardTextBytes, let whole = UTF8Text.wholeCharacters(in: rest),
      whole == rest.count || !isComplete
    else {
      self = .refused(.badText)
      return
    }
    let text = rest.prefix(whole)
    guard !MessageText.hasControls(text) else {
      self = .refused(.controlCharacter)
      return
    }
    let number = digit - UInt8(ascii: "0")
    self =
      text.isEmpty ? .stop(digit: number) : .message(MessagePacket(digit: number, text: MessageText(unchecked: text)))
  }
}

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
  /// The message is a copy of the peer's last message.
  case duplicate
  /// The message is a copy of one of the four messages before the peer's last one.
  case late
  /// The message follows the peer's last one within `Limits.heardPeriod` (4 s).
  case tooFast
  /// The message is of a new peer, while `Limits.peers` (256) peers are stored.
  case noRoom
  /// The message is of a new peer, after `Limits.newPeersPerSecond` (20) other new peers in a second.
  case tooManyNew
  /// The message is a copy of one that another address sent within 4 s at a similar signal strength.
  case moved
  /// A beacon has the protocol's UUID, but a wrong length.
  case badBeacon
  /// The beacon was already reported today.
  case repeatedBeacon
  /// The beacon exceeds the number of notifications allowed in a day.
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
