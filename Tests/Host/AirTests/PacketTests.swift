import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct PacketTests {
  @Test(
    "Each advertising event delivers a packet with address, kind, RSSI and bytes to a node that listens for packets")
  func packets() async throws {
    try await onLoop {
      let air = TestAir()
      air.space.range = 100
      let node = air.space.addNode(position: AirPosition(x: 10))
      let first = advertisement("x")
      let bare = Advertisement(
        .nonConnectable(AdvertisingSetID(1)),
        data: AdvertisingData([.manufacturerData(0xFFFF, [1, 2]), .shortenedName("y")]))
      node.advertise(first, in: 0)
      node.advertise(bare, in: 1)
      var packets: [AdvertisingPacket] = []
      var own: Set<BluetoothAddress> = []
      let registration = air.observer.packets { packet in
        #expect(packet.time == air.time.now)
        var packet = packet
        packet.time = .zero
        if packet.kind == .nonConnectable { own.insert(packet.address) }
        packets.append(packet)
      }
      air.time.advance(by: .seconds(10))
      let address = node.address
      let other = try #require(own.first)
      #expect(own.count == 1 && other != address && other.value >> 46 == 0)
      func packet(_ kind: AdvertisingPacket.Kind, _ data: AdvertisingData) throws -> AdvertisingPacket {
        AdvertisingPacket(
          address: kind == .nonConnectable ? other : address,
          addressKind: kind == .nonConnectable ? .randomAddress : .publicAddress, kind: kind, rssi: -79, time: .zero,
          data: try data.encoded())
      }
      let connectable = try packet(.connectable, first.data)
      let scanResponse = try packet(.scanResponse, first.scanResponse)
      let nonConnectable = try packet(.nonConnectable, bare.data)
      for kind in [connectable, scanResponse, nonConnectable] { #expect(packets.count { $0 == kind } == 100) }
      #expect(packets.count == 300)
      let index = try #require(packets.firstIndex(of: connectable))
      #expect(packets[index + 1] == scanResponse)
      registration.cancel()
      air.time.advance(by: .seconds(1))
      #expect(packets.count == 300)
    }
  }

  @Test("A driver that cannot receive single packets delivers only scan results")
  func blind() async {
    await onLoop {
      let air = TestAir(AirController(seesPackets: false))
      let recorder = DriverRecorder.of(air.observer)
      var (packets, scanResults) = (0, 0)
      recorder.onPacket = { _ in packets += 1 }
      recorder.onScanResult = { _ in scanResults += 1 }
      air.space.addNode().advertise(advertisement(), in: 0)
      air.observer.listen(Listening(services: [], patterns: []))
      air.time.advance(by: .seconds(5))
      #expect(packets == 0 && (5...6).contains(scanResults) && !air.observer.seesPackets)
    }
  }

  @Test("A changed packet filter applies at once, and equal packets are still delivered once a second")
  func changingMind() async {
    await onLoop {
      let air = TestAir()
      air.space.addNode().advertise(advertisement(), in: 0)
      let recorder = DriverRecorder.of(air.observer)
      var (packets, scanResults) = (0, 0)
      recorder.onPacket = { _ in packets += 1 }
      recorder.onScanResult = { _ in scanResults += 1 }
      air.observer.listen(Listening(services: [other]))
      air.time.advance(by: .seconds(1))
      #expect(packets == 0 && scanResults == 0)
      air.observer.listen(Listening(services: [other, service]))
      air.time.advance(by: .milliseconds(400))
      #expect(scanResults == 1)
      air.observer.listen(Listening(services: [service], patterns: []))
      air.time.advance(by: .milliseconds(400))
      #expect(scanResults == 1 && packets == 8)
      air.observer.listen(Listening(services: nil, patterns: []))
      air.time.advance(by: .seconds(3))
      #expect(scanResults == 1 && packets == 68)
    }
  }

  @Test("Advertising that no node listens for causes no events in the simulation")
  func cheapness() async {
    await onLoop {
      @LoopActor func events(_ listening: Listening?) -> Int {
        let air = TestAir()
        var rapid = advertisement()
        rapid.interval = .milliseconds(20)
        air.space.addNode().advertise(rapid, in: 0)
        air.observer.listen(listening)
        var count = 0
        while air.time.now < Instant.zero.advanced(by: .seconds(60)), air.time.runNext() { count += 1 }
        return count
      }
      #expect(events(nil) == 0)
      #expect(events(Listening(services: [other])) == 1)
      #expect((55...61).contains(events(Listening(services: []))))
      #expect((2990...3001).contains(events(Listening(services: nil, patterns: []))))
    }
  }

  @Test("Of 200 advertisers in range, each is reported once a second")
  func manyAdvertisers() async {
    await onLoop {
      let air = TestAir()
      for _ in 0..<200 { air.space.addNode().advertise(advertisement(), in: 0) }
      var reports: [BluetoothAddress: [Instant]] = [:]
      let scan = air.observer.scan(for: []) { reports[$0.address, default: []].append(air.time.now) }
      air.time.advance(by: .seconds(10))
      #expect(reports.count == 200)
      for moments in reports.values {
        #expect((10...11).contains(moments.count))
        #expect(zip(moments, moments.dropFirst()).allSatisfy { $0.duration(to: $1) >= .seconds(1) })
      }
      scan.cancel()
    }
  }

  @Test("A connection attempt to a non-connectable advertiser is not accepted")
  func notConnectable() async throws {
    try await onLoop {
      let air = TestAir()
      let node = air.space.addNode()
      var advertisement = advertisement()
      advertisement.kind = .nonConnectable(AdvertisingSetID(1))
      node.advertise(advertisement, in: 0)
      let client = Client()
      try client.connect(air.observer, to: node.address)
      air.time.advance(by: .seconds(4))
      #expect(client.events.isEmpty)
      advertisement.kind = .connectable(scanResponse: AdvertisingData())
      node.advertise(advertisement, in: 0)
      air.time.advance(by: .milliseconds(300))
      #expect(client.isConnected)
    }
  }

  @Test("A node whose address changes preserves its links, and accepts new ones only at the new address")
  func addresses() async throws {
    try await onLoop {
      let pair = try Pair()
      var addresses: [BluetoothAddress] = []
      let scanner = pair.air.addNode()
      let scan = scanner.scan(for: []) { addresses.append($0.address) }
      let packets: () -> [AdvertisingPacket] = {
        var heard: [AdvertisingPacket] = []
        let registration = pair.air.addNode().packets { heard.append($0) }
        pair.time.advance(by: .milliseconds(100))
        registration.cancel()
        return heard
      }
      #expect(packets().allSatisfy { $0.addressKind == .publicAddress })
      let old = pair.peripheral.address
      pair.peripheral.changeAddress()
      let new = pair.peripheral.address
      #expect(new != old && new.value >> 46 == 1 && !pair.air.isTaken(old) && pair.air.isTaken(new))
      #expect(packets().allSatisfy { $0.addressKind == .randomAddress && $0.address == new })
      #expect(addresses == [old, new])
      try pair.link.write([1], to: submit, as: .request)
      pair.time.advance(by: .seconds(1))
      #expect(pair.recorder.values == [[1]] && pair.client.isConnected)
      let (lost, found) = (Client(), Client())
      try lost.connect(scanner, to: old)
      try found.connect(scanner, to: new)
      pair.time.advance(by: .seconds(1))
      #expect(lost.events.isEmpty && found.isConnected)
      pair.time.advance(by: .seconds(4))
      #expect(lost.isOver)
      scan.cancel()
    }
  }

  @Test("The address of a simulated node changes after each configured interval, and not without an interval")
  func addressInterval() async {
    await onLoop {
      let air = TestAir(AirController(addressInterval: .seconds(900)))
      let node = air.space.addNode()
      var seen = [node.address]
      for _ in 0..<3 {
        air.time.advance(by: .seconds(899))
        #expect(node.address == seen.last)
        air.time.advance(by: .seconds(1))
        #expect(!seen.contains(node.address))
        seen.append(node.address)
      }
      for node in [node, air.observer] { node.controller.addressInterval = nil }
      #expect(air.time.runUntilIdle(limit: .seconds(10_000)))
      #expect(node.address == seen.last)
    }
  }
}
