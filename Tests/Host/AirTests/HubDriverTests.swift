import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite(.serialized, .timeLimit(.minutes(10))) struct HubDriverTests {
  @Test("Over the simulated radio hub one link carries GATT in both directions, and each program sees it as one link")
  func bothDirections() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      let (central, peripheral) = (pair.central, pair.peripheral)
      let (here, there) = (DriverRecorder.of(central), DriverRecorder.of(peripheral))
      let recorder = Recorder()
      let server = central.serve(application, delegate: recorder)
      try #require(await eventually { here.served.count == 1 && central.isServed(server.number) })
      try await pair.connect()
      let (ours, theirs) = (try pair.link.id, try #require(there.links.first?.id))
      let since = try #require(here.links.first?.since)
      let address = try #require(peripheral.address)
      #expect(here.links == [DriverLink(id: ours, address: address, since: since)])
      #expect(there.links[0].since == since && here.mtus == [ours: 517] && there.mtus == [theirs: 517])
      #expect(central.origin(of: ours) == .here && peripheral.origin(of: theirs) == .peer)
      let back = Client()
      try back.connect(peripheral, to: try #require(central.address))
      #expect(back.link?.id == theirs)
      back.link?.subscribe(to: report)
      back.link?.write([4], to: submit, as: .request)
      try #require(await eventually { back.written == [nil] })
      #expect(recorder.values == [[4]] && here.uses.count == 1 && here.uses.first?.use == .subscribed(report))
      #expect(server.notify([5], of: report, to: .subscribers) == Delivery(accepted: [ours]))
      try #require(await eventually { back.notified == [[5]] })
      #expect(here.links.count == 1 && there.links.count == 1)
      peripheral.cut(theirs)
      let client = pair.client
      try #require(await eventually { client.isOver && back.isOver && here.ended == [ours] && there.ended == [theirs] })
      #expect(server.notify([6], of: report, to: .link(ours)) == Delivery(unreachable: [ours]))
      #expect(central.origin(of: ours) == .unknown)
    }
  }

  @Test("Over the simulated radio hub a full link refuses values, and reports when it can take values again")
  func notifyWindow() async throws {
    try await onLoopAsync {
      let pair = try await HubPair(AirConditions(latency: .milliseconds(1), notifyWindow: 3))
      let delegate = DriverRecorder.of(pair.peripheral)
      try await pair.connect()
      let link = try #require(pair.recorder.link)
      #expect(pair.server.notify(value(0), of: report, to: link) == Delivery(unreachable: [link]))
      try pair.link.subscribe(to: report)
      try #require(await eventually { delegate.uses.count == 1 })
      var next = 0
      let client = pair.client
      while next < 50 {
        let delivery = pair.server.notify(value(next), of: report, to: .links([link, link]))
        if delivery == Delivery(accepted: [link]) {
          next += 1
          continue
        }
        #expect(delivery == Delivery(full: [link]) && next >= 3)
        let rooms = delegate.rooms.count
        try #require(await eventually { delegate.rooms.count > rooms })
      }
      try #require(await eventually { client.notified.count == 50 })
      #expect(numbers(client.notified) == Array(0..<50))
      #expect(delegate.rooms.allSatisfy { $0 == link } && delegate.rooms.count >= 16)
    }
  }

  @Test("The simulated radio hub stores values that exceed a link's capacity, and sends them in order")
  func impatient() async throws {
    try await onLoopAsync {
      let pair = try await HubPair(AirConditions(latency: .milliseconds(1), notifyWindow: 3))
      let delegate = DriverRecorder.of(pair.peripheral)
      try await pair.connect()
      try pair.link.subscribe(to: report)
      try #require(await eventually { delegate.uses.count == 1 })
      let link = try #require(pair.peripheral.links.keys.first)
      for number in 0..<40 {
        pair.peripheral.send(.notify(application: 1, [link], report, value(number)))
      }
      let client = pair.client
      try #require(await eventually { client.notified.count == 40 })
      #expect(numbers(client.notified) == Array(0..<40))
    }
  }

  @Test("While the simulated radio hub does not read, links become full, and no accepted value is lost")
  func congestion() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      let delegate = DriverRecorder.of(pair.peripheral)
      try await pair.connect()
      try pair.link.subscribe(to: report)
      try #require(await eventually { delegate.uses.count == 1 })
      let link = try #require(pair.recorder.link)
      var accepted = 0
      let padding = [UInt8](repeating: 0, count: 500)
      while accepted < 60_000,
        pair.server.notify(value(accepted) + padding, of: report, to: link).full.isEmpty
      {
        accepted += 1
      }
      #expect((1000..<60_000).contains(accepted))
      let (client, sent) = (pair.client, accepted)
      try #require(await eventually { client.notified.count == sent && delegate.rooms == [link] })
      #expect(numbers(client.notified) == Array(0..<sent))
      #expect(pair.server.notify([1], of: report, to: link).accepted == [link])
    }
  }

  @Test("Over the simulated radio hub an exact value reaches a client without a subscription; other values do not")
  func exactReach() async throws {
    try await onLoopAsync {
      let pair = try await HubPair(AirConditions(latency: .zero), AirController(reachesEverySubscriber: true))
      let characteristic = CharacteristicID(service: other, characteristic: other)
      let server = pair.peripheral.serve(
        GATTApplication(services: [
          GATTService(
            uuid: other, characteristics: [GATTCharacteristic(uuid: other, properties: .notify, reach: .exact)])
        ]), delegate: Recorder())
      let peripheral = pair.peripheral
      try #require(await eventually { peripheral.isServed(server.number) })
      try await pair.connect()
      let link = try #require(pair.recorder.link)
      #expect(server.notify([1], of: characteristic, to: link).accepted == [link])
      #expect(pair.server.notify([1], of: report, to: link).unreachable == [link])
    }
  }

  @Test("Slot counts, packets and changed addresses at the simulated radio hub are reported to the program")
  func nodeChanges() async throws {
    try await onLoopAsync {
      let pair = try await HubPair(AirConditions(latency: .zero), AirController(advertisingSlots: 5))
      let (central, peripheral) = (pair.central, pair.peripheral)
      let (here, there) = (DriverRecorder.of(central), DriverRecorder.of(peripheral))
      #expect(peripheral.advertisingSlots == 5)
      #expect(await eventually { there.slotChanges == 1 })
      let packets = Packets()
      here.onPacket = { packets.all.append($0) }
      central.listen(Listening(services: nil, patterns: []))
      try #require(await eventually { packets.all.count > 3 })
      #expect(Set(packets.all.map(\.kind)) == [.connectable, .scanResponse])
      let address = try #require(peripheral.address)
      #expect(Set(packets.all.map(\.address)) == [address])
      let node = try #require(pair.hub.air.node(address))
      node.changeAddress()
      try #require(await eventually { peripheral.address == node.address })
      packets.all = []
      try #require(await eventually { packets.all.contains { $0.address == node.address } })
      peripheral.advertise(advertisement("other"), in: 4)
      node.controller.advertisingSlots = 1
      try #require(await eventually { peripheral.advertisingSlots == 1 && there.slotChanges == 2 })
      let long = AdvertisingData(localName: String(repeating: "n", count: 30))
      peripheral.advertise(Advertisement(data: long), in: 0)
      #expect(peripheral.status.state == .degraded)
      peripheral.advertise(nil, in: 0)
      #expect(peripheral.status.state == .ready)
    }
  }

  @Test("Losing the simulated radio hub ends links and services, and its return restores the services only")
  func hubGone() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      let delegate = DriverRecorder.of(pair.peripheral)
      let (peripheral, number) = (pair.peripheral, pair.server.number)
      try #require(await eventually { peripheral.isServed(number) })
      try await pair.connect()
      pair.hub.close()
      try #require(await eventually { delegate.ended.count == 1 })
      #expect(!peripheral.isServed(number) && delegate.served.map(\.1) == [true, false])
      pair.hub = try HubPair.hub(pair.folder, .init(latency: .zero))
      try await pair.becomeReady()
      try #require(await eventually { delegate.served.map(\.1) == [true, false, true] })
      #expect(delegate.links.count == 1 && peripheral.isServed(number))
    }
  }

  @Test(
    "Over the simulated radio hub, dropping a handle cancels a connection attempt, and has no effect on a link")
  func droppingHandles() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      try await pair.connect()
      let lonely = Client()
      try lonely.connect(pair.central, to: BluetoothAddress(0x4242))
      let hub = pair.hub
      try #require(await eventually { hub.air.links.count == 2 })
      lonely.link = nil
      pair.client.link = nil
      try #require(await eventually { lonely.isOver && hub.air.links.count == 1 })
      #expect(pair.client.isConnected)
    }
  }

  @Test("Over the simulated radio hub, cancelling an attempt to connect to a linked peer does not end the link")
  func givingUpSharing() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      try await pair.connect()
      let (dropped, ended) = (Client(), Client())
      for client in [dropped, ended] {
        try client.connect(pair.central, to: try #require(pair.peripheral.address))
      }
      #expect(dropped.link?.id == pair.client.link?.id)
      dropped.link = nil
      ended.link?.disconnect()
      try #require(await eventually { dropped.isOver && ended.isOver })
      pair.client.link?.write([1], to: submit, as: .request)
      let client = pair.client
      try #require(await eventually { client.written == [nil] })
      #expect(client.isConnected && dropped.events.count == 1 && ended.events.count == 1)
    }
  }

  @LoopActor
  private final class Packets {
    var all: [AdvertisingPacket] = []
  }
}
