import Common

@testable import Bitchat
@testable import BitchatWire

/// Records the packets on a hall's simulated radio, for tests that inspect them.
final class Overheard {
  struct Packet {
    let bytes: [UInt8]
    let from: Int
    let to: Int
    let at: Instant

    var type: UInt8 { bytes[1] }
    var view: PacketView? { try? PacketView(bytes) }
    /// The packet, inflated.
    var packet: BitchatWire.Packet? { view.flatMap { try? BitchatWire.Packet($0) } }
    /// The meaning of the packet to a node that has a session of dialect S with every peer.
    var meaning: PacketMeaning? {
      packet.map {
        PacketMeaning(
          type: $0.type, payload: $0.payload,
          state: .init(awaitsHandshakeResponse: $0.payload.count == 96, hasSession: true))
      }
    }
    /// Whether the packet exists in dialect S only.
    var isOfSeed: Bool {
      switch meaning {
      // Number 11 exists in both dialects, and a packet 04 that does not decode is relayed as an unknown type.
      case .live, .courier, .ciphertext, .seedHandshakeResponse, .fragment, .requestSync, nil: false
      default: true
      }
    }
  }

  var packets: [Packet] = []

  /// Records all packets of a hall from now on.
  static func listen(to hall: inout MeshHall) -> Overheard {
    let overheard = Overheard()
    hall.overheard = overheard
    return overheard
  }

  func types(from node: Int? = nil) -> [UInt8] { packets.filter { node == nil || $0.from == node }.map(\.type) }

  func all(_ type: UInt8, from node: Int? = nil) -> [Packet] {
    packets.filter { $0.type == type && (node == nil || $0.from == node) }
  }

  func all(_ type: MessageType) -> [Packet] { all(type.rawValue) }

  func forget() { packets = [] }
}
