import Common

@testable import Bitchat

/// What goes over the air of a hall, for tests that look at packets.
final class Overheard {
  struct Packet {
    let bytes: [UInt8]
    let from: Int
    let to: Int
    let at: Instant

    var type: UInt8 { bytes[1] }
    var view: PacketView? { try? PacketView(bytes) }
    /// The packet, inflated.
    var packet: Bitchat.Packet? { view.flatMap { try? Bitchat.Packet($0) } }
    /// What it means, to somebody who has a session of dialect S with everybody.
    var meaning: PacketMeaning? {
      packet.map {
        PacketMeaning(
          type: $0.type, payload: $0.payload,
          state: .init(awaitsHandshakeResponse: $0.payload.count == 96, hasSession: true))
      }
    }
    /// Whether the apps have no such packet.
    var isOfSeed: Bool {
      switch meaning {
      // 11 is a number of both, and what 04 is not goes on as what nobody knows.
      case .live, .courier, .ciphertext, .seedHandshakeResponse, .fragment, .requestSync, nil: false
      default: true
      }
    }
  }

  var packets: [Packet] = []

  /// All that passes the air of a hall from now on.
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
