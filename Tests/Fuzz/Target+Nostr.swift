import Bitchat
import Bytes
import Common
import Crypto
import Foundation

@testable import Nostr

extension Target {
  /// Nostr: what authors publish, what strangers enclose in envelopes, and what relays send.
  static let nostr = [
    Target(
      name: "nostr-event",
      seeds: { try NostrVectors.read().events() },
      goals: ["verified", "refused"],
      play: { bytes in
        guard let event = taken({ try ReceivedEvent(json: Array(bytes)).verified() }) else { return ["refused"] }
        let again = taken { try ReceivedEvent(json: Array(event.json.utf8)).verified() }
        promise(again == event, "a verified event is read as it was written")
        for geohash in ["u4pruy", "u4pru"].compactMap({ try? Geohash($0) }) {
          guard let channel = taken({ try ChannelEvent(event, in: geohash) }) else { continue }
          promise((channel.text?.utf8.count ?? 0) <= NostrLimits.channelTextBytes, "a channel's text has its limit")
        }
        return ["verified"]
      }),
    // The first byte chooses the layer that the other bytes are: 0 the rumor, 1 the seal, else the wrap.
    Target(
      name: "nostr-envelope",
      seeds: { try NostrPlay.layers() },
      goals: ["opened", "refused"],
      play: { bytes in
        guard let play = NostrPlay.shared, let layer = bytes.first else { return [] }
        let text = Array(bytes.dropFirst())
        guard let wrap = taken({ try play.wrap(text, layer: layer) }) else { return ["refused"] }
        guard
          let opened = taken({
            try PrivateEnvelope.open(wrap, by: play.reader, now: play.now) { $0 == play.sender.xOnlyKey }
          })
        else { return ["refused"] }
        promise(opened.sender == play.sender.xOnlyKey, "a message is of the seal's author")
        promise((1...NostrLimits.contentBytes).contains(opened.text.utf8.count), "a text has its limit")
        return ["opened"]
      }),
    Target(
      name: "nostr-relay",
      seeds: {
        let events = try NostrVectors.read().events()
        let id = NostrPlay.shared?.subscription ?? ""
        return events.map { Array("[\"EVENT\",\"\(id)\",".utf8) + $0 + Array("]".utf8) }
          + [
            "[\"EOSE\",\"\(id)\"]", "[\"CLOSED\",\"\(id)\",\"error: \\u00e9\"]", "[\"NOTICE\",\"n\"]",
            "[\"AUTH\",\"c\"]", "[\"OK\",\"\(String(repeating: "0a", count: 32))\",false,\"blocked: no\"]",
            "[\"COUNT\",\"s\",{\"count\":3}]",
          ].map { Array($0.utf8) }
      },
      goals: ["event", "delivered", "message", "refused"],
      play: { bytes in
        guard let play = NostrPlay.shared else { return [] }
        let now = Instant.zero
        var engine = play.engine
        let intents = engine.handle(.received(play.link, Array(bytes)), at: now, wall: play.now)
        for case .send(_, let text) in intents { promise(text.hasPrefix("["), "a message to a relay is an array") }
        promise(engine.deadline(at: now, wall: play.now).map { $0 >= now } ?? true, "a deadline is not in the past")
        guard let message = taken({ try RelayMessage(Array(bytes)) }) else {
          promise(intents.contains(.close(play.link, .malformedMessage)), "a malformed message closes its relay")
          return ["refused"]
        }
        for case .message in intents { return ["event", "delivered"] }
        if case .event(_, .success) = message { return ["event"] }
        return ["message"]
      }),
    Target(
      name: "nostr-embedded",
      seeds: { try NostrVectors.read().nostrEmbedded.map { Array($0.content.utf8) } },
      goals: ["packet", "refused"],
      play: { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        guard let packet = taken({ try EmbeddedPacket(text: text) }) else { return ["refused"] }
        let again = taken { try EmbeddedPacket(text: packet.text()) }
        promise(again == packet, "an embedded packet is read as it was written")
        return ["packet"]
      }),
  ]
}

