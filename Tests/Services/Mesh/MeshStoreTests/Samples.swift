import Bitchat
import BitchatWire
import Bytes
import Crypto
import Loop
import Store
import TestSupport

@testable import MeshStore

/// Sample records. Tests search the files for the words in them.
enum Sample {
  static let time: UInt64 = 1_800_000_000_000
  /// A wall clock that stands still at the time of the samples.
  static var clock: VirtualWallClock { VirtualWallClock(HandClock(), from: Int64(time)) }
  static let secretText = "meet me at the old lighthouse"
  static let secretName = "Marguerite of the harbour"

  static func peer(_ number: UInt64) -> PeerID { PeerID(rawValue: 0xC0FF_EE00_0000_0000 | number) }

  static func key(_ number: UInt64) throws -> Ed25519.PublicKey {
    var random = SeededRandom(seed: number)
    return Ed25519.PrivateKey(randomFrom: &random).publicKey
  }

  static func marks(_ number: UInt64, isFavourite: Bool = false, seenAt: UInt64 = time) throws -> PeerMarks {
    var random = SeededRandom(seed: number)
    return PeerMarks(
      peer: peer(number), nickname: secretName, noiseKey: X25519.PrivateKey(randomFrom: &random).publicKey,
      isFavourite: isFavourite, isVerified: number % 2 == 1, seenAt: seenAt)
  }

  static func outgoing(
    _ number: UInt32, tries: Int = 0, createdAt: UInt64 = time, isDated: Bool = true
  ) throws -> OutgoingMessage {
    OutgoingMessage(
      number: number, peer: peer(1),
      pieces: [
        .init(id: try MessageID("ID-\(number)-a"), text: secretText, isDelivered: true),
        .init(id: try MessageID("ID-\(number)-b"), text: "", isRead: true),
      ], createdAt: createdAt, tries: tries, isDated: isDated)
  }

  /// A message whose envelopes other nodes carry.
  static func deposited(_ number: UInt32) throws -> OutgoingMessage {
    var random = SeededRandom(seed: UInt64(number))
    let message = try outgoing(number, tries: 1)
    return OutgoingMessage(
      number: number, peer: message.peer, pieces: message.pieces, createdAt: message.createdAt, tries: 1,
      noiseKey: X25519.PrivateKey(randomFrom: &random).publicKey, couriers: [peer(3), peer(4)])
  }

  /// An envelope of another sender.
  static func carried(
    _ number: UInt64, isOfFavourite: Bool = false, at time: UInt64 = time, givenTo: [PeerID] = [], bytes: Int = 300
  ) throws -> CarriedEnvelope {
    var random = SeededRandom(seed: number)
    let key = X25519.PrivateKey(randomFrom: &random).publicKey
    let envelope = try CourierEnvelope(
      tag: CourierTag(for: key, day: 20_000), expiry: time + 3_600_000, ciphertext: random.bytes(bytes), copies: 4,
      prekey: number % 2 == 0 ? 7 : nil)
    return CarriedEnvelope(
      envelope: envelope, depositor: peer(number), isOfFavourite: isOfFavourite, storedAt: time, givenTo: givenTo)
  }

  static func gossip(
    _ text: String = secretText, type: MessageType = .message, from sender: PeerID = peer(2), at time: UInt64 = time
  ) throws -> GossipArchive.Item {
    let packet = Packet(type: type, timestamp: time, sender: sender, payload: Array(text.utf8))
    guard let item = GossipArchive.Item(bytes: try packet.encoded()) else { throw WireError.badValue("sample") }
    return item
  }

  static func privateMessage(
    _ number: UInt32, text: String = secretText, at time: UInt64 = time, state: MeshMessage.State = .unread
  ) throws -> MeshMessage {
    MeshMessage(
      number: number, time: time, conversation: peer(1), sender: peer(1), nickname: secretName, text: text,
      messageIDs: [try MessageID("private-\(number)")], state: state)
  }

  static func publicMessage(_ number: UInt32, text: String = secretText, at time: UInt64 = time) throws -> MeshMessage {
    MeshMessage(
      number: number, time: time, conversation: nil, sender: peer(2), nickname: secretName, text: text,
      packet: try gossip(text).id, state: .seen)
  }

  /// One change of each kind that leaves a record.
  static func changes() throws -> [MeshChange] {
    [
      .nickname(secretName), .pin(peer(1), try key(1)), .pin(peer(2), try key(2)), .peer(try marks(1)),
      .peer(try marks(2, isFavourite: true)), .outgoing(try outgoing(7, tries: 3)), .gossip(try gossip()),
      .gossip(try gossip("a fragment", type: .fragment)), .message(try privateMessage(8)),
      .message(try publicMessage(9)), .carried(try carried(1)),
    ]
  }
}

extension StoredNode {
  /// A description of everything but the identity, for comparison.
  var content: [String] {
    var lines = ["nickname \(nickname ?? "-")", "highest \(highestNumber)"]
    lines += pins.map { "pin \($0.peer) \(Hex.encode($0.key.bytes))" }
    lines += peers.map { "peer \($0)" }
    lines += outgoing.map { "outgoing \($0)" }
    lines += gossip.map { "gossip \(Hex.encode($0.bytes))" }
    lines += carried.map { envelope in
      "carried \(envelope.depositor) \(envelope.isOfFavourite) \(envelope.storedAt) \(envelope.givenTo) "
        + Hex.encode(envelope.envelope.bytes)
    }
    lines += messages.map { message in
      "message \(message.number) \(message.time) \(message.conversation?.description ?? "-") \(message.sender) "
        + "\(message.nickname) \(message.text) \(message.messageIDs) \(message.packet?.description ?? "-") \(message.state)"
    }
    return lines
  }
}
