import Air
import Bitchat
import BitchatWire
import Common
import Crypto
import Loop
import Radio
import TestSupport
import Testing

@testable import Mesh

@Suite("Links that both mesh neighbours use")
struct BothWaysTests {
  init() { EventLoop.shared.runInBackground() }

  /// Two neighbours.
  ///
  /// - Parameter areMixed: whether their radios address all clients together, because they cannot distinguish them.
  @LoopActor
  private func pair(areMixed: Bool) -> (Village, Village.House, Village.House) {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    for house in [ann, bob] { house.radio.controller.reachesEverySubscriber = areMixed }
    village.time.advance(by: .zero)
    return (village, ann, bob)
  }

  @Test("Two mesh neighbours both write over one link, whichever of them made the link", arguments: [true, false])
  @LoopActor
  func both(areMixed: Bool) async throws {
    let (village, ann, bob) = pair(areMixed: areMixed)
    #expect(village.wait { [ann, bob].allSatisfy { $0.mesh.links.ports.values.contains(where: \.isClientReady) } })
    #expect(ann.mesh.links.ports.count == 1 && bob.mesh.links.ports.count == 1)
    #expect([ann, bob].count { $0.mesh.links.ports.values.contains(where: \.isOurs) } == 1)
    let number = try ann.mesh.messages.tell("bob", "one way")
    #expect(village.wait { ann.progress[number]?.last == .delivered })
    let back = try bob.mesh.messages.tell("ann", "the other way")
    #expect(village.wait { bob.progress[back]?.last == .delivered })
    #expect(bob.texts == ["one way"] && ann.texts == ["the other way"])
  }