/// Two people, and an engine that is connected to a relay.
private struct NostrPlay: Sendable {
  let sender: Secp256k1.PrivateKey
  let once: Secp256k1.PrivateKey
  let reader: PrivateEnvelope.Reader
  let now = UnixTime(seconds: 1_755_432_100)
  let link: RelayLink
  private(set) var engine: NostrEngine
  /// The name of the engine's subscription.
  private(set) var subscription = ""

  static let shared: NostrPlay? = try? NostrPlay()

  private init() throws {
    func key(_ last: UInt8) throws -> Secp256k1.PrivateKey {
      try Secp256k1.PrivateKey(copying: [UInt8](repeating: 0, count: 31) + [last])
    }
    (sender, once) = (try key(3), try key(11))
    let recipient = try key(7)
    reader = PrivateEnvelope.Reader(key: recipient, dialects: Set(EnvelopeDialect.allCases))
    let address = try RelayAddress("wss://relay.example")
    link = RelayLink(address)
    engine = try NostrEngine(
      key: recipient, configuration: NostrEngine.Configuration(relays: [address]), contacts: [sender.xOnlyKey],
      at: .zero, random: SeededRandom(seed: 1))
    for event in [NostrEngine.Event.network(isReady: true), .opened(link)] {
      for case .send(_, let text) in engine.handle(event, at: .zero, wall: now) {
        subscription = text.split(separator: "\"").dropFirst(3).first.map(String.init) ?? ""
      }
    }
  }

  /// An envelope with the text as one of its layers.
  func wrap(_ text: [UInt8], layer: UInt8) throws -> NostrEvent {
    var random = SeededRandom(seed: 2)
    let to = reader.key.xOnlyKey
    switch layer {
    case 0:
      let seal = EventDraft(
        author: sender.xOnlyKey, createdAt: now, kind: .seal,
        content: try AppCipher.seal(text, from: sender, to: to, nonce: random.bytes(24)))
      return try wrap(Array(seal.signed(with: sender, randomFrom: &random).json.utf8), layer: 1)
    case 1:
      let wrap = EventDraft(
        author: once.xOnlyKey, createdAt: now, kind: .giftWrap, tags: [["p", to.hex]],
        content: try AppCipher.seal(text, from: once, to: to, nonce: random.bytes(24)))
      return try wrap.signed(with: once, randomFrom: &random)
    default: return try ReceivedEvent(json: text).verified()
    }
  }

  static func layers() throws -> [[UInt8]] {
    let vectors = try NostrVectors.read()
    let envelope = vectors.nostrPrivateEnvelope
    return [[0] + (try envelope.rumor.json()), [1] + (try envelope.seal.json()), [2] + (try envelope.giftWrap.json())]
  }
}

/// Vectors of Nostr that serve as seeds.
private struct NostrVectors: Decodable {
  struct Event: Decodable {
    let id: String
    let pubkey: String
    let createdAt: Int64
    let kind: Int
    let tags: [[String]]
    let content: String
    let sig: String?

    func json() throws -> [UInt8] {
      var object: [String: Any] = [
        "id": id, "pubkey": pubkey, "created_at": createdAt, "kind": kind, "tags": tags, "content": content,
      ]
      object["sig"] = sig
      return Array(try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys]))
    }
  }
  struct Envelope: Decodable { let rumor, seal, giftWrap: Event }
  struct Channel: Decodable { let chat, presence: Event }
  struct Embedded: Decodable { let content: String }

  let nostrEmbedded: [Embedded]
  let nostrPrivateEnvelope: Envelope
  let nostrGeohash: Channel

  func events() throws -> [[UInt8]] {
    try [nostrGeohash.chat, nostrGeohash.presence, nostrPrivateEnvelope.giftWrap, nostrPrivateEnvelope.seal].map {
      try $0.json()
    }
  }

  static func read() throws -> NostrVectors {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let file = tests.appending(path: "Protocols/NostrTests/Vectors/nostr.json")
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(NostrVectors.self, from: Data(contentsOf: file))
  }
}
