extension MessageType {
  /// Whether dialect S, or mid-2025, uses the type for something that the live dialect encodes differently or does not
  /// have.
  var isOfSeed: Bool { rawValue < 32 && (Self.seedNumbers | 1 << 0x04) >> UInt32(rawValue) & 1 == 1 }

  /// Like `isOfSeed`, without 04, which is a courier envelope in the live dialect. The live dialect does not use the
  /// other types.
  var isOfSeedAlone: Bool { rawValue < 32 && Self.seedNumbers >> UInt32(rawValue) & 1 == 1 }

  /// Whether dialect S, or mid-2025, uses the type for fragments.
  var isSeedFragment: Bool { (0x0A...0x0C).contains(rawValue) }

  /// Bit set of the types 05 to 07, 0A to 0C, and 12.
  private static let seedNumbers: UInt32 = 0b0000_0000_0000_0100_0001_1100_1110_0000

  /// Corresponding type of the live dialect, for relaying.
  var inLive: MessageType {
    switch self {
    case SeedNumbers.seed.message: .message
    case SeedNumbers.seed.leave: .leave
    case SeedNumbers.seed.encrypted: .noiseEncrypted
    default: isSeedFragment ? .fragment : self
    }
  }
}

extension PacketView {
  /// Whether the payload, which must be uncompressed, begins with a valid fragment header.
  var hasFragmentHeader: Bool {
    let section = section
    guard section.count >= Fragment.headerBytes else { return false }
    let start = section.startIndex
    let index = Int(bytes[start + 8]) << 8 | Int(bytes[start + 9])
    let total = Int(bytes[start + 10]) << 8 | Int(bytes[start + 11])
    return index < total && total <= Limits.fragments
  }

  /// Whether the packet belongs to dialect S, which is sent only to peers that speak it.
  var isOfSeed: Bool {
    if type == SeedNumbers.seed.message {
      guard let packet = try? Packet(self) else { return false }
      return PacketMeaning(type: type, payload: packet.payload) == .seedMessage
    }
    return type.isOfSeedAlone
  }
}