  @Test(
    "A node whose radio loses long writes announces this, and its neighbours send it shorter ones",
    arguments: [510, 100])
  @LoopActor
  func longWrites(longest: Int) async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    bob.radio.controller.longestWrite = longest
    #expect(village.wait { ann.mesh.node.engine?.peer(bob.id)?.longestWrite == UInt16(longest) })
    #expect(village.wait { ann.mesh.links.ports.values.contains { $0.peer == bob.id && $0.isClientReady } })
    // A peer that claims a smaller frame size than an iPhone's does not shrink the frames.
    #expect(ann.mesh.links.ports.values.map(\.frameLimit) == [max(longest, Limits.commonFrameBytes)])
    #expect(bob.mesh.reason.contains("166 bytes and more") && bob.mesh.reason.contains("Debian 13"))
    #expect(!ann.mesh.reason.contains("166"))
    guard longest == 510 else { return }
    #expect(village.wait { bob.mesh.links.ports.values.map(\.frameLimit) == [Limits.frameBytes] })
    // The padded packet has 512 bytes.
    let number = try ann.mesh.messages.tell("bob", String(repeating: "x", count: 200))
    #expect(village.wait(.seconds(10)) { ann.progress[number]?.last == .delivered })
    _ = try ann.mesh.messages.say(String(repeating: "y", count: 5000))
    #expect(village.wait(.seconds(10)) { bob.texts.last == String(repeating: "y", count: 5000) })
    // Other releases of BlueZ accept all lengths.
    bob.radio.controller.longestWrite = ATT.valueLimit
    #expect(village.wait { ann.mesh.node.engine?.peer(bob.id)?.longestWrite == nil })
  }

  /// The values written to a phone's server.
  @LoopActor
  private final class PhoneServer: GATTServerDelegate {
    var written: [[UInt8]] = []

    func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {}
    func linkChanged(_ link: LinkID, mtu: Int) {}
    func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
      written.append(value)
    }
    func linkClosed(_ link: LinkID) {}
  }

  /// The phone subscribes, and receives the node's announce.
  @LoopActor
  private func listen(_ phone: Stranger, in village: Village) {
    village.time.advance(by: .seconds(1))
    phone.explore()
    #expect(village.wait(.seconds(5)) { phone.isExplored })
    phone.subscribe()
    #expect(village.wait(.seconds(5)) { !phone.heard.isEmpty })
  }

  /// The announce of a phone.
  @LoopActor
  private func announce(at time: VirtualTime, isEarshot: Bool) throws -> (id: PeerID, bytes: [UInt8]) {
    var random = SeededRandom(seed: 7)
    let identity = MeshEngine.Identity(randomFrom: &random)
    let announcement = try Announcement(
      nickname: "phone", noiseKey: identity.noiseKey.publicKey, signingKey: identity.signingKey.publicKey,
      isEarshot: isEarshot)
    let packet = Packet(
      type: .announce, timestamp: UInt64(VirtualWallClock(time).milliseconds), sender: identity.id,
      payload: announcement.bytes)
    return (identity.id, try packet.signed(with: identity.signingKey).encoded())
  }

  @Test(
    "A phone that connected is sent notifications; an Earshot peer that connected is sent writes",
    arguments: [false, true])
  @LoopActor
  func kinds(isEarshot: Bool) async throws {
    let village = Village()
    let ann = village.add("ann")
    let phone = Stranger(on: village, to: ann)
    let delegate = PhoneServer()
    let server = phone.serve(delegate)
    listen(phone, in: village)
    let (id, announce) = try announce(at: village.time, isEarshot: isEarshot)
    phone.write(announce, as: .command)
    #expect(village.wait(.seconds(5)) { ann.mesh.links.ports.values.contains { $0.peer == id } })
    village.time.advance(by: .seconds(5))
    (phone.heard, delegate.written) = ([], [])
    _ = try ann.mesh.messages.say("a line")
    village.time.advance(by: .seconds(1))
    let (lines, other) = isEarshot ? (delegate.written, phone.heard) : (phone.heard, delegate.written)
    #expect(lines.contains { $0[1] == MessageType.message.rawValue } && other.isEmpty)
    server.close()
  }

  @Test("The end of a link between mesh neighbours is reported once, and the neighbours connect again")
  @LoopActor
  func end() async throws {
    let (village, ann, bob) = pair(areMixed: true)
    #expect(village.wait { [ann, bob].allSatisfy { $0.mesh.links.ports.values.contains(where: \.isClientReady) } })
    bob.radio.power = false
    #expect(village.wait { ann.mesh.links.ports.isEmpty && bob.mesh.links.ports.isEmpty })
    bob.radio.power = true
    #expect(village.wait { ann.mesh.state == .connected && bob.mesh.state == .connected })
    let number = try ann.mesh.messages.tell("bob", "again")
    #expect(village.wait { ann.progress[number]?.last == .delivered })
  }

  @Test(
    "If clients cannot be told apart, a connected phone's services are discovered on arrival and announce"
  )
  @LoopActor
  func again() async throws {
    let village = Village()
    let ann = village.add("ann")
    ann.radio.controller.reachesEverySubscriber = true
    let phone = Stranger(on: village, to: ann)
    listen(phone, in: village)
    let port = try #require(ann.mesh.links.ports.values.first)
    #expect(village.wait(.seconds(5)) { port.exploring == nil })
    let (id, announce) = try announce(at: village.time, isEarshot: false)
    phone.write(announce, as: .command)
    #expect(village.wait(.seconds(5)) { port.peer == id })
    #expect(port.exploring != nil)
    // The device has no service.
    #expect(village.wait(.seconds(5)) { port.exploring == nil })
    #expect(port.client == nil && phone.isLinked)
  }

  @Test(
    "If clients cannot be told apart, a public packet is sent once, and each client receives it once"
  )
  @LoopActor
  func once() async throws {
    let village = Village()
    let ann = village.add("ann")
    ann.radio.controller.reachesEverySubscriber = true
    let phones = (0..<3).map { _ in Stranger(on: village, to: ann) }
    for phone in phones { listen(phone, in: village) }
    #expect(village.wait(.seconds(5)) { ann.mesh.links.ports.values.count(where: \.isOpen) == 3 })
    village.time.advance(by: .seconds(5))
    for phone in phones { phone.heard = [] }
    let before = ann.mesh.links.sender.sent
    var random = SeededRandom(seed: 1)
    // The last message is sent in fragments, which each link paces separately.
    let lines = ["one", "two", random.bytes(1500).map { String(format: "%02x", $0) }.joined()]
    for line in lines {
      _ = try ann.mesh.messages.say(line)
      village.time.advance(by: .seconds(2))
    }
    let said = [MessageType.message, .fragment].map(\.rawValue)
    let heard = phones.map { phone in phone.heard.filter { said.contains($0[1]) } }
    #expect(heard[0].count { $0[1] == MessageType.message.rawValue } == 2 && heard[0].count >= 5, "\(heard[0].count)")
    #expect(heard.allSatisfy { Set($0) == Set(heard[0]) && Set($0).count == $0.count })
    #expect(
      ann.mesh.links.sender.sent - before < UInt64(2 * heard[0].count), "what the node says of itself goes besides")
  }

  /// A server whose notifications reach all clients.
  @LoopActor
  private final class OpenServer: GATTServer {
    var links: [LinkID] = []
    private(set) var meant: [LinkID] = []

    func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery {
      guard case .link(let link) = recipients else { return Delivery() }
      meant.append(link)
      return Delivery(accepted: [link], overheard: links.filter { $0 != link })
    }
    func expectStream(from link: LinkID) {}
    func disconnect(_ link: LinkID) {}
    func close() {}
  }

  @Test("If clients cannot be told apart, a frame is sent separately to a client that has just connected")
  @LoopActor
  func justCome() {
    let village = Village()
    let mesh = village.add("ann").mesh
    village.time.advance(by: .seconds(10))
    let server = OpenServer()
    mesh.links.sender.server = server
    for (number, since) in [(9001, Instant.zero), (9002, .zero), (9003, village.time.now)] as [(UInt64, Instant)] {
      let port = MeshPort(LinkID(number), BluetoothAddress(number), since: since)
      (port.isServed, port.isOpen) = (true, true)
      mesh.links.add(port)
      server.links.append(port.id)
    }
    let frame = [UInt8](repeating: 1, count: 100)
    for link in server.links { mesh.links.send(frame, on: link, .own) }
    #expect(server.meant == [LinkID(9001), LinkID(9003)])
  }

  @Test("An overheard frame is accepted once for each link, within one second")
  func overheard() {
    var frames = OverheardFrames()
    func take(_ frame: [UInt8], _ link: LinkID, _ now: Instant) -> Bool { frames.take(frame, on: link, at: now) }
    let (one, other, begin) = (LinkID(1), LinkID(2), Instant.zero)
    frames.note([1], on: [one, other], at: begin)
    #expect(!take([2], one, begin) && !take([1], LinkID(3), begin))
    #expect(take([1], one, begin) && !take([1], one, begin))
    let late = begin.advanced(by: OverheardFrames.lifetime)
    #expect(!take([1], other, late))
    // The oldest frames are evicted.
    for number in 0...OverheardFrames.limit {
      frames.note([UInt8(number & 255), UInt8(number >> 8)], on: [one], at: late)
    }
    #expect(!take([0, 0], one, late) && take([1, 0], one, late))
  }

  @Test("When the MTU of a link grows, later packets are split for the new MTU")
  @LoopActor
  func wider() async throws {
    let village = Village()
    let ann = village.add("ann")
    ann.radio.controller.reachesEverySubscriber = false
    let phone = Stranger(on: village, to: ann)
    village.time.advance(by: .seconds(1))
    phone.discover()
    #expect(village.wait(.seconds(5)) { phone.isExplored })
    phone.subscribe()
    #expect(village.wait(.seconds(5)) { ann.mesh.links.ports.values.contains(where: \.isOpen) })
    var random = SeededRandom(seed: 3)
    let line = random.bytes(1000).map { String(format: "%02x", $0) }.joined()
    func longest() throws -> Int? {
      phone.heard = []
      _ = try ann.mesh.messages.say(line)
      village.time.advance(by: .seconds(10))
      return phone.heard.map(\.count).max()
    }
    let narrow = try longest()
    phone.exchangeMTU()
    village.time.advance(by: .seconds(1))
    let wide = try longest()
    #expect(narrow ?? 0 <= 20 && wide ?? 0 > 500, "\(narrow ?? 0), \(wide ?? 0)")
  }

  @Test("While a frame is being written, new notification capacity does not start a second write")
  @LoopActor
  func room() async throws {
    let (village, ann, bob) = pair(areMixed: false)
    #expect(village.wait { [ann, bob].allSatisfy { $0.mesh.links.ports.values.contains(where: \.isClientReady) } })
    let port = try #require(ann.mesh.links.ports.values.first)
    #expect(village.wait { !port.isBusy && port.queue.isEmpty })
    for number in 0..<3 { _ = try ann.mesh.messages.say("line \(number)") }
    let first = try #require(port.writing).frame
    ann.mesh.links.hasRoom(port.id)
    #expect(port.isBusy && port.writing?.frame == first)
    #expect(village.wait(.seconds(5)) { bob.texts == ["line 0", "line 1", "line 2"] })
  }

  @Test("When our client side of a link ends and the link stays, waiting frames are split for notifications")
  @LoopActor
  func clientGone() async throws {
    let (village, ann, bob) = pair(areMixed: false)
    for house in [ann, bob] { house.radio.controller.longestWrite = 510 }
    let isReady = village.wait {
      [ann, bob].allSatisfy { house in
        house.mesh.links.ports.values.map(\.frameLimit) == [510]
          && house.mesh.links.ports.values.allSatisfy(\.isClientReady)
      }
    }
    try #require(isReady)
    // The link of the node that was connected to, which notifies a subscriber.
    let isAnns = ann.mesh.links.ports.values.contains { !$0.isOurs }
    let (house, other) = isAnns ? (ann, bob) : (bob, ann)
    let port = try #require(house.mesh.links.ports.values.first)
    #expect(village.wait { !port.isBusy && port.queue.isEmpty })
    let lines = (0..<3).map { "line \($0)" }
    for line in lines { _ = try house.mesh.messages.say(line) }
    #expect(port.isBusy && port.queue.count == 2)
    let before = house.mesh.links.sender.unreachable
    port.client?.disconnect()
    village.time.advance(by: .milliseconds(50))
    #expect(port.client == nil && house.mesh.links.ports[port.id] === port, "the link stays")
    #expect(port.queue.isEmpty && !port.isBusy && port.frameLimit == Limits.frameBytes)
    #expect(house.mesh.links.sender.unreachable == before + 1, "what was being written may have gone with it")
    #expect(village.wait(.seconds(1)) { other.texts == lines })
  }

  @Test(
    "A queued frame that is too long for a write is sent as a notification"
  )
  @LoopActor
  func tooLongToWrite() async throws {
    let (village, ann, bob) = pair(areMixed: true)
    for house in [ann, bob] { house.radio.controller.longestWrite = 510 }
    let isReady = village.wait {
      [ann, bob].allSatisfy { house in
        house.mesh.links.ports.values.map(\.frameLimit) == [510]
          && house.mesh.links.ports.values.allSatisfy(\.isClientReady)
      }
    }
    try #require(isReady)
    let (house, other) = ann.mesh.links.ports.values.contains { !$0.isOurs } ? (ann, bob) : (bob, ann)
    let port = try #require(house.mesh.links.ports.values.first)
    #expect(village.wait { !port.isBusy && port.queue.isEmpty && port.isSubscribed })
    let before = (sent: house.mesh.links.sender.sent, unreachable: house.mesh.links.sender.unreachable)
    let frames = try #require(other.mesh.node.engine?.counters.frames)
    let long = (0..<40).map { [UInt8](repeating: $0, count: 512) }
    for frame in long { house.mesh.links.send(frame, on: port.id, .file) }
    #expect(village.wait(.seconds(5)) { other.mesh.node.engine?.counters.frames ?? 0 >= frames + 40 })
    #expect(
      house.mesh.links.sender.sent >= before.sent + 40 && house.mesh.links.sender.unreachable == before.unreachable)
    // A packet that was refused waits until the server's end reports buffer space.
    (port.isBusy, port.writing) = (true, nil)
    house.mesh.links.hasRoom(port.id)
    #expect(!port.isBusy)
    // A packet that fits is written as before.
    _ = try house.mesh.messages.say("a line")
    #expect(port.writing != nil)
    #expect(village.wait(.seconds(5)) { other.texts == ["a line"] })
  }

  @Test("A frame for all subscribers is limited by the smallest MTU, and a written frame by its own link's")
  @LoopActor
  func narrowest() async throws {
    let (village, ann, _) = pair(areMixed: true)
    let mesh = ann.mesh
    let (wide, narrow) = (MeshPort(LinkID(9001), BluetoothAddress(1)), MeshPort(LinkID(9002), BluetoothAddress(2)))
    for (port, mtu) in [(wide, 517), (narrow, 185)] {
      (port.isServed, port.mtu) = (true, mtu)
      mesh.links.add(port)
    }
    #expect(mesh.links.frameLimit(of: wide) == 182 && mesh.links.frameLimit(of: narrow) == 182)
    let narrowest = MeshPort(LinkID(9003), BluetoothAddress(3))
    (narrowest.isServed, narrowest.mtu) = (true, 23)
    mesh.links.add(narrowest)
    #expect(mesh.links.frameLimit(of: wide) == 182, "one client at the smallest MTU takes nothing from the others")
    #expect(mesh.links.frameLimit(of: narrowest) == 20)
    (wide.isClientReady, wide.writeLimit) = (true, 509)
    #expect(mesh.links.frameLimit(of: wide) == 509 && mesh.links.frameLimit(of: narrow) == 182)
    wide.isClientReady = false
    ann.radio.controller.reachesEverySubscriber = false
    village.time.advance(by: .zero)
    #expect(mesh.links.frameLimit(of: wide) == 512 && mesh.links.frameLimit(of: narrow) == 182)
  }
}

