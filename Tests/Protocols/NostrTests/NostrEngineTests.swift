import Bytes
import Common
import Crypto
import Testing

@testable import Nostr

@Suite("Private messages over Nostr relays")
struct NostrEngineTests {
  private static let one = RelayLink(NostrWorld.one)
  private static let two = RelayLink(NostrWorld.two)

  /// Two contacts with the keys 3 and 7, connected to two relays.
  private static func pair(
    _ change: (inout NostrEngine.Configuration) throws -> Void = { _ in }
  ) throws -> NostrWorld {
    var world = NostrWorld()
    try world.add(3, contacts: [7], change)
    try world.add(7, contacts: [3], change)
    world.start()
    return world
  }

  private static func refusalsOf(_ world: NostrWorld, _ node: Int) -> UInt64 {
    EventRefusal.allCases.compactMap { world.count($0.name, of: node) }.reduce(0, +)
  }

  @Test(
    "A message that two relays deliver reaches its contact once, and its receipt ends the attempts",
    arguments: EnvelopeDialect.allCases)
  func exchange(dialect: EnvelopeDialect) throws {
    var world = try Self.pair { ($0.sends, $0.accepts) = (dialect, [dialect]) }
    try world.send("bitchat1:hello", id: "M1", from: 0, to: 7)
    #expect(world.logs[1].messages.map(\.text) == ["bitchat1:hello"])
    let sender = try People.key(3).xOnlyKey
    #expect(world.logs[1].messages.first?.sender == sender)
    #expect(world.count("RepeatedEvents", of: 1) == 1)
    #expect(world.logs[0].accepted.map(\.text) == ["M1"])
    #expect(world.logs[0].stored.values.map(\.attempts) == [1])
    try world.sendReceipt("bitchat1:delivered", from: 1, to: 3)
    #expect(world.logs[0].messages.map(\.text) == ["bitchat1:delivered"])
    let id = try OutboxID("M1")
    #expect(world.nodes[0].outboxEntries.count == 1)
    world.carryOut(0, world.nodes[0].cancel(id))
    #expect(world.nodes[0].outboxEntries.isEmpty)
    #expect(world.logs[0].stored.isEmpty)
    let sent = world.published(0, Self.one).count
    world.run(.seconds(24 * 3600))
    #expect(world.published(0, Self.one).count == sent)
    #expect(world.count("Stalls", of: 0) == 0)
  }

  @Test("No relay is connected before the network is ready, without a contact, or after the network is lost")
  func gate() throws {
    var world = NostrWorld()
    try world.add(3, contacts: [7])
    try world.add(7)
    try world.send("x", id: "M1", from: 0, to: 7)
    world.run(.seconds(3600))
    #expect(world.logs[0].connects.isEmpty && world.logs[0].sent.isEmpty)
    world.start()
    #expect(world.logs[0].connects.count == 2)
    #expect(world.logs[1].connects.isEmpty)
    #expect(world.published(0, Self.one).count == 1)
    let contact = try People.key(3).xOnlyKey
    world.carryOut(1, world.nodes[1].setContacts([contact], at: world.now))
    world.drain()
    #expect(world.logs[1].messages.map(\.text) == ["x"])
    world.handle(0, .network(isReady: false))
    #expect(world.logs[0].closes.map(\.link) == [Self.one, Self.two])
    let sent = world.logs[0].sent.count
    try world.send("y", id: "M2", from: 0, to: 7)
    world.run(.seconds(3600))
    #expect(world.logs[0].sent.count == sent)
    #expect(world.logs[0].connects.count == 2)
    #expect(world.state(0, Self.one) == .idle)
    world.handle(0, .network(isReady: true))
    // The first message has no receipt, so it comes once more, behind the one that waits longer.
    #expect(world.logs[1].messages.map(\.text) == ["x", "y", "x"])
  }

