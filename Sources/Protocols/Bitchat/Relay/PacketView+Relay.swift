import BitchatWire
import Crypto

extension PacketView {
  /// Returns the deduplication key of the packet.
  ///
  /// - Parameter withSignature: whether copies with different signatures are distinct. Use it where this node does not
  ///   check the signature, so that a copy with a bad signature does not suppress the valid one.
  func wireKey(_ hash: KeyedHash, withSignature: Bool) -> WireKey {
    guard withSignature else { return wireKey(hash) }
    let value = bytes.withUnsafeBytes { hash.hash(UnsafeRawBufferPointer(rebasing: $0[3..<count])) }
    return WireKey(version: bytes[0], type: bytes[1], hash: value)
  }

  /// Whether the packet is a sync request, a fragment of one, or a version hello.
  var isRequest: Bool {
    guard type.inLive == .fragment, !flags.contains(.compressed) else { return type == .requestSync }
    guard hasFragmentHeader else { return true }
    return section.dropFirst(Fragment.headerBytes - 1).first == MessageType.requestSync.rawValue
  }

  /// Whether the packet may be relayed. A version hello, which has the type of fragments, travels one hop.
  var mayPassOn: Bool { type != .fragment || flags.contains(.compressed) || hasFragmentHeader }

  /// Claimed inflated length of the payload, in bytes; 0 for an uncompressed one.
  var inflatedCount: Int {
    guard flags.contains(.compressed) else { return 0 }
    return section.prefix(version == .v1 ? 2 : 4).reduce(0) { $0 << 8 | Int($1) }
  }

  /// Packet as a sync answer, with TTL 0 and the answer flag. It travels one hop and may be old.
  var syncAnswer: [UInt8] {
    var copy = bytes
    copy[2] = 0
    copy[11] = flags.union(.syncAnswer).rawValue
    return copy
  }
}

extension PacketView {
  /// Whether a node decodes the packet. Others are relayed unchanged.
  func isRead(by node: PeerID) -> Bool {
    switch type {
    case .announce, .message, .leave, .requestSync: true
    case .noiseHandshake, .noiseEncrypted, .ping, .pong: recipient == node
    case .courier where recipient == node: true
    case .fragment, .fileTransfer: recipient == nil || recipient == node
    default: isTranslated(for: node)
    }
  }

  /// Whether a node checks the signature when it receives the packet. Copies are then identified by the signed content.
  func isVerified(by node: PeerID) -> Bool { type.isVerifiedHere && isRead(by: node) }
}

extension MessageType {
  /// Whether nodes check signatures of this type when they decode a packet, and identify copies by the signed content.
  var isVerifiedHere: Bool { self == .announce || self == .message || self == .leave || self == .fileTransfer }
}
