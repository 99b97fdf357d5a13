import Crypto

extension PacketView {
  /// The key of the packet.
  ///
  /// - Parameter withSignature: whether a copy with another signature is another packet. It is one where the signature is not
  ///   checked here: a copy with a bad signature must not suppress the right one.
  func wireKey(_ hash: KeyedHash, withSignature: Bool) -> WireKey {
    guard withSignature else { return wireKey(hash) }
    let value = bytes.withUnsafeBytes { hash.hash(UnsafeRawBufferPointer(rebasing: $0[3..<count])) }
    return WireKey(version: bytes[0], type: bytes[1], hash: value)
  }

  /// Whether it asks for sync, or is a fragment of a packet that does, or a hello of dialect S.
  var isRequest: Bool {
    guard type == .fragment || type.isSeedFragment, !flags.contains(.compressed) else { return type == .requestSync }
    guard hasFragmentHeader else { return true }
    return section.dropFirst(Fragment.headerBytes - 1).first == MessageType.requestSync.rawValue
  }

  /// Whether it may be passed on: a hello of dialect S, which has the number of fragments, is for one hop.
  var mayPassOn: Bool { type != .fragment || flags.contains(.compressed) || hasFragmentHeader }

  /// How long its payload says that it is once it is inflated; 0 for one that is not compressed.
  var inflatedCount: Int {
    guard flags.contains(.compressed) else { return 0 }
    return section.prefix(version == .v1 ? 2 : 4).reduce(0) { $0 << 8 | Int($1) }
  }

  /// The bytes as the answer to a request for sync: they go one hop, and may be old.
  var syncAnswer: [UInt8] {
    var copy = bytes
    copy[2] = 0
    copy[11] = flags.union(.syncAnswer).rawValue
    return copy
  }
}