  @Test("A message without a receipt is sent 8 times in 24 h in different envelopes, and then fails")
  func retries() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    try world.add(3, contacts: [7])
    world.start()
    try world.send("x", id: "M1", from: 0, to: 7)
    world.run(.seconds(24 * 3600 + 10))
    let moments = world.published(0, Self.one)
    #expect(moments.count == 8)
    let pauses = zip(moments, moments.dropFirst()).map { $0.duration(to: $1) }
    #expect(pauses == (0..<7).map { Duration.seconds(300 * (1 << $0)) })
    let wraps = world.relays[NostrWorld.one]?.events.compactMap { $0.object["id"] as? String } ?? []
    #expect(Set(wraps).count == 8)
    #expect(world.logs[0].expired.map(\.text) == ["M1"])
    #expect(world.logs[0].stored.isEmpty)
    #expect(world.nodes[0].outboxEntries.isEmpty)
    #expect(world.count("ExpiredMessages", of: 0) == 1)
  }

  @Test("A message that no Nostr relay accepts is sent again with growing pauses, and at once when another connects")
  func refusedMessages() throws {
    var world = NostrWorld()
    try world.add(3, contacts: [7])
    world.relays[NostrWorld.one]?.accepts = false
    world.relays[NostrWorld.two]?.isUp = false
    world.start()
    try world.send("x", id: "M1", from: 0, to: 7)
    #expect(world.published(0, Self.one).count == 1)
    world.run(.seconds(200))
    let moments = world.published(0, Self.one)
    #expect(moments.count == 5)
    #expect(world.logs[0].accepted.isEmpty)
    #expect(world.logs[0].stored.values.map(\.attempts) == [0])
    #expect(world.nodes[0].relays.first?.reason == "blocked: no")
    world.relays[NostrWorld.two]?.isUp = true
    world.run(.seconds(300))
    #expect(world.logs[0].accepted.map(\.text) == ["M1"])
    #expect(world.state(0, Self.two) == .live)
  }

  @Test("Nostr receipts are sent at least 350 ms apart, and each is sent once")
  func receipts() throws {
    var world = try Self.pair()
    for number in 0..<10 { try world.sendReceipt("r\(number)", from: 1, to: 3) }
    world.run(.seconds(10))
    let moments = world.published(1, Self.one)
    #expect(moments.count == 10)
    #expect(zip(moments, moments.dropFirst()).allSatisfy { $0.duration(to: $1) >= .milliseconds(350) })
    #expect(world.logs[0].messages.map(\.text) == (0..<10).map { "r\($0)" })
  }

  @Test("A Nostr receipt is stored until a relay has accepted it, and given up after 24 h")
  func durableReceipts() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    try world.add(3, contacts: [7])
    world.relays[NostrWorld.one]?.accepts = false
    world.start()
    try world.sendReceipt("r", from: 0, to: 7)
    try world.sendReceipt("s", from: 0, to: 7)
    #expect(throws: NostrError.knownMessage) { try world.sendReceipt("r", from: 0, to: 7) }
    world.run(.seconds(3600))
    #expect(world.logs[0].stored.values.map(\.kind) == [.receipt, .receipt])
    world.relays[NostrWorld.one]?.accepts = true
    world.run(.seconds(700))
    #expect(world.logs[0].stored.isEmpty && world.nodes[0].outboxEntries.isEmpty)
    #expect(world.count("DroppedReceipts", of: 0) == 0)
    world.relays[NostrWorld.one]?.accepts = false
    try world.sendReceipt("t", from: 0, to: 7)
    world.run(.seconds(24 * 3600 + 10))
    #expect(world.logs[0].stored.isEmpty && world.logs[0].expired.isEmpty)
    #expect(world.count("DroppedReceipts", of: 0) == 1)
  }

  @Test("After a restart a stored outbox waits until the contacts are known")
  func restartWithoutContacts() throws {
    let key = try People.key(7).xOnlyKey
    let message = try OutboxEntry(id: OutboxID("M1"), recipient: key, text: "x", sentAt: People.now)
    let receipt = try OutboxEntry(id: OutboxID("R1"), kind: .receipt, recipient: key, text: "y", sentAt: People.now)
    let gone = try OutboxEntry(
      id: OutboxID("M2"), recipient: People.key(9).xOnlyKey, text: "z", sentAt: People.now)
    var engine = try NostrEngine(
      key: People.key(3), configuration: NostrEngine.Configuration(relays: [NostrWorld.one]),
      outbox: [message, receipt, gone], at: .zero, random: SeededRandom(seed: 1))
    #expect(engine.outboxEntries == [message, receipt, gone])
    #expect(engine.handle(.network(isReady: true), at: .zero, wall: People.now).isEmpty)
    let intents = engine.setContacts([key], at: .zero)
    #expect(intents == [.erase(gone.id), .connect(RelayLink(NostrWorld.one))])
    #expect(engine.outboxEntries == [message, receipt])
  }

  @Test("After a restart a stored outbox is sent, except to recipients that are no longer contacts")
  func restart() throws {
    var world = NostrWorld()
    let kept = try OutboxEntry(
      id: OutboxID("M1"), recipient: People.key(7).xOnlyKey, text: "x", sentAt: People.now, attempts: 2)
    let gone = try OutboxEntry(
      id: OutboxID("M2"), recipient: People.key(9).xOnlyKey, text: "y", sentAt: People.now)
    try world.add(3, contacts: [7], outbox: [kept, gone])
    #expect(world.nodes[0].outboxEntries == [kept])
    world.start()
    #expect(world.logs[0].stored.values.map(\.attempts) == [3])
    world.carryOut(0, world.nodes[0].setContacts([], at: world.now))
    #expect(world.nodes[0].outboxEntries.isEmpty)
    #expect(world.logs[0].stored.isEmpty)
    #expect(world.state(0, Self.one) == .idle)
  }

  @Test("The uplink refuses a message to a stranger, with a used ID, without text, or the 101st to one contact")
  func outboxLimits() throws {
    var world = NostrWorld()
    try world.add(3, contacts: [7])
    #expect(throws: NostrError.unknownRecipient) { try world.send("x", id: "M", from: 0, to: 9) }
    #expect(throws: NostrError.unknownRecipient) { try world.sendReceipt("x", from: 0, to: 9) }
    for number in 0..<NostrLimits.outboxOfOne { try world.send("x", id: "M\(number)", from: 0, to: 7) }
    #expect(throws: NostrError.knownMessage) { try world.send("x", id: "M1", from: 0, to: 7) }
    #expect(throws: NostrError.outboxFull) { try world.send("x", id: "M", from: 0, to: 7) }
    #expect(throws: NostrError.badLength(0)) { try world.send("", id: "M", from: 0, to: 7) }
    #expect(throws: NostrError.badMessageID) { try world.send("x", id: "", from: 0, to: 7) }
    #expect(throws: NostrError.badMessageID) { try OutboxID(String(repeating: "M", count: 256)) }
  }

  @Test("At most 16 events are sent to a Nostr relay before it answers, and further ones follow its answers")
  func unanswered() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    try world.add(3, contacts: [7])
    for number in 0..<40 { try world.send("x", id: "M\(number)", from: 0, to: 7) }
    world.relays[NostrWorld.one]?.isSilent = true
    world.start()
    #expect(world.published(0, Self.one).count == NostrLimits.unansweredEvents)
    #expect(world.nodes[0].deadline(at: world.now, wall: world.wall).map { $0 > world.now } == true)
    world.relays[NostrWorld.one]?.isSilent = false
    world.run(.seconds(600))
    #expect(world.logs[0].accepted.count >= 40)
    #expect(world.count("Stalls", of: 0) == 1)
  }

  @Test("Envelopes of strangers or of this machine, and events outside the time window, are dropped and counted")
  func refusedEvents() throws {
    var world = try Self.pair()
    var stranger = try Forge()
    (stranger.sender, stranger.rumor.author) = (try People.key(9), try People.key(9).xOnlyKey)
    var old = try Forge()
    old.wrapTime = -400_000
    var early = try Forge()
    early.rumor.createdAt = UnixTime(seconds: People.now.seconds + 4000)
    var forged = try Forge()
    forged.wrapTags = [["p", try People.key(7).xOnlyKey.hex], ["x"]]
    for forge in [stranger, old, early, forged] {
      var forge = forge
      let event = try forge.wrap().json
      world.deliver(event, to: 1, Self.one)
      world.deliver(event, to: 1, Self.two)
    }
    #expect(world.logs[1].messages.isEmpty)
    #expect(world.count("EnvelopesOfStrangers", of: 1) == 1)
    #expect(world.count("EventsTooOld", of: 1) == 2)
    #expect(world.count("EventsInTheFuture", of: 1) == 1)
    #expect(world.count("WrongWrapTags", of: 1) == 2)
    #expect(world.count("RepeatedEvents", of: 1) == 2)
    #expect(Self.refusalsOf(world, 1) == 8)
    try world.send("x", id: "M1", from: 0, to: 7)
    #expect(world.logs[1].messages.map(\.text) == ["x"])
  }

  @Test("A withdrawn message that is handed over again with another text is sent, although its relay has not answered")
  func withdrawnUnanswered() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    try world.add(3, contacts: [7, 9])
    world.start()
    world.relays[NostrWorld.one]?.isSilent = true
    try world.send("for the former key", id: "M1", from: 0, to: 7)
    let message = try OutboxID("M1")
    world.carryOut(0, world.nodes[0].cancel(message))
    try world.send("for the new key", id: "M1", from: 0, to: 9)
    let events = world.logs[0].sent.map(\.text).filter { $0.hasPrefix("[\"EVENT\"") }
    #expect(events.count == 2)
    let former = FakeRelay.array(events.first ?? "").last as? [String: Any]
    let id = try #require(former?["id"] as? String)
    world.handle(0, .received(Self.one, Array("[\"OK\",\"\(id)\",true,\"\"]".utf8)))
    #expect(world.count("AcceptedEvents", of: 0) == 1)
    #expect(world.logs[0].accepted.isEmpty)
    #expect(world.nodes[0].outboxEntries.map(\.attempts) == [0])
  }

  @Test("A message that arrives before its sender becomes a contact is accepted when the sender becomes one")
  func lateContact() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    try world.add(3, contacts: [7])
    try world.add(7, contacts: [9])
    world.start()
    try world.send("x", id: "M1", from: 0, to: 7)
    #expect(world.logs[1].messages.isEmpty)
    #expect(world.count("EnvelopesOfStrangers", of: 1) == 1)
    let contacts = Set([try People.key(9).xOnlyKey, try People.key(3).xOnlyKey])
    world.carryOut(1, world.nodes[1].setContacts(contacts, at: world.now))
    world.run(.seconds(1))
    #expect(world.logs[1].messages.map(\.text) == ["x"])
    // Contacts that are not new request nothing.
    let requests = world.relays[NostrWorld.one]?.requests
    world.carryOut(1, world.nodes[1].setContacts(contacts, at: world.now))
    world.run(.seconds(1))
    #expect(world.relays[NostrWorld.one]?.requests == requests)
  }

  @Test("Of thousands of envelopes in a minute some are not opened, and are requested again after a minute")
  func flooded() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    try world.add(7, contacts: [3])
    world.start()
    var random = SeededRandom(seed: 2)
    let author = try People.key(9)
    let tags = [["p", try People.key(7).xOnlyKey.hex]]
    let burst = NostrLimits.envelopesPerSecond * NostrLimits.envelopeBurst
    // Within the rate of one relay, so that the relay is not at fault.
    for second in 0..<(burst / 90 + 40) {
      for number in 0..<90 {
        let wrap = EventDraft(
          author: author.xOnlyKey, createdAt: world.wall, kind: .giftWrap, tags: tags,
          content: "v2:\(second)-\(number)")
        world.deliver(try wrap.signed(with: author, randomFrom: &random).json, to: 0, Self.one)
      }
      world.run(.seconds(1))
    }
    #expect(world.logs[0].closes.isEmpty)
    let opened = try #require(world.count("WrapsNotOpened", of: 0))
    let dropped = try #require(world.count("UnopenedEnvelopes", of: 0))
    #expect(dropped > 0)
    #expect(opened >= UInt64(burst))
    let requests = world.relays[NostrWorld.one]?.requests ?? 0
    world.run(.seconds(61))
    #expect(world.relays[NostrWorld.one]?.requests == requests + 1)
  }

  @Test("While the owner can take no more messages, envelopes are not opened, and are requested again after a minute")
  func holding() throws {
    var world = NostrWorld(relays: [NostrWorld.one])
    try world.add(3, contacts: [7])
    try world.add(7, contacts: [3])
    world.start()
    world.nodes[1].isHolding = true
    try world.send("x", id: "M1", from: 0, to: 7)
    world.run(.seconds(61))
    #expect(world.logs[1].messages.isEmpty && (world.count("UnopenedEnvelopes", of: 1) ?? 0) > 0)
    world.nodes[1].isHolding = false
    world.run(.seconds(61))
    #expect(world.logs[1].messages.map(\.text) == ["x"])
  }

  // MARK: Geohash channels

  private static let seed = SecretBytes(copying: [UInt8](repeating: 1, count: 32))

  private static func channelPair(_ geohash: String) throws -> (NostrWorld, Geohash) {
    let channel = try Geohash(geohash)
    var world = NostrWorld()
    for (number, name) in [(UInt64(3), "alice"), (7, "bob")] {
      try world.add(number) {
        $0.channels = [channel]
        $0.channelSeed = SecretBytes(copying: [UInt8](repeating: UInt8(number), count: 32))
        $0.nickname = name
      }
    }
    world.start()
    return (world, channel)
  }

  @Test("A channel text is sent with a key of the channel, and reaches the others once and not its author")
  func channel() throws {
    var (world, channel) = try Self.channelPair("u4pruy")
    let intents = try world.nodes[0].say("hi", in: channel, at: world.now, wall: world.wall)
    world.carryOut(0, intents)
    world.drain()
    #expect(world.logs[1].channelEvents.map(\.text) == ["hi"])
    #expect(world.logs[1].channelEvents.first?.nickname == "alice")
    #expect(world.logs[1].channelEvents.first?.author == world.nodes[0].publicKey(in: channel))
    #expect(world.nodes[0].publicKey(in: channel) != world.nodes[0].publicKey)
    #expect(world.logs[0].channelEvents.isEmpty)
    #expect(world.logs[0].connects.allSatisfy { $0.purpose == .channel(channel) })
    // No presence in an area of 6 characters.
    world.run(.seconds(600))
    #expect(world.logs[1].channelEvents.count == 1)
    let elsewhere = try Geohash("9q8yy")
    #expect(throws: NostrError.unknownChannel) {
      try world.nodes[0].say("hi", in: elsewhere, at: world.now, wall: world.wall)
    }
    #expect(throws: NostrError.badLength(0)) {
      try world.nodes[0].say("", in: channel, at: world.now, wall: world.wall)
    }
  }

  @Test("A text in a channel is refused if no relay takes it, and is not lost silently")
  func channelWithoutRelay() throws {
    var (world, channel) = try Self.channelPair("u4pruy")
    for address in [NostrWorld.one, NostrWorld.two] { world.relays[address]?.isSilent = true }
    for number in 1...NostrLimits.unansweredEvents {
      world.carryOut(0, try world.nodes[0].say("\(number)", in: channel, at: world.now, wall: world.wall))
    }
    #expect(throws: NostrError.noRelay) {
      try world.nodes[0].say("one more", in: channel, at: world.now, wall: world.wall)
    }
    world.handle(0, .network(isReady: false))
    #expect(throws: NostrError.noRelay) {
      try world.nodes[0].say("offline", in: channel, at: world.now, wall: world.wall)
    }
  }

  @Test("Presence in a channel of 5 characters is published every 40 to 80 s")
  func presence() throws {
    var (world, channel) = try Self.channelPair("u4pru")
    world.run(.seconds(600))
    let moments = world.published(0, RelayLink(NostrWorld.one, .channel(channel)))
    let pauses = zip(moments, moments.dropFirst()).map { $0.duration(to: $1) }
    #expect(pauses.count >= 7)
    #expect(pauses.allSatisfy { (Duration.seconds(40)...(.seconds(80))).contains($0) })
    #expect(Set(pauses).count > 1)
    #expect(world.logs[1].channelEvents.allSatisfy { $0.text == nil && $0.nickname == nil })
    #expect(world.logs[1].channelEvents.count >= 7)
  }
}
