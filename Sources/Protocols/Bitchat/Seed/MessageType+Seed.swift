extension MessageType {
  /// Whether dialect S, or mid-2025, uses the number for what the live dialect sends otherwise, or does not send.
  var isOfSeed: Bool { rawValue < 32 && (Self.seedNumbers | 1 << 0x04) >> UInt32(rawValue) & 1 == 1 }

  /// The same without 04, which is a courier's envelope in the live dialect: nothing else has these numbers.
  var isOfSeedAlone: Bool { rawValue < 32 && Self.seedNumbers >> UInt32(rawValue) & 1 == 1 }

  /// Whether it is a part of a packet by the seed's numbers.
  var isSeedFragment: Bool { (0x0A...0x0C).contains(rawValue) }

  /// 05 to 07, 0A to 0C, and 12.
  private static let seedNumbers: UInt32 = 0b0000_0000_0000_0100_0001_1100_1110_0000

  /// What the live dialect calls a packet of dialect S, for those who pass it on.
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
  /// Whether the payload, which is not compressed, begins as a fragment does.
  var hasFragmentHeader: Bool {
    let section = section
    guard section.count >= Fragment.headerBytes else { return false }
    let start = section.startIndex
    let index = Int(bytes[start + 8]) << 8 | Int(bytes[start + 9])
    let total = Int(bytes[start + 10]) << 8 | Int(bytes[start + 11])
    return index < total && total <= Limits.fragments
  }

  /// Whether it is of dialect S, which goes to peers alone that speak it.
  var isOfSeed: Bool {
    if type == SeedNumbers.seed.message {
      guard let packet = try? Packet(self) else { return false }
      return PacketMeaning(type: type, payload: packet.payload) == .seedMessage
    }
    return type.isOfSeedAlone
  }
}
