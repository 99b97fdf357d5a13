import Air
import Common
import Loop
import PBLEC
import Radio
import TestSupport
import Testing

@testable import Broadcast

@Suite("The local broadcast channel on the simulated radio")
struct FeedTalkTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Two nodes receive each other's broadcast messages once and in order, each from one peer")
  @LoopActor
  func talk() throws {
    let plaza = Plaza()
    let (one, other) = (plaza.add(), plaza.add())
    for number in 0..<5 {
      _ = try one.send("one \(number)")
      _ = try other.send("other \(number)")
      plaza.time.advance(by: .seconds(7))
    }
    #expect(other.texts == (0..<5).map { "one \($0)" })
    #expect(one.texts == (0..<5).map { "other \($0)" })
    #expect(Set(one.peers).count == 1 && Set(other.peers).count == 1)
    #expect(one.outcomes.values.allSatisfy { $0 == nil } && one.outcomes.count == 5)
    #expect(one.count("Duplicates") > 100)
  }

  @Test(
    "A message is sent at least 20 times within 4 s as non-connectable, and the next begins 2 s later"
  )
  @LoopActor
  func onAir() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    let ear = try plaza.listen()
    for text in ["hello", "hello", "é€😆"] { _ = try stall.send(text) }
    plaza.time.advance(by: .seconds(20))
    let names = ear.names
    #expect(names.count == 3)
    for (name, packets) in names {
      let digit = try #require(name.dropFirst().first?.wholeNumberValue)
      let packet = MessagePacket(digit: UInt8(digit), text: try MessageText(String(name.dropFirst(2))))
      #expect(packets.allSatisfy { $0.data == packet.bytes && $0.kind == .nonConnectable })
      let (first, last) = (try #require(packets.first).time, try #require(packets.last).time)
      #expect(packets.count >= 20 && first.duration(to: last) <= .seconds(4))
    }
    for (before, after) in zip(names, names.dropFirst()) {
      let (end, begin) = (try #require(before.packets.last).time, try #require(after.packets.first).time)
      #expect(end.duration(to: begin) >= .seconds(2))
      #expect(before.packets[0].time.duration(to: begin) >= .milliseconds(5900))
    }
    // All packets have one address, which is not the adapter's. Between messages only Flags are advertised.
    let addresses = Set(ear.packets.map(\.address))
    #expect(addresses.count == 1 && !addresses.contains(stall.node.address))
    #expect(ear.packets.contains { $0.data == [2, 1, 6] })
  }

  @Test(
    "A sender's address stays for 60 s after its last broadcast message, and is then replaced"
  )
  @LoopActor
  func conversation() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    let ear = try plaza.listen()
    _ = try stall.send("one")
    plaza.time.advance(by: .seconds(60))
    _ = try stall.send("two")
    plaza.time.advance(by: .seconds(4 + 61))
    let said = ear.packets.count
    plaza.time.advance(by: .seconds(60))
    #expect(ear.packets.count == said)
    _ = try stall.send("three")
    plaza.time.advance(by: .seconds(5))
    let names = ear.names
    #expect(names.map { String($0.name.dropFirst(2)) } == ["one", "two", "three"])
    let addresses = names.map { Set($0.packets.map(\.address)) }
    #expect(addresses[0] == addresses[1] && addresses[2].isDisjoint(with: addresses[0]))
    #expect(addresses.allSatisfy { $0.count == 1 })
  }

  @Test(
    "With 10% packet loss and changing addresses each of 30 broadcast messages is received once")
  @LoopActor
  func thirty() {
    let plaza = Plaza()
    let stall = plaza.add()
    plaza.air.conditions.advertisingLoss = 0.1
    var address: UInt64 = 0xA000
    for number in 0..<30 {
      if number % 10 == 5 { address += 1 }
      for _ in 0..<40 {
        plaza.hear("~\(number % 10)message \(number)", from: address)
        plaza.time.advance(by: .milliseconds(100))
      }
      plaza.time.advance(by: .seconds(2))
    }
    #expect(stall.texts == (0..<30).map { "message \($0)" })
  }

  @Test("A beacon is reported once to each node that wants notifications")
  @LoopActor
  func beacons() {
    let plaza = Plaza()
    let (one, other) = (plaza.add(), plaza.add())
    let deaf = plaza.add { $0.notifyLimit = 0 }
    for stall in [one, other] {
      var refusals: [BroadcastService.Refusal?] = []
      stall.service.notify { refusals.append($0) }
      plaza.time.advance(by: .seconds(70))
      #expect(refusals.count == 1 && refusals[0] == nil)
    }
    #expect([one.notifications, other.notifications, deaf.notifications] == [1, 1, 0])
    #expect(one.calls == [nil] && other.calls == [nil])
    #expect(one.count("RepeatedBeacons") > 100 && deaf.count("TooManyBeacons") > 100)
  }

  @Test("A beacon that is interrupted by messages continues with its numbers, for 60 s in total")
  @LoopActor
  func givingWay() throws {
    let plaza = Plaza()
    let stall = plaza.add(slots: 1)
    let ear = try plaza.listen()
    stall.service.notify { _ in }
    plaza.time.advance(by: .seconds(10))
    _ = try stall.send("hello")
    plaza.time.advance(by: .seconds(140))
    #expect(stall.calls == [nil])
    let beacons = ear.packets.filter { $0.data.count == 30 }
    #expect(Set(beacons.map(\.data)).count == 1)
    #expect((550...640).contains(beacons.count))
    #expect(ear.names.first?.packets.count ?? 0 >= 20)
  }

  @Test("An advertisement of higher priority waits until a broadcast message was sent for 4 s")
  @LoopActor
  func uninterrupted() throws {
    let plaza = Plaza()
    let stall = plaza.add(slots: 1)
    let ear = try plaza.listen()
    let number = try stall.send("hello")
    plaza.time.advance(by: .seconds(1))
    let kiosk = stall.shared.tenant("kiosk", share: .nothing)
    let registration = try kiosk.advertise(
      Advertisement(data: AdvertisingData(flags: 6, localName: "kiosk")), AdvertisingTerms(.person), for: nil)
    plaza.time.advance(by: .seconds(9))
    #expect(stall.outcomes[number] == .some(nil))
    #expect(ear.names.first?.packets.count ?? 0 >= 38)
    #expect(kiosk.advertisingUse.onAir == ["kiosk"])
    withExtendedLifetime(registration) {}
  }

  @Test("After the adapter returns, broadcast messages are sent and received again")
  @LoopActor
  func powerCycle() throws {
    let plaza = Plaza()
    let (one, other) = (plaza.add(), plaza.add())
    other.node.power = false
    plaza.time.advance(by: .seconds(1))
    #expect(other.service.state == .waiting && !other.service.isListening)
    #expect(other.refusal("x") == "org.earshot.Error.NotReady")
    other.node.power = true
    plaza.time.advance(by: .seconds(1))
    #expect(other.service.state == .listening)
    _ = try one.send("again")
    _ = try other.send("me too")
    plaza.time.advance(by: .seconds(5))
    #expect(other.texts == ["again"] && one.texts == ["me too"])
  }

  @Test("If the driver cannot receive single packets, the broadcast service is degraded and does not receive")
  @LoopActor
  func deaf() throws {
    let plaza = Plaza()
    plaza.air.controller = AirController(seesPackets: false)
    let node = plaza.air.addNode()
    let service = BroadcastService(
      radio: node.tenant(plaza.time), scheduler: plaza.time, settings: .init(),
      keeper: NotificationStore(directory: "", scheduler: plaza.time, disk: plaza.time))
    service.start()
    plaza.time.advance(by: .seconds(1))
    #expect(service.state == .degraded && !service.isListening)
    #expect(service.reason.contains("does not report single packets"))
    // A service that cannot receive packets refuses messages, which would occupy a slot in vain.
    do throws(BroadcastService.Refusal) {
      _ = try service.send("hello")
      Issue.record("taken")
    } catch {
      #expect(error.code == "NotReady" && error.sentence == service.reason)
    }
    var refusals: [String?] = []
    service.notify { refusals.append($0?.code) }
    #expect(refusals == ["NotReady"])
  }

  @Test("While the kernel temporarily delivers no packets, the broadcast service sends and does not receive")
  @LoopActor
  func passingDeafness() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    var heard: [Bool] = []
    stall.service.changes.addForGood { heard.append(stall.service.isListening) }
    stall.node.controller.passingDeafness = "The kernel has too many monitors."
    plaza.time.advance(by: .seconds(1))
    #expect(stall.service.state == .degraded && !stall.service.isListening && heard == [false])
    #expect(stall.service.reason == "The kernel has too many monitors.")
    let number = try stall.send("hello")
    plaza.time.advance(by: .seconds(5))
    #expect(stall.outcomes[number] == .some(nil))
    stall.node.controller.passingDeafness = nil
    plaza.time.advance(by: .seconds(1))
    #expect(stall.service.state == .listening && stall.service.isListening)
  }

  @Test("If the radio can only send changed packets, the broadcast service is degraded with the reason")
  @LoopActor
  func hardOfHearing() {
    let plaza = Plaza()
    let stall = plaza.add()
    stall.node.controller.packetShortfall = "Only names are heard."
    plaza.time.advance(by: .seconds(1))
    #expect(stall.service.state == .degraded && stall.service.isListening)
    #expect(stall.service.reason == "Only names are heard.")
    stall.node.controller.packetShortfall = nil
    plaza.time.advance(by: .seconds(1))
    #expect(stall.service.state == .listening && stall.service.reason.isEmpty)
  }

  @Test("The number of broadcast peers is signalled when it changes, not at each packet")
  @LoopActor
  func changes() {
    let plaza = Plaza()
    let stall = plaza.add()
    var peers: [Int] = []
    stall.service.changes.addForGood { peers.append(stall.service.peersNearby) }
    for _ in 0..<20 {
      plaza.hear("~1hello", from: 1)
      plaza.hear("~1hello", from: 2)
      plaza.time.advance(by: .milliseconds(100))
    }
    #expect(peers == [1, 2])
    plaza.time.advance(by: .seconds(70))
    #expect(peers == [1, 2, 0])
  }

  @Test("A random and a public address with the same digits are two different peers")
  @LoopActor
  func addressKinds() {
    let plaza = Plaza()
    let stall = plaza.add()
    plaza.hear("~1hello", from: 5)
    plaza.air.send(
      AdvertisingPacket(
        address: BluetoothAddress(5), addressKind: .publicAddress, kind: .nonConnectable, rssi: nil, time: .zero,
        data: [8, 9] + Array("~1hello".utf8)))
    plaza.time.advance(by: .seconds(1))
    #expect(stall.texts == ["hello", "hello"] && stall.service.peersNearby == 2)
  }

  @Test("When the broadcast service stops, queued messages are reported as cancelled, and advertising ends")
  @LoopActor
  func end() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    let numbers = [try stall.send("one"), try stall.send("two")]
    stall.service.notify { _ in }
    plaza.time.advance(by: .seconds(1))
    stall.service.stop()
    #expect(numbers.allSatisfy { stall.outcomes[$0] == .some(.cancelled) } && stall.calls == [.cancelled])
    plaza.time.advance(by: .milliseconds(200))
    let ear = try plaza.listen()
    plaza.time.advance(by: .seconds(5))
    #expect(ear.packets.isEmpty && stall.service.state == .stopped)
  }

  @Test("Reloaded settings of the broadcast service apply at once")
  @LoopActor
  func reload() {
    let plaza = Plaza()
    let stall = plaza.add()
    plaza.hear("~1hello", from: 1)
    plaza.hear("~1hello", from: 2)
    var settings = stall.service.settings
    settings.followsAddresses = true
    stall.service.apply(settings)
    plaza.time.advance(by: .seconds(5))
    plaza.hear("~2hello", from: 3)
    plaza.hear("~2hello", from: 4)
    #expect(stall.texts.count == 3 && stall.count("AddressChanges") == 1)
  }

  @Test("An idle broadcast service has no pending timers")
  @LoopActor
  func idle() {
    let plaza = Plaza()
    plaza.add()
    plaza.time.advance(by: .seconds(2))
    #expect(plaza.time.pending == 0)
  }

  @Test("Each of the 16,384 peer numbers is shown as a different pair of words")
  @LoopActor
  func words() {
    let words = Set((0..<Limits.aliases).map(PeerWord.word))
    #expect(words.count == Limits.aliases)
    let parts = Set(words.flatMap { $0.split(separator: "-") })
    #expect(parts.allSatisfy { $0.allSatisfy { $0.isLetter && $0.isLowercase } })
    #expect(PeerWord.word(-1) == PeerWord.word(Limits.aliases - 1))
  }
}