@Suite("A mesh node that shares one advertising slot")
struct GivingWayTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "A node without a slot of its own advertises in time slices, reports this, and still finds neighbours")
  @LoopActor
  func oneSlot() async throws {
    let village = Village()
    let ann = village.add("ann")
    ann.radio.controller.advertisingSlots = 1
    #expect(village.wait { ann.mesh.node.radio.status.traits.advertisesAll && ann.mesh.reason.isEmpty })
    let kiosk = ann.shared.tenant("kiosk", share: .nothing)
    let visitor = Advertisement(data: AdvertisingData(flags: 6, serviceUUIDs: [BluetoothUUID(short: 0xFE90)]))
    let registration = try kiosk.advertise(visitor, AdvertisingTerms(.person), for: nil)
    #expect(village.wait { !ann.mesh.node.radio.status.traits.advertisesAll })
    village.time.advance(by: .seconds(120))
    #expect(!ann.mesh.node.radio.status.traits.advertisesAll)
    let bob = village.add("bob", at: 5)
    #expect(village.wait { ann.mesh.state == .connected && bob.mesh.state == .connected })
    #expect(ann.mesh.reason.contains("too few advertising slots"))
    registration.cancel()
    #expect(village.wait { ann.mesh.node.radio.status.traits.advertisesAll && ann.mesh.reason.isEmpty })
  }
  @Test("During a radio inhibit a node sends no file fragment; afterwards the file transfer continues")
  @LoopActor
  func quiet() async throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    let kiosk = ann.shared.tenant("kiosk", share: LinkShare(needs: 1, may: 1, priority: 10))
    let quiet = kiosk.askForQuiet()
    village.time.advance(by: .milliseconds(1))
    var random = SeededRandom(seed: 1)
    let number = try ann.mesh.files.send(file: random.bytes(20_000), name: "a", mime: "", to: "")
    village.time.advance(by: .seconds(30))
    #expect(ann.mesh.links.search.scan == nil && bob.mesh.files.log.numbers.isEmpty)
    #expect(ann.mesh.files[number]?.percent == 0)
    quiet.cancel()
    #expect(village.wait(.seconds(30)) { bob.mesh.files.log.numbers.count == 1 })
  }
}
