import Common
import DBus
import Journal
import Loop
import Nostr
import TestSupport
import Testing
import Tool

@testable import MeshCommands
@testable import NostrUplink

@Suite("The Nostr uplink behind a proxy, in virtual time")
struct UplinkServiceTests {
  init() { EventLoop.shared.runInBackground() }

  /// A folder with the certificate by which the relay is trusted.
  private static func folder() throws -> ScratchFolder {
    let folder = try ScratchFolder()
    try folder.write(Array(TestCertificate.first.chain.utf8), to: "trust.pem")
    return folder
  }

  /// An uplink with a stored message for a contact, and its state in the folder `state`.
  @LoopActor
  private static func sender(_ folder: ScratchFolder) throws -> UplinkStand {
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    let bob = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    let ann = UplinkStand(clock, relay, trust: folder.path("trust.pem"), directory: folder.path("state"))
    ann.mesh.attach(as: "node")
    ann.setContacts([bob.key])
    ann.send(packet, to: bob.key)
    return ann
  }

  /// Two uplinks that are each other's contacts, at one relay.
  @LoopActor
  private static func pair(
    _ folder: ScratchFolder, _ adjust: (inout UplinkSettings) -> Void = { _ in }
  ) throws -> (FakeRelay, UplinkStand, UplinkStand) {
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    let stands = [0, 1].map { _ in UplinkStand(clock, relay, trust: folder.path("trust.pem"), adjust) }
    for (index, stand) in stands.enumerated() {
      stand.mesh.attach(as: "node\(index)")
      stand.setContacts([stands[1 - index].key])
    }
    return (relay, stands[0], stands[1])
  }

  private static let packet = "bitchat1:" + String(repeating: "AbCd", count: 85)

  @Test(
    "A packet reaches the receiving node with its sender's key, and the relay sees only encrypted envelopes",
    arguments: [false, true])
  @LoopActor
  func wholeWay(isStrict: Bool) throws {
    let folder = try Self.folder()
    let (relay, ann, bob) = try Self.pair(folder) { if isStrict { $0.options = [.nip17] } }
    #expect(ann.service.status == .ready && ann.service.reason == "")
    #expect(ann.send(Self.packet, to: bob.key) == [nil])
    #expect(bob.mesh.delivered.map(\.text) == [Self.packet] && bob.mesh.delivered.map(\.key) == [ann.key])
    #expect(relay.events.count == 1 && relay.events.allSatisfy { $0["kind"] as? Int == 1059 })
    #expect(ann.service.waiting == 1)
    bob.send(Self.packet, to: ann.key, as: "2", .delivered)
    #expect(ann.mesh.delivered.count == 1)
    ann.mesh.onRequest?(.cancel("1"))
    #expect(ann.service.waiting == 0)
    #expect(relay.targets.allSatisfy { $0 == "social.test" })
  }

