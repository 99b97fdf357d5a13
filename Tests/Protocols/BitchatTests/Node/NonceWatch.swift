@testable import Bitchat
@testable import BitchatWire

/// Checks on the radio that no key and nonce seal two different messages: the nonces in each direction grow, and
/// restart only with a session from a new handshake.
final class NonceWatch {
  private struct Way: Hashable {
    let from: PeerID
    let to: PeerID
  }

  private struct Stand {
    var highest: UInt32
    /// Sealed messages of this session, by nonce.
    var sealed: [UInt32: [UInt8]]
    var handshakes: Int
  }

  private var stands: [Way: Stand] = [:]
  /// Last messages of handshakes in either direction, by pair of nodes.
  private var handshakes: [Set<PeerID>: Set<[UInt8]>] = [:]
  private(set) var findings: [String] = []
  private(set) var count = 0

  func see(_ bytes: [UInt8]) {
    guard let view = try? PacketView(bytes), let recipient = view.recipient,
      view.type == .noiseHandshake || view.type == .noiseEncrypted, let packet = try? Packet(view)
    else { return }
    let pair: Set = [view.sender, recipient]
    if view.type == .noiseHandshake {
      // The second message has 96 bytes and completes its reader's session. The third message completes the other
      // side's.
      if packet.payload.count != 32 { handshakes[pair, default: []].insert(packet.payload) }
      return
    }
    guard packet.payload.count > 4 else { return }
    count += 1
    let nonce = packet.payload.prefix(4).reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
    let way = Way(from: view.sender, to: recipient)
    let made = handshakes[pair]?.count ?? 0
    guard var stand = stands[way] else {
      stands[way] = Stand(highest: nonce, sealed: [nonce: packet.payload], handshakes: made)
      return
    }
    if stand.sealed[nonce] == packet.payload { return }
    if nonce > stand.highest {
      stand.highest = nonce
      stand.sealed[nonce] = packet.payload
    } else if nonce == 0, made > stand.handshakes {
      stand = Stand(highest: 0, sealed: [0: packet.payload], handshakes: made)
    } else {
      findings.append("\(view.sender) uses nonce \(nonce) again")
    }
    stands[way] = stand
  }
}
