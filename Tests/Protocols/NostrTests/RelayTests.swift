import Bytes
import Common
import Crypto
import Testing

@testable import Nostr

@Suite("Messages of Nostr relays")
struct RelayMessageTests {
  private static func read(_ text: String) throws(RelayMessage.Problem) -> RelayMessage {
    try RelayMessage(Array(text.utf8))
  }

  @Test("Each relay message of NIP-01 and NIP-42 is read, and an unknown type or further element is ignored")
  func messages() throws {
    let id = String(repeating: "ab", count: 32)
    let event = try #require(EventID(hex: id))
    #expect(try Self.read("[\"EOSE\",\"s\"]") == .endOfStored(SubscriptionID("s")))
    #expect(try Self.read(" [ \"OK\" , \"\(id)\" , true , \"\" ] ") == .verdict(event, isAccepted: true, reason: ""))
    #expect(
      try Self.read("[\"OK\",\"\(id)\",false,\"blocked: no\"]")
        == .verdict(event, isAccepted: false, reason: "blocked: no"))
    #expect(try Self.read("[\"OK\",\"\(id)\",true]") == .verdict(event, isAccepted: true, reason: ""))
    #expect(try Self.read("[\"NOTICE\",\"n\",{\"x\":[1]}]") == .notice("n"))
    #expect(try Self.read("[\"CLOSED\",\"s\",\"error: x\"]") == .closed(SubscriptionID("s"), reason: "error: x"))
    #expect(try Self.read("[\"AUTH\",\"c\"]") == .challenge("c"))
    #expect(try Self.read("[\"COUNT\",\"s\",{\"count\":3}]") == .unknown)
    let long = String(repeating: "é", count: 1000)
    guard case .notice(let text) = try Self.read("[\"NOTICE\",\"\(long)\"]") else { throw Missing() }
    #expect(text.utf8.count == NostrLimits.reasonBytes)
  }

  private struct Missing: Error {}

  @Test("A malformed event in a well-formed relay message is reported as an error of the event")
  func events() throws {
    guard case .event(let subscription, let event) = try Self.read("[\"EVENT\",\"s\",{\"id\":1}]") else {
      throw Missing()
    }
    #expect(subscription == SubscriptionID("s"))
    #expect(event == .failure(.malformedEvent))
    let long = String(repeating: "a", count: NostrLimits.eventBytes)
    guard case .event(_, let second) = try Self.read("[\"EVENT\",\"s\",{\"content\":\"\(long)\"}]") else {
      throw Missing()
    }
    #expect(second == .failure(.eventTooLong))
  }

  @Test(
    "A relay message that is not JSON, or does not have the form of NIP-01, is malformed",
    arguments: [
      "", "[", "[]", "{}", "null", "[1]", "[\"EVENT\"]", "[\"EVENT\",\"s\"]", "[\"EVENT\",\"s\",[]]",
      "[\"EVENT\",\"s\",{]", "[\"EVENT\",1,{}]", "[\"EOSE\"]", "[\"EOSE\",\"s\"", "[\"EOSE\",\"s\"]]",
      "[\"OK\",\"ab\",true]", "[\"OK\",1,true]", "[\"NOTICE\",1]", "[\"EOSE\",\"s\",]", "[\"EOSE\",\"s\"] x",
      "[\"x\",01]", "[\"x\",1.]", "[\"x\",tru]", "[\"x\",+1]", "[\"x\",\"\\u12\"]", "[\"x\",\"\\ud800x\"]",
      "[\"x\",{\"a\"}]", "[\"x\",{\"a\":1,}]", "[\"x\" \"y\"]",
    ])
  func malformed(text: String) {
    #expect(throws: RelayMessage.Problem.malformed) { try Self.read(text) }
  }

  @Test("A relay message over 256 KiB, that is not UTF-8, or with deeply nested values is refused")
  func limits() {
    let long = String(repeating: "a", count: NostrLimits.messageBytes)
    #expect(throws: RelayMessage.Problem.tooLong) { try Self.read("[\"NOTICE\",\"\(long)\"]") }
    let cut = Array("[\"NOTICE\",\"".utf8) + [0xC3] + Array("\"]".utf8)
    #expect(throws: RelayMessage.Problem.malformed) { try RelayMessage(cut) }
    let deep = String(repeating: "[", count: 100_000)
    #expect(throws: RelayMessage.Problem.malformed) { try Self.read("[\"x\",\(deep)") }
    let id = String(repeating: "s", count: NostrLimits.subscriptionBytes + 1)
    #expect(throws: RelayMessage.Problem.malformed) { try Self.read("[\"EOSE\",\"\(id)\"]") }
  }

  @Test("Messages to Nostr relays have the form of NIP-01")
  func clientMessages() throws {
    let key = try People.key(3).xOnlyKey
    let filter = EventFilter(kinds: [.giftWrap], recipients: [key], since: UnixTime(seconds: 5), limit: 7)
    #expect(
      ClientMessage.request(SubscriptionID("a\"b"), [filter]).text
        == "[\"REQ\",\"a\\\"b\",{\"kinds\":[1059],\"#p\":[\"\(key.hex)\"],\"since\":5,\"limit\":7}]")
    let channel = EventFilter(kinds: [.channelText, .channelPresence], geohashes: [try Geohash("u4pruy")], limit: 1)
    #expect(
      ClientMessage.request(SubscriptionID("s"), [channel, filter]).text
        .hasPrefix("[\"REQ\",\"s\",{\"kinds\":[20000,20001],\"#g\":[\"u4pruy\"],\"limit\":1},{"))
    #expect(ClientMessage.close(SubscriptionID("s")).text == "[\"CLOSE\",\"s\"]")
  }

  @Test("Nostr relay addresses are read in one canonical form, and others are refused")
  func addresses() throws {
    let address = try RelayAddress("WSS://Relay.Example.org:443/")
    #expect(try RelayAddress("wss://relay.example.org") == address)
    #expect(address.text == "wss://relay.example.org")
    #expect((address.host, address.port, address.path, address.isSecure) == ("relay.example.org", 443, "/", true))
    let full = try RelayAddress("wss://[2001:DB8::1]:7443/Path?q=1")
    #expect((full.host, full.port, full.path) == ("2001:db8::1", 7443, "/Path?q=1"))
    #expect(full.text == "wss://[2001:db8::1]:7443/Path?q=1")
    #expect(try RelayAddress("ws://127.0.0.1:80", allowsPlain: true).text == "ws://127.0.0.1")
    #expect(throws: NostrError.plainAddress("ws://127.0.0.1")) { try RelayAddress("ws://127.0.0.1") }
    let wrong = [
      "", "wss://", "https://a", "a.b", "wss://a b", "wss://a:", "wss://a:0", "wss://a:65536", "wss://a:1x",
      "wss://a@b", "wss://a..b", "wss://[::1", "wss://[x]", "wss://a/#f", "wss://é.example", "wss://a:1:2",
      "wss://" + String(repeating: "a", count: 300),
    ]
    for text in wrong { #expect(throws: NostrError.badAddress(text)) { try RelayAddress(text) } }
    for text in RelayAddress.apps { #expect(try RelayAddress(text).text == text) }
  }
}

@Suite("Connections to Nostr relays")
struct RelaySessionTests {
  private static let one = RelayLink(NostrWorld.one)
  private static let two = RelayLink(NostrWorld.two)

  private static func world(
    _ change: (inout NostrEngine.Configuration) throws -> Void = { _ in }
  ) throws -> NostrWorld {
    var world = NostrWorld()
    try world.add(7, contacts: [3], change)
    world.start()
    return world
  }

  private static func isWaiting(_ state: RelayState?) -> Bool {
    if case .waiting = state { true } else { false }
  }

  @Test("A Nostr relay that sends malformed, long or too many messages is closed for a while, and others stay open")
  func faults() throws {
    let notice = Array("[\"NOTICE\",\"x\"]".utf8)
    let cases: [(RelayFault, [[UInt8]])] = [
      (.malformedMessage, [Array("nonsense".utf8)]),
      (.messageTooLong, [[UInt8](repeating: 0x20, count: NostrLimits.messageBytes + 1)]),
      (.flood, [[UInt8]](repeating: notice, count: NostrLimits.otherMessagesPerSecond + 2)),
      (.mistakes, [[UInt8]](repeating: Array("[\"EVENT\",\"other\",{}]".utf8), count: NostrLimits.relayMistakes)),
    ]
    for (fault, messages) in cases {
      var world = try Self.world()
      for message in messages { world.handle(0, .received(Self.one, message)) }
      #expect(world.logs[0].closes.map(\.fault) == [fault])
      #expect(world.count(fault.name, of: 0) == 1)
      #expect(Self.isWaiting(world.state(0, Self.one)))
      #expect(world.nodes[0].relays.first?.reason == fault.sentence)
      #expect(world.state(0, Self.two) == .live)
      world.run(.seconds(5))
      #expect(world.state(0, Self.one) == .live)
    }
  }

  @Test("More than 100 Nostr events a second count as a flood, and requested stored events do not")
  func flood() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    var forge = try Forge()
    for number in 0..<(NostrLimits.eventsPerSecond * 2) {
      forge.rumor.content = "\(number)"
      let event = try forge.wrap()
      _ = world.relays[NostrWorld.one]?.receive("[\"EVENT\",\(event.json)]", from: 9, Self.one)
    }
    try world.add(7, contacts: [3])
    world.start()
    #expect(world.logs[0].messages.count == NostrLimits.eventsPerSecond * 2)
    #expect(world.state(0, Self.one) == .live)
    let event = try forge.wrap().json
    for _ in 0..<NostrLimits.eventsPerSecond { world.deliver(event, to: 0, Self.one) }
    #expect(world.state(0, Self.one) == .live)
    world.deliver(event, to: 0, Self.one)
    #expect(world.logs[0].closes.map(\.fault) == [.flood])
  }

  @Test("A relay that sends more than 50 pings or empty messages in a second is closed and waits")
  func pings() throws {
    var world = try Self.world()
    for _ in 0..<(NostrLimits.otherMessagesPerSecond / 2) { world.handle(0, .ponged(Self.one)) }
    #expect(world.state(0, Self.one) == .live)
    for _ in 0..<NostrLimits.otherMessagesPerSecond { world.handle(0, .ponged(Self.one)) }
    #expect(world.logs[0].closes.map(\.fault) == [.flood])
    #expect(Self.isWaiting(world.state(0, Self.one)) && world.state(0, Self.two) == .live)
  }

  @Test("A Nostr event over 64 KiB is dropped, and its relay stays connected")
  func longEvents() throws {
    var world = try Self.world()
    let long = String(repeating: "a", count: NostrLimits.eventBytes)
    for _ in 0..<50 { world.deliver("{\"content\":\"\(long)\"}", to: 0, Self.one) }
    #expect(world.count("EventsTooLong", of: 0) == 50)
    #expect(world.logs[0].closes.isEmpty)
  }

  @Test("20 Nostr events with wrong signatures make the engine close their relay")
  func wrongSignatures() throws {
    var world = try Self.world()
    var forge = try Forge()
    for number in 1...NostrLimits.relayMistakes {
      let event = try forge.wrap()
      var signature = event.signature
      signature[0] ^= 1
      world.deliver(
        event.json.replacing(Hex.encode(event.signature), with: Hex.encode(signature)), to: 0, Self.one)
      #expect(world.logs[0].closes.count == (number == NostrLimits.relayMistakes ? 1 : 0))
    }
    #expect(world.count("WrongSignatures", of: 0) == UInt64(NostrLimits.relayMistakes))
    #expect(world.logs[0].closes.map(\.fault) == [.mistakes])
  }

  @Test("A Nostr relay that answers no subscription within 60 s, or no ping, is closed")
  func stalls() throws {
    var world = NostrWorld()
    try world.add(7, contacts: [3])
    world.relays[NostrWorld.one]?.isSilent = true
    world.start()
    #expect(world.state(0, Self.one) == .catchingUp)
    world.run(.seconds(59))
    #expect(world.logs[0].closes.isEmpty)
    world.run(.seconds(1))
    #expect(world.logs[0].closes.map(\.link) == [Self.one])
    #expect(world.logs[0].closes.map(\.fault) == [.stalled])
    #expect(world.state(0, Self.two) == .live)
    #expect(world.logs[0].pings > 0)
    world.relays[NostrWorld.one]?.isSilent = false
    world.run(.seconds(10))
    world.pongs = false
    world.run(.seconds(121))
    #expect(world.logs[0].closes.map(\.fault) == [.stalled, .stalled, .stalled])
  }

  @Test("A Nostr relay that accepts no event within 2 min is closed, and the message is sent to another relay")
  func noVerdict() throws {
    var world = try Self.world()
    world.relays[NostrWorld.one]?.isSilent = true
    try world.send("x", id: "M1", from: 0, to: 3)
    #expect(world.logs[0].accepted.count == 1)
    world.run(.seconds(121))
    #expect(world.logs[0].closes.map(\.fault) == [.stalled])
  }

  @Test("Attempts to connect to a Nostr relay are made at pauses that double up to 10 min, separately for each relay")
  func backoff() throws {
    var world = NostrWorld()
    try world.add(7, contacts: [3])
    world.relays[NostrWorld.one]?.isUp = false
    world.start()
    var moments: [Instant] = []
    for _ in 0..<7200 {
      let before = world.logs[0].connects.count
      world.run(.seconds(1))
      if world.logs[0].connects.count > before { moments.append(world.now) }
    }
    let pauses = zip(moments, moments.dropFirst()).map { $0.duration(to: $1) }
    #expect(moments.count > 8 && moments.count < 25)
    #expect(pauses.allSatisfy { $0 <= .seconds(721) })
    #expect(pauses.last.map { $0 >= .seconds(479) } == true)
    #expect(world.logs[0].connects.filter { $0 == Self.two }.count == 1)
    #expect(world.nodes[0].relays.first?.reason == "refused")
  }

  @Test("A Nostr relay connection that takes longer than 90 s to establish is given up")
  func connectTime() throws {
    var world = NostrWorld(relays: [])
    try world.add(7, contacts: [3]) { $0.relays = [NostrWorld.one] }
    world.start()
    world.run(.seconds(89))
    #expect(world.state(0, Self.one) == .connecting)
    world.run(.seconds(1))
    #expect(world.logs[0].closes.map(\.fault) == [.connectTimeout])
    // It is ready too late.
    world.handle(0, .opened(Self.one))
    #expect(world.logs[0].closes.map(\.fault) == [.connectTimeout, nil])
    #expect(world.logs[0].sent.isEmpty)
  }

  @Test("A Nostr subscription is renewed every 30 min, and after the relay has closed it")
  func renewal() throws {
    var world = try Self.world()
    let first = try #require(world.subscription(0, Self.one))
    #expect(first != world.subscription(0, Self.two))
    world.run(.seconds(30 * 60 + 1))
    let second = try #require(world.subscription(0, Self.one))
    #expect(second != first)
    #expect(world.relays[NostrWorld.one]?.subscriptions.count == 1)
    world.handle(0, .received(Self.one, Array("[\"CLOSED\",\"\(second)\",\"error: busy\"]".utf8)))
    #expect(world.state(0, Self.one) == .unsubscribed)
    #expect(world.nodes[0].relays.first?.reason == "error: busy")
    world.run(.seconds(3))
    #expect(world.state(0, Self.one) == .live)
    #expect(world.logs[0].closes.isEmpty)
  }

  @Test("A Nostr relay's challenges are counted and not answered")
  func challenges() throws {
    var world = NostrWorld()
    try world.add(7, contacts: [3])
    world.relays[NostrWorld.one]?.challenge = "abc"
    world.start()
    world.handle(0, .received(Self.one, Array("[\"AUTH\",\"def\"]".utf8)))
    #expect(world.count("Challenges", of: 0) == 2)
    #expect(world.relays[NostrWorld.one]?.authentications.isEmpty == true)
    #expect(world.state(0, Self.one) == .live)
  }

  @Test("Every kind of refusal and fault of a Nostr relay has its own counter")
  func counters() throws {
    let world = try Self.world()
    let names = world.nodes[0].tallies.map(\.name)
    #expect(Set(names).count == names.count)
    #expect(names.count == 8 + EventRefusal.allCases.count + RelayFault.allCases.count)
  }
}