  @Test("While the proxy is not available nothing is sent, messages wait, and the reason gives the time")
  @LoopActor
  func noProxy() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    relay.isThere = false
    let ann = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    let bob = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    for (stand, other) in [(ann, bob), (bob, ann)] {
      stand.mesh.attach(as: "node")
      stand.setContacts([other.key])
    }
    #expect(ann.send(Self.packet, to: bob.key) == [nil])
    clock.advance(by: .seconds(3600))
    #expect(ann.service.status == .waitingForProxy && ann.service.reason.contains("Nothing is sent since"))
    #expect(ann.service.reason.contains("127.0.0.1:9050") && ann.service.waiting == 1)
    #expect(relay.users.isEmpty && relay.events.isEmpty)
    // The proxy was asked at least once a minute, and not more often than doubling from 2 s allows.
    #expect((120...150).contains(relay.dials))
    relay.isThere = true
    clock.advance(by: .seconds(61))
    #expect(ann.service.status == .ready && bob.mesh.delivered.map(\.text) == [Self.packet])
  }

  @Test("While the proxy is not available no relay is used, and waiting packets are sent when it returns")
  @LoopActor
  func lostProxy() throws {
    let folder = try Self.folder()
    let (relay, ann, bob) = try Self.pair(folder)
    relay.isThere = false
    relay.hangUp()
    ann.clock.advance(by: .seconds(30))
    #expect(ann.service.status == .waitingForProxy)
    #expect(ann.send(Self.packet, to: bob.key) == [nil])
    relay.isThere = true
    ann.clock.advance(by: .seconds(120))
    #expect(bob.mesh.delivered.map(\.text) == [Self.packet])
  }

  @Test("Without a contact no Nostr relay is connected, and each connection uses its own user name at the proxy")
  @LoopActor
  func contacts() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    let ann = UplinkStand(clock, relay, trust: folder.path("trust.pem")) {
      $0.relays = ["wss://social.test", "wss://localhost"]
    }
    ann.mesh.attach(as: "node")
    clock.advance(by: .seconds(600))
    #expect(ann.service.status == .idle && relay.targets.isEmpty)
    let bob = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    ann.setContacts([bob.key])
    #expect(Set(relay.targets) == ["social.test", "localhost"] && Set(relay.users).count == 2)
    let other = "npub1" + String(repeating: "q", count: 58)
    for (key, error) in [(other, "InvalidArgs"), (ann.key, "NotFound")] {
      let names = ann.send(Self.packet, to: key).map { $0?.name ?? "" }
      #expect(names.count == 1 && names.allSatisfy { $0.hasSuffix(error) })
    }
  }

  @Test("A packet that the mesh node could not handle is passed to it again, and each packet only once")
  @LoopActor
  func nodeAway() throws {
    let folder = try Self.folder()
    let (_, ann, bob) = try Self.pair(folder)
    bob.mesh.handles = false
    for number in 1...3 { ann.send("bitchat1:\(number)", to: bob.key, as: "\(number)") }
    bob.clock.advance(by: .seconds(60))
    #expect(bob.mesh.delivered.isEmpty && bob.counter("WaitingTexts") == 3)
    bob.mesh.handles = true
    bob.clock.advance(by: .seconds(5))
    #expect(bob.mesh.delivered.map(\.text) == ["bitchat1:1", "bitchat1:2", "bitchat1:3"])
  }

  @Test("The uplink's key and outbox survive a restart encrypted, and a repeated message is stored once")
  @LoopActor
  func restart() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    relay.swallows = true
    let bob = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    var ann: UplinkStand? = UplinkStand(
      clock, relay, trust: folder.path("trust.pem"), directory: folder.path("state"))
    ann?.mesh.attach(as: "node")
    ann?.setContacts([bob.key])
    #expect(ann?.send(Self.packet, to: bob.key) == [nil])
    #expect(ann?.send(Self.packet, to: bob.key) == [nil])
    let key = ann?.key
    ann?.service.stop {}
    clock.run()
    ann = nil
    for (_, bytes) in try folder.files() where bytes.count < 100_000 {
      #expect(!contains(bytes, Array(Self.packet.utf8.prefix(40))))
    }
    let again = UplinkStand(clock, relay, trust: folder.path("trust.pem"), directory: folder.path("state"))
    #expect(again.key == key && again.service.waiting == 1)
    relay.swallows = false
    again.mesh.attach(as: "node")
    bob.mesh.attach(as: "other")
    bob.setContacts([again.key])
    again.setContacts([bob.key])
    clock.advance(by: .seconds(3600))
    #expect(Set(bob.mesh.delivered.map(\.text)) == [Self.packet])
    again.mesh.onRequest?(.cancel("1"))
    #expect(again.service.waiting == 0)
  }

  @Test(
    "A receipt that the uplink accepted before a crash is sent after the restart",
    arguments: [MeshPacket.Kind.delivered, .read])
  @LoopActor
  func receipts(kind: MeshPacket.Kind) throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    relay.isThere = false
    let bob = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    var ann: UplinkStand? = UplinkStand(
      clock, relay, trust: folder.path("trust.pem"), directory: folder.path("state"))
    ann?.mesh.attach(as: "node")
    ann?.setContacts([bob.key])
    #expect(ann?.send(Self.packet, to: bob.key, as: "r", kind) == [nil])
    // A copy of the folder is what a killed process would leave.
    let copy = try ScratchFolder()
    try folder.copy("state", to: copy)
    ann = nil
    relay.isThere = true
    let again = UplinkStand(clock, relay, trust: folder.path("trust.pem"), directory: copy.path("state"))
    #expect(again.service.waiting == 1)
    again.mesh.attach(as: "node")
    bob.mesh.attach(as: "other")
    bob.setContacts([again.key])
    again.setContacts([bob.key])
    clock.advance(by: .seconds(120))
    #expect(bob.mesh.delivered.map(\.text) == [Self.packet])
    #expect(again.service.waiting == 0)
  }

  @Test("The tool explains each counter, state and journal message of the uplink")
  @LoopActor
  func meanings() throws {
    let (_, ann, _) = try Self.pair(try Self.folder())
    #expect(Set(ann.service.tallies.map(\.name)) == Set(UplinkCounters.table.meanings.keys))
    let states = UplinkCodes.all.filter { $0.kind == "state of the uplink" }
    #expect(states.map(\.code).sorted() == UplinkService.Status.allCases.map(\.rawValue).sorted())
    for message in Journal.MessageID.uplink {
      let meaning = UplinkCodes.all.first { $0.code == message.name }
      let text = message.explanation.split(whereSeparator: \.isNewline).joined(separator: " ")
      #expect(meaning?.aliases == [message.hex] && meaning?.meaning == "\(message.subject). \(text)")
    }
    let relays = Set(UplinkCodes.all.filter { $0.kind == "state of a relay of the uplink" }.map(\.code))
    let known: [RelayState] = [.idle, .waiting(until: .zero), .connecting, .catchingUp, .live, .unsubscribed]
    #expect(relays == Set(known.map(\.name) + ["refused"]))
  }

  @Test("A Nostr text that D-Bus cannot carry is dropped and counted, and other texts reach the mesh node")
  @LoopActor
  func otherTexts() throws {
    let folder = try Self.folder()
    let (_, ann, bob) = try Self.pair(folder)
    ann.send("a noncharacter: \u{FFFE}", to: bob.key, as: "1")
    ann.send("good morning", to: bob.key, as: "2")
    #expect(bob.mesh.delivered.map(\.text) == ["good morning"])
    #expect(bob.counter("UnsendableTexts") == 1)
  }

  @Test(
    "The uplink destroys key and outbox at a wipe, and when its node has another peer ID", arguments: [true, false])
  @LoopActor
  func wipe(isAsked: Bool) throws {
    let folder = try Self.folder()
    let ann = try Self.sender(folder)
    let before = try folder.files().filter { $0.0.contains("state") }
    let key = ann.key
    if isAsked {
      var answers: [DBusError?] = []
      ann.mesh.onRequest?(.wipe { answers.append($0) })
      ann.clock.run()
      #expect(answers == [nil])
    } else {
      ann.mesh.attach(as: "another node")
    }
    #expect(ann.key != key && ann.service.waiting == 0 && ann.mesh.keys == [key, ann.key])
    let after = try folder.files().filter { $0.0.contains("state") }
    for (name, bytes) in before where bytes.count > 40 {
      #expect(!after.contains { $0.1 == bytes }, "\(name)")
    }
    // The new key belongs to the next node.
    ann.mesh.attach(as: "another node")
    let next = ann.key
    ann.mesh.attach(as: "another node")
    #expect(ann.key == next)
  }

  @Test("After a wipe the proxy gets another password, so that the new key gets other circuits than the former one")
  @LoopActor
  func circuits() throws {
    let folder = try Self.folder()
    let (relay, ann, bob) = try Self.pair(folder)
    #expect(relay.users.count == 2 && Set(relay.users).count == 1 && Set(relay.passwords).count == 2)
    ann.mesh.onRequest?(.wipe { _ in })
    ann.clock.run()
    ann.mesh.attach(as: "another node")
    ann.setContacts([bob.key])
    #expect(relay.users.count == 3 && Set(relay.passwords).count == 3)
  }

  @Test("A key whose node is not stored is replaced at the next start, because a wipe of the node would not reach it")
  @LoopActor
  func keyWithoutNode() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    func start() -> UplinkStand {
      UplinkStand(clock, relay, trust: folder.path("trust.pem"), directory: folder.path("state"))
    }
    func stop(_ stand: UplinkStand) {
      stand.service.stop {}
      clock.run()
    }
    var keys: [String] = []
    for isAttached in [false, true, true] {
      let stand = start()
      keys.append(stand.key)
      if isAttached { stand.mesh.attach(as: "node") }
      stop(stand)
    }
    #expect(keys.count == 3 && keys.allSatisfy { $0.hasPrefix("npub1") })
    #expect(keys[0] != keys[1] && keys[1] == keys[2])
  }

  @Test("A wipe also erases records of the outbox that cannot be read")
  @LoopActor
  func damagedRecords() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    let bob = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    var ann: UplinkStand? = UplinkStand(
      clock, relay, trust: folder.path("trust.pem"), directory: folder.path("state"))
    ann?.mesh.attach(as: "node")
    ann?.setContacts([bob.key])
    ann?.send(Self.packet, to: bob.key)
    ann?.service.stop {}
    clock.run()
    ann = nil
    let isRecord = { (name: String) in name.hasSuffix(".record") || name.hasSuffix(".damaged") }
    let record = try #require(try folder.files().first { isRecord($0.key) })
    try folder.write(Array(record.value.dropLast()) + [record.value[record.value.count - 1] ^ 1], to: record.key)
    let again = UplinkStand(clock, relay, trust: folder.path("trust.pem"), directory: folder.path("state"))
    #expect(again.service.waiting == 0 && !again.service.reason.isEmpty)
    #expect(try folder.files().keys.contains(where: isRecord))
    again.mesh.attach(as: "node")
    again.mesh.onRequest?(.wipe { _ in })
    clock.run()
    #expect(try folder.files().keys.contains(where: isRecord) == false)
    #expect(again.counter("Wipes") == 1 && !again.key.isEmpty)
  }

  @Test("A wipe destroys the key of the outbox, and reports the error, if a record cannot be erased")
  @LoopActor
  func recordNotErased() throws {
    let folder = try Self.folder()
    let ann = try Self.sender(folder)
    // A folder in the place of the file can neither be overwritten nor removed.
    let record = try #require(try folder.files().keys.first { $0.hasSuffix(".record") })
    try folder.remove(record)
    try folder.make(record)
    #expect(folder.exists("state/uplink/spool.key"))
    var answers: [DBusError?] = []
    ann.mesh.onRequest?(.wipe { answers.append($0) })
    ann.clock.run()
    #expect(answers.count == 1 && answers.allSatisfy { $0 != nil })
    #expect(ann.service.status == .failed)
    #expect(!folder.exists("state/uplink/spool.key") && !folder.exists("state/uplink/identity"))
  }

  @Test("Texts stay at their relays while too many wait for the node, and each arrives once")
  @LoopActor
  func manyArrivals() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    let ann = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    let bob = UplinkStand(clock, relay, trust: folder.path("trust.pem"), arrivals: 2)
    for (stand, other) in [(ann, bob), (bob, ann)] {
      stand.mesh.attach(as: "node")
      stand.setContacts([other.key])
    }
    bob.mesh.handles = false
    for number in 1...4 { ann.send("bitchat1:\(number)", to: bob.key, as: "\(number)") }
    #expect(bob.counter("WaitingTexts") == 2 && bob.counter("UnopenedEnvelopes") == 2)
    bob.mesh.handles = true
    clock.advance(by: .seconds(70))
    #expect(bob.mesh.delivered.map(\.text).sorted() == (1...4).map { "bitchat1:\($0)" })
    #expect(bob.counter("WaitingTexts") == 0)
  }

  @Test("A proxy that refuses every user name is tried at growing pauses, although it answers the SOCKS greeting")
  @LoopActor
  func refusingProxy() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    relay.refusesUsers = true
    let ann = UplinkStand(clock, relay, trust: folder.path("trust.pem"))
    ann.mesh.attach(as: "node")
    ann.setContacts([UplinkStand(clock, relay, trust: folder.path("trust.pem")).key])
    #expect(ann.service.status == .waitingForProxy && ann.service.reason.contains("user name"))
    let dials = relay.dials
    clock.advance(by: .seconds(3600))
    // After pauses of 2 to 32 s one a minute, each time the greeting and a relay. The other uplink has no contact.
    #expect((100...140).contains(relay.dials - dials))
    #expect(relay.targets.isEmpty)
    relay.refusesUsers = false
    clock.advance(by: .seconds(61))
    #expect(ann.service.status == .ready)
  }

  @Test("A text in a geohash channel reaches others there, with a key that is not the private messages' key")
  @LoopActor
  func channels() throws {
    let folder = try Self.folder()
    let (relay, ann, bob) = try Self.pair(folder) {
      $0.geohashes = ["u4pruy", "u4pru"].compactMap { try? Geohash($0) }
      $0.geohashName = "someone"
    }
    let number = try ann.service.say("good morning", in: "u4pruy")
    ann.clock.run()
    #expect(ann.service.channelLog.list(after: number - 1, limit: 9).map(\.text) == ["good morning"])
    let line = try #require(bob.service.channelLog.lines.first)
    #expect(line.text == "good morning" && line.channel == "u4pruy" && line.nickname == "someone")
    #expect(bob.service.channelLog.lines.count == 1)
    let key = try NostrKey(npub: ann.key)
    #expect(line.author != key.hex)
    // Each channel and the private messages have users of their own at the proxy, on both machines.
    #expect(Set(relay.users).count == 3 && relay.users.count == 6)
    #expect(throws: DBusError.self) { try ann.service.say("good morning", in: "u4prux") }
  }

  @Test("Relays without TLS, or whose host is not a name, are not connected, and are named in the status")
  @LoopActor
  func refusedRelays() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    let ann = UplinkStand(clock, relay, trust: folder.path("trust.pem")) {
      $0.relays = ["ws://social.test", "wss://127.0.0.1", "wss://social.test", "nonsense", "wss://a_b.test"]
    }
    ann.mesh.attach(as: "node")
    ann.setContacts([UplinkStand(clock, relay, trust: folder.path("trust.pem")).key])
    #expect(ann.service.relays.map(\.state) == ["live", "refused", "refused", "refused", "refused"])
    #expect(relay.targets == ["social.test"])
    for text in ["ws://social.test", "wss://127.0.0.1", "nonsense", "wss://a_b.test"] {
      #expect(ann.service.reason.contains(text))
    }
  }

  @Test("Changes of the relays and of the number of waiting messages are signalled, and the status line names no relay")
  @LoopActor
  func changes() throws {
    let folder = try Self.folder()
    let clock = HandClock()
    let relay = try FakeRelay(clock)
    let ann = UplinkStand(clock, relay, trust: folder.path("trust.pem")) {
      $0.relays = ["wss://social.test", "ws://refused.example"]
    }
    ann.mesh.attach(as: "node")
    let other = UplinkStand(clock, relay, trust: folder.path("trust.pem")).key
    ann.setContacts([other])
    var count = 0
    ann.service.changes.addForGood { count += 1 }
    ann.send(Self.packet, to: other)
    #expect(count > 0 && ann.service.waiting == 1)
    count = 0
    relay.isThere = false
    relay.hangUp()
    clock.advance(by: .seconds(30))
    #expect(count > 0 && ann.service.status == .waitingForProxy)
    #expect(ann.service.reason.contains("refused.example") && ann.service.statusLine.contains("Nothing is sent"))
    #expect(!ann.service.statusLine.contains("refused.example") && !ann.service.statusLine.contains("social.test"))
  }

  @Test("A relay whose certificate is not trusted is not used, and the reason is listed")
  @LoopActor
  func certificates() throws {
    let folder = try ScratchFolder()
    try folder.write(Array(TestCertificate.second.chain.utf8), to: "trust.pem")
    let (relay, ann, bob) = try Self.pair(folder)
    ann.send(Self.packet, to: bob.key)
    #expect(relay.events.isEmpty && ann.service.status == .connecting)
    #expect(ann.service.relays.first?.reason.contains("certificate is not trusted") == true)
    ann.clock.advance(by: .seconds(30))
    #expect(ann.service.reason.contains("No relay is reached"))
  }

  @Test("A reload whose certificates cannot be read keeps those in use, and the status names the problem")
  @LoopActor
  func unreadableCertificates() throws {
    let folder = try Self.folder()
    let (relay, ann, bob) = try Self.pair(folder)
    var settings = UplinkSettings()
    settings.trustedCertificates = folder.path("missing.pem")
    ann.service.apply(settings)
    #expect(ann.service.status == .ready && ann.service.reason.contains("missing.pem cannot be read. Those"))
    #expect(ann.service.statusLine.contains("missing.pem cannot be read"))
    relay.isThere = false
    relay.hangUp()
    ann.clock.advance(by: .seconds(30))
    #expect(ann.send(Self.packet, to: bob.key) == [nil])
    relay.isThere = true
    ann.clock.advance(by: .seconds(120))
    #expect(bob.mesh.delivered.map(\.text) == [Self.packet])
    settings.trustedCertificates = folder.path("trust.pem")
    ann.service.apply(settings)
    #expect(!ann.service.reason.contains("cannot be read") && !ann.service.statusLine.contains("cannot be read"))
  }

  @Test("An uplink that has never read certificates trusts no relay, and says that")
  @LoopActor
  func noCertificates() throws {
    let clock = HandClock()
    let ann = UplinkStand(clock, try FakeRelay(clock), trust: try ScratchFolder().path("missing.pem"))
    #expect(ann.service.reason.contains("missing.pem cannot be read, so that no relay is trusted."))
  }
}
