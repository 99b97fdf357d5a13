import Common

/// Forms of the protocol that this node can use with a peer. Facts: bitchat.md section 16.1.
///
/// Where the dialects differ in form only, `Translator` converts. Where they differ in behaviour, the rule has a name
/// here, and the machines ask for it instead of comparing dialects.
public enum MeshDialect: String, CaseIterable, Hashable, Sendable {
  /// Dialect L, which the apps use.
  case live
  /// Dialect S: packet types and layouts of the seed's document.
  case seed

  /// Packet type of public messages in this dialect.
  package var message: MessageType { self == .live ? .message : SeedNumbers.seed.message }
  /// Whether all packets are padded, not only those with sealed content.
  package var padsAll: Bool { self == .seed }
  /// Whether neighbours are asked half as often for packets that this node missed.
  package var syncsSlowly: Bool { self == .seed }
  /// Whether sync requests consist of a short filter alone, without types and times.
  package var hasBareRequests: Bool { self == .seed }
  /// Whether answers to sync requests are marked as such.
  package var marksAnswers: Bool { self == .live }
  /// Whether peers display public messages of the other dialect, too.
  package var showsOtherMessages: Bool { self == .seed }
  /// Whether packets may have a route. Each hop on a route must speak the packet's dialect.
  package var hasRoutes: Bool { self == .live }

  /// Value of the announce record that offers the dialect; nil for dialect L, which every peer speaks.
  package var mark: [UInt8]? { self == .live ? nil : Array("S1".utf8) }

  package init(mark: ArraySlice<UInt8>) { self = Self.allCases.first { $0.mark.map { $0[...] } == mark } ?? .live }

  /// Returns the frames in which a packet is sent in fragments, and the time between frames. A packet of more fragments
  /// than dialect S allows is sent in those of dialect L.
  ///
  /// - Parameter limit: maximum length of a frame, in bytes.
  package func frames(of plan: FragmentPlan, limit: Int) -> (frames: [[UInt8]], pause: Duration) {
    if self == .seed, let fragments = SeedFragments.packets(of: plan, numbers: .seed) {
      let frames = fragments.compactMap { fragment -> [UInt8]? in
        if let padded = try? fragment.encoded(padded: true), padded.count <= limit { return padded }
        return try? fragment.encoded()
      }
      return (frames, SeedFragments.pause)
    }
    return (plan.fragments.compactMap { try? $0.encoded() }, Limits.fragmentPause)
  }
}

extension MessageType {
  /// Whether dialect S, or mid-2025, uses the type for something that the live dialect encodes differently or does not
  /// have.
  package var isTranslated: Bool { rawValue < 32 && (Self.otherNumbers | 1 << 0x04) >> UInt32(rawValue) & 1 == 1 }

  /// Whether the type is one of `isTranslated` and has no meaning in the live dialect. This excludes 04, which is a
  /// courier envelope there.
  package var isNeverLive: Bool { rawValue < 32 && Self.otherNumbers >> UInt32(rawValue) & 1 == 1 }

  /// Bit set of the types 05 to 07, 0A to 0C, and 12.
  private static let otherNumbers: UInt32 = 0b0000_0000_0000_0100_0001_1100_1110_0000

  /// Corresponding type of the live dialect, for limits and for relaying. Type 04 counts as a message.
  package var inLive: MessageType {
    switch self {
    case SeedNumbers.seed.message: .message
    case SeedNumbers.seed.leave: .leave
    case SeedNumbers.seed.encrypted: .noiseEncrypted
    case SeedNumbers.seed.fragmentStart, SeedNumbers.seed.fragmentContinue, SeedNumbers.seed.fragmentEnd: .fragment
    default: self
    }
  }

  /// Whether the type is that of public messages in some dialect. Type 04 is also that of courier envelopes.
  package var mayBePublicMessage: Bool { inLive == .message }

  /// Whether the type is that of the first fragment of a packet in some dialect.
  package var mayBeFirstFragment: Bool {
    self == .fragment || self == SeedNumbers.seed.fragmentStart || self == SeedNumbers.mid2025.fragmentStart
  }
}

extension PacketView {
  /// Dialect of the packet. Packets of dialect S are sent only to peers that speak it.
  package var dialect: MeshDialect {
    if type == SeedNumbers.seed.message {
      guard let packet = try? Packet(self) else { return .live }
      return PacketMeaning(type: type, payload: packet.payload) == .seedMessage ? .seed : .live
    }
    return type.isNeverLive ? .seed : .live
  }

  /// Type that the packet has in the live dialect.
  package var liveType: MessageType { dialect == .live ? type : type.inLive }

  /// Whether the payload, which must be uncompressed, begins with a valid fragment header.
  package var hasFragmentHeader: Bool {
    let section = section
    guard section.count >= Fragment.headerBytes else { return false }
    let start = section.startIndex
    let index = Int(bytes[start + 8]) << 8 | Int(bytes[start + 9])
    let total = Int(bytes[start + 10]) << 8 | Int(bytes[start + 11])
    return index < total && total <= Limits.fragments
  }

  /// Whether a node decodes a packet of a type that is translated. The meaning of type 04 depends on its payload.
  package func isTranslated(for node: PeerID) -> Bool {
    guard type.isTranslated else { return false }
    return !type.isNeverLive || recipient.map { $0 == node } ?? true
  }
}
