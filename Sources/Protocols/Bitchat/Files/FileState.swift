import BitchatWire

/// State of a file of this node.
public enum FileState: Hashable, Sendable {
  /// The file waits for other files, a neighbour, the peer, or a session with it.
  case waiting
  /// The file is being sent, or awaits the peer's acknowledgement.
  case sending
  /// All packets were queued on the links (of a public file, on at least one). No acknowledgement is expected, because
  /// the file is public or the phone sends none. The last packets may still wait for the radio.
  case sent
  /// The peer has acknowledged the file.
  case delivered
  case failed(FileFailure)
  case cancelled

  /// Whether the file stays in this state for good.
  public var isEnd: Bool {
    switch self {
    case .waiting, .sending: false
    case .sent, .delivered, .failed, .cancelled: true
    }
  }
}

/// Reason why a file was not sent.
public enum FileFailure: String, Error, CaseIterable, Hashable, Sendable {
  /// The peer has not stated inside Noise that it accepts private files.
  case noPrivateFiles
  /// The peer has acknowledged none of the attempts.
  case unanswered
  /// The peer, or any neighbour, was out of range for a day.
  case away
  /// No packet can carry the file, or the links failed repeatedly.
  case unsendable
}

/// Packets in which a file is sent.
public enum FilePackets: Hashable, Sendable {
  /// The fragments of the file's packet, which share this ID.
  case fragments(FragmentID)
  /// A single packet with these bytes.
  case whole([UInt8])

  /// Whether the packet is one of them, as first sent or as a sync answer.
  public func contains(_ bytes: [UInt8]) -> Bool {
    switch self {
    case .fragments(let id): FragmentID(ofPacket: bytes) == id
    case .whole(let packet):
      // A sync answer differs in TTL and flags.
      bytes.count == packet.count && bytes.indices.allSatisfy { $0 == 2 || $0 == 11 || bytes[$0] == packet[$0] }
    }
  }
}
