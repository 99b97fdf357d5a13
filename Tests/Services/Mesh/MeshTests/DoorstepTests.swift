import Common
import Crypto
import Loop
import MeshStore
import MeshSupport
import Radio
import TestSupport
import Testing

@testable import Bitchat
@testable import BitchatWire
@testable import Mesh

@Suite("Writing mesh frames on a link")
struct DoorstepTests {
  init() { EventLoop.shared.runInBackground() }

  /// A running node.
  @LoopActor
  private static func node() -> (Village, VirtualWallClock, Doorstep, MeshService) {
    let village = Village()
    let clock = VirtualWallClock(village.time)
    let doorstep = Doorstep(village.time)
    var settings = MeshSettings()
    settings.nickname = "node"
    let keeper = NodeStore(
      directory: "", settings: settings.kept, scheduler: village.time, disk: village.time, clock: clock)
    let mesh = MeshService(radio: doorstep, scheduler: village.time, settings: settings, keeper: keeper, clock: clock)
    mesh.start()
    return (village, clock, doorstep, mesh)
  }

  /// A running node, and a passer with a link to it for half a minute.
  @LoopActor
  private static func nodeAndPasser(connects: Bool) -> (Village, Doorstep, MeshService, Passer) {
    let (village, clock, doorstep, mesh) = node()
    let passer = Passer("bob", seed: 7, doorstep, clock)
    doorstep.come(passer, as: BluetoothAddress(0xC000_0000_0001), connects: connects)
    #expect(village.wait(.seconds(30)) { passer.isLinked && mesh.neighbours == 1 })
    village.time.advance(by: .seconds(30))
    return (village, doorstep, mesh, passer)
  }

  @Test(
    "File packets are sent by stream writes while the link accepts them, then queued, once and in order")
  @LoopActor
  func atOnce() throws {
    let (village, doorstep, mesh, passer) = Self.nodeAndPasser(connects: false)
    var ways: [Bool] = []
    var indexes: [UInt16] = []
    var values: Set<[UInt8]> = []
    doorstep.onVisitValue = { value, isAtOnce in
      ways.append(isAtOnce)
      #expect(values.insert(value).inserted)
      guard let packet = try? Packet(PacketView(value)), packet.type == .fragment,
        let fragment = try? Fragment(reading: packet.payload)
      else { return }
      indexes.append(fragment.index)
    }
    let before = mesh.links.sender.sent
    _ = try mesh.files.send(file: (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }, name: "a", mime: "", to: "")
    #expect(village.wait(.seconds(60)) { passer.files == 1 })
    #expect(indexes.count > 40 && indexes == Array(0..<UInt16(indexes.count)))
    #expect(ways.contains(true) && ways.contains(false))
    // A value that was queued counts when it is written.
    village.time.advance(by: .seconds(1))
    #expect(mesh.links.sender.sent == before + UInt64(ways.count))
    mesh.stop()
    village.time.advance(by: .seconds(2))
  }

  @Test(
    "A refused packet of a file is written three times, and not again after the file was cancelled",
    arguments: [false, true])
  @LoopActor
  func refused(isCancelled: Bool) throws {
    let (village, doorstep, mesh, _) = Self.nodeAndPasser(connects: false)
    var written: [[UInt8]] = []
    doorstep.onVisitValue = { value, isAtOnce in
      if !isAtOnce, FragmentID(ofPacket: value) != nil { written.append(value) }
    }
    doorstep.isRefusing = true
    let number = try mesh.files.send(
      file: (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }, name: "a", mime: "", to: "")
    #expect(village.wait(.seconds(10)) { !written.isEmpty })
    if isCancelled {
      #expect(mesh.files.cancel(number))
      village.time.advance(by: .seconds(10))
      #expect(written.count == 1)
    } else {
      #expect(village.wait(.seconds(10)) { written.count > 3 })
      #expect(written[1] == written[0] && written[2] == written[0] && written[3] != written[0])
    }
  }

  @Test("A link's backlog is long while a file is sent, and short for 30 s after a public message")
  @LoopActor
  func backlog() throws {
    let (village, doorstep, mesh, passer) = Self.nodeAndPasser(connects: true)
    func send(_ count: Int) throws {
      let before = passer.files
      _ = try mesh.files.send(file: (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }, name: "a", mime: "", to: "")
      #expect(village.wait(.seconds(60)) { passer.files == before + 1 })
    }
    #expect(doorstep.backlogs.isEmpty)
    try send(20_000)
    #expect(doorstep.backlogs.map(\.backlog) == [.long])
    _ = try mesh.messages.say("a line")
    village.time.advance(by: .seconds(1))
    #expect(doorstep.backlogs.map(\.backlog) == [.long, .short])
    try send(20_001)
    _ = try mesh.messages.say("another one")
    #expect(doorstep.backlogs.count == 2)
    village.time.advance(by: OutgoingFiles.chatTime)
    #expect(doorstep.backlogs.count == 2, "nothing goes that would wait")
    try send(20_002)
    #expect(doorstep.backlogs.map(\.backlog) == [.long, .short, .long])
    let link = try #require(doorstep.guests.first { $0.value === passer }?.key)
    #expect(doorstep.backlogs.allSatisfy { $0.link == link })
    mesh.stop()
    village.time.advance(by: .seconds(2))
  }

  @Test("A node prepares its radio for a stream from an Earshot peer that connects, and not from a phone")
  @LoopActor
  func streamers() throws {
    let (village, clock, doorstep, mesh) = Self.node()
    village.time.advance(by: .seconds(1))
    let phone = doorstep.come(as: BluetoothAddress(0xC000_0000_0002))
    var random = SeededRandom(seed: 9)
    let identity = MeshEngine.Identity(randomFrom: &random)
    let announcement = try Announcement(
      nickname: "phone", noiseKey: identity.noiseKey.publicKey, signingKey: identity.signingKey.publicKey)
    let announce = Packet(
      type: .announce, timestamp: UInt64(clock.milliseconds), sender: identity.id, payload: announcement.bytes)
    doorstep.write(try announce.signed(with: identity.signingKey).encoded(), on: phone)
    #expect(mesh.neighbours == 1)
    #expect(doorstep.streamers.isEmpty)
    let passer = Passer("bob", seed: 7, doorstep, clock)
    doorstep.come(passer, as: BluetoothAddress(0xC000_0000_0001), connects: true)
    #expect(village.wait(.seconds(30)) { passer.isLinked && mesh.neighbours == 2 })
    let link = try #require(doorstep.guests.first { $0.value === passer }?.key)
    #expect(doorstep.streamers == [link])
    let other = Passer("cem", seed: 8, doorstep, clock)
    doorstep.come(other, as: BluetoothAddress(0xC000_0000_0003), connects: false)
    #expect(village.wait(.seconds(30)) { other.isLinked && mesh.neighbours == 3 })
    #expect(doorstep.streamers == [link])
    let otherLink = try #require(doorstep.guests.first { $0.value === other }?.key)
    doorstep.use(otherLink, by: other)
    #expect(doorstep.streamers == [link, otherLink])
    mesh.stop()
    village.time.advance(by: .seconds(2))
  }
}
