import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct ScarcityTests {
  @Test("A node advertises only in the slots that it has, and stops in a slot that is taken from it")
  func slots() async {
    await onLoop {
      let air = TestAir(AirController(advertisingSlots: 2))
      let node = air.space.addNode()
      let delegate = DriverRecorder.of(node)
      for slot in 0..<4 { node.advertise(advertisement("slot \(slot)"), in: slot) }
      #expect(air.names() == ["slot 0", "slot 1"])
      node.controller.advertisingSlots = 1
      #expect(delegate.slotChanges == 0)
      #expect(air.names() == ["slot 0"])
      node.controller.advertisingSlots = 3
      #expect(delegate.slotChanges == 1)
      #expect(air.names() == ["slot 0"] && delegate.slotChanges == 2 && node.advertisingSlots == 3)
      node.advertise(advertisement("slot 2"), in: 2)
      node.advertise(advertisement("instead"), in: 0)
      #expect(air.names() == ["instead", "slot 2"])
      node.advertise(nil, in: 0)
      #expect(air.names() == ["slot 2"])
    }
  }

  @Test("A node with the maximum number of links accepts no connection until one of its links ends")
  func linkLimit() async throws {
    try await onLoop {
      let pair = try Pair(.init(), AirController(linkLimit: 1))
      let second = Client()
      let start = pair.time.now
      try second.connect(pair.air.addNode(), to: pair.peripheral.address)
      pair.time.run(until: { second.isOver }, limit: .seconds(60))
      #expect(start.duration(to: pair.time.now) == .seconds(5) && second.events.count == 1)
      let third = Client()
      try third.connect(pair.air.addNode(), to: pair.peripheral.address)
      pair.time.advance(by: .seconds(4))
      #expect(third.events.isEmpty)
      try pair.link.disconnect()
      pair.time.advance(by: .milliseconds(200))
      #expect(third.isConnected)
      let fourth = Client()
      try fourth.connect(pair.air.addNode(), to: pair.peripheral.address)
      pair.peripheral.controller.linkLimit = nil
      pair.time.advance(by: .milliseconds(200))
      #expect(fourth.isConnected)
    }
  }

  @Test("A node with the maximum number of links cannot connect, and incoming and outgoing links both count")
  func ownLinkLimit() async throws {
    try await onLoop {
      let pair = try Pair()
      pair.peripheral.controller.linkLimit = 1
      let peer = pair.air.addNode()
      let advertising = peer.advertise(advertisement())
      let client = Client()
      try client.connect(pair.peripheral, to: peer.address)
      pair.time.advance(by: .zero)
      #expect(client.events == [.disconnected(reason: AirRadio.noRoom)])
      // A link that opens during the attempt takes the slot.
      pair.peripheral.controller.linkLimit = 2
      let (slow, quick) = (Client(), Client())
      var rare = advertisement()
      rare.interval = .seconds(3)
      let late = pair.air.addNode()
      late.advertise(rare, in: 0)
      pair.time.advance(by: .seconds(3))
      try slow.connect(pair.peripheral, to: late.address)
      try quick.connect(peer, to: pair.peripheral.address)
      pair.time.advance(by: .seconds(4))
      #expect(quick.isConnected || slow.isConnected)
      #expect(quick.isConnected != slow.isConnected)
      advertising.cancel()
    }
  }

  @Test("An advertisement that accepted a connection stops until the link ends or the advertisement is renewed")
  func fallsSilent() async throws {
    try await onLoop {
      let pair = try Pair(.init(), AirController(fallsSilent: true, renewsAdvertisements: false))
      var names: [String] = []
      let scan = pair.central.scan(for: []) { names.append($0.localName ?? "") }
      pair.peripheral.advertise(advertisement("other"), in: 1)
      pair.time.advance(by: .seconds(2))
      // The connection stops only the advertisement through which the peer connected; the second one was not affected.
      #expect(Set(names) == ["other"])
      pair.peripheral.advertise(nil, in: 1)
      let second = Client()
      try second.connect(pair.air.addNode(), to: pair.peripheral.address)
      pair.time.advance(by: .seconds(2))
      #expect(second.events.isEmpty)
      names = []
      pair.peripheral.advertise(advertisement(), in: 0)
      pair.time.advance(by: .seconds(2))
      #expect(second.isConnected && names.count == 1)
      // The end of the link that stopped the advertisement resumes it; the end of another link does not.
      try pair.link.disconnect()
      pair.time.advance(by: .seconds(2))
      #expect(names.count == 1)
      second.link?.disconnect()
      pair.time.advance(by: .seconds(2))
      #expect(names.count > 1)
      scan.cancel()
    }
  }

  @Test("A peer can connect to a driver that renewed its advertisement after the previous connection")
  func renewing() async throws {
    try await onLoop {
      let pair = try Pair(.init(), AirController(fallsSilent: true))
      for _ in 0..<5 {
        let next = Client()
        try next.connect(pair.air.addNode(), to: pair.peripheral.address)
        pair.time.advance(by: .milliseconds(300))
        #expect(next.isConnected)
      }
      #expect(pair.air.onAir.entries.count == 1)
      pair.peripheral.advertise(nil, in: 0)
      pair.settle()
      #expect(pair.air.onAir.entries.isEmpty)
    }
  }

  /// A peripheral with three clients. The first two have subscribed to the characteristic with notifications.
  @LoopActor
  private final class Audience {
    let pair: Pair
    let clients: [Client]
    let links: [LinkID]

    init(_ controller: AirController, reach: GATTCharacteristic.Reach, _ conditions: AirConditions = .init()) throws {
      let exact = GATTApplication(services: [
        GATTService(
          uuid: service,
          characteristics: [GATTCharacteristic(uuid: report.characteristic, properties: .notify, reach: reach)])
      ])
      pair = try Pair(conditions, controller, application: exact)
      var clients = [pair.client]
      for _ in 0..<2 {
        let client = Client()
        try client.connect(pair.air.addNode(), to: pair.peripheral.address)
        pair.settle()
        clients.append(client)
      }
      for client in clients.prefix(2) { client.link?.subscribe(to: report) }
      pair.settle()
      self.clients = clients
      links = pair.peripheralDelegate.links.map(\.id)
    }

    var heard: [[[UInt8]]] { clients.map(\.notified) }
  }

  @Test("A controller that cannot address single clients delivers a value for one link to every subscriber")
  func everySubscriber() async throws {
    try await onLoop {
      let audience = try Audience(AirController(reachesEverySubscriber: true), reach: .subscribers)
      let links = audience.links
      let server = audience.pair.server
      #expect(server.notify([1], of: report, to: links[0]) == Delivery(accepted: [links[0]], overheard: [links[1]]))
      let twice = server.notify([2], of: report, to: .links([links[1], links[0], links[1]]))
      #expect(twice == Delivery(accepted: [links[1], links[0]]))
      #expect(server.notify([3], of: report, to: links[2]) == Delivery(unreachable: [links[2]]))
      #expect(server.notify([4], of: report, to: .subscribers) == Delivery(accepted: [links[0], links[1]]))
      audience.pair.settle()
      #expect(audience.heard == [[[1], [2], [4]], [[1], [2], [4]], []])
    }
  }

  @Test("With raw HCI an exact value reaches only the client of its link, whether it has subscribed or not")
  func exactReach() async throws {
    try await onLoop {
      let conditions = AirConditions(deliverUnsubscribed: true)
      let audience = try Audience(AirController(reachesEverySubscriber: true), reach: .exact, conditions)
      let (links, server, node) = (audience.links, audience.pair.server, audience.pair.peripheral)
      #expect(server.notify([1], of: report, to: links[0]).accepted == [links[0]])
      #expect(server.notify([2], of: report, to: links[2]).accepted == [links[2]])
      audience.pair.settle()
      #expect(audience.heard == [[[1]], [], [[2]]])
      #expect(node.status.state == .ready)
      node.controller.hasRawHCI = false
      #expect(node.status.state == .degraded)
      #expect(server.notify([3], of: report, to: links[0]).accepted == [links[0]])
      #expect(server.notify([4], of: report, to: links[2]) == Delivery(unreachable: [links[2]]))
      audience.pair.settle()
      #expect(audience.heard == [[[1], [3]], [[3]], [[2]]])
    }
  }

  @Test("A controller that can address single clients delivers a value for one link only to that link's client")
  func oneSubscriber() async throws {
    try await onLoop {
      let audience = try Audience(AirController(), reach: .subscribers)
      audience.pair.server.notify([1], of: report, to: audience.links[1])
      audience.pair.settle()
      #expect(audience.heard == [[], [[1]], []])
    }
  }

  @Test("An exact value for a client without a subscription is not delivered unless `deliverUnsubscribed` is set")
  func deafClient() async throws {
    try await onLoop {
      let audience = try Audience(AirController(), reach: .exact)
      #expect(audience.pair.server.notify([1], of: report, to: audience.links[2]).accepted == [audience.links[2]])
      audience.pair.settle()
      #expect(audience.heard == [[], [], []])
    }
  }

  @Test("A full link refuses notifications, and reports free capacity once")
  func notifyWindow() async throws {
    try await onLoop {
      let audience = try Audience(
        AirController(), reach: .subscribers, AirConditions(latency: .milliseconds(10), notifyWindow: 3))
      let (links, server, time) = (audience.links, audience.pair.server, audience.pair.time)
      let delegate = audience.pair.peripheralDelegate
      for number in 0..<3 { #expect(server.notify(value(number), of: report, to: links[0]).accepted == [links[0]]) }
      #expect(server.notify(value(3), of: report, to: links[0]) == Delivery(full: [links[0]]))
      #expect(
        server.notify(value(4), of: report, to: .links(links))
          == Delivery(accepted: [links[1]], full: [links[0]], unreachable: [links[2]]))
      #expect(delegate.rooms.isEmpty)
      time.advance(by: .milliseconds(9))
      #expect(delegate.rooms.isEmpty)
      time.advance(by: .milliseconds(1))
      #expect(delegate.rooms == [links[0]])
      #expect(server.notify(value(5), of: report, to: links[0]).accepted == [links[0]])
      #expect(server.notify(value(6), of: report, to: links[0]).full == [links[0]])
      audience.pair.settle()
      #expect(delegate.rooms == [links[0], links[0]])
      #expect(numbers(audience.clients[0].notified) == [0, 1, 2, 5] && numbers(audience.clients[1].notified) == [4])
    }
  }

  @Test("A full link that ends does not report free capacity")
  func fullAndGone() async throws {
    try await onLoop {
      let audience = try Audience(AirController(), reach: .subscribers, AirConditions(notifyWindow: 1))
      let link = audience.links[0]
      for number in 0..<2 { audience.pair.server.notify(value(number), of: report, to: link) }
      audience.pair.peripheral.cut(link)
      audience.pair.settle()
      #expect(audience.pair.peripheralDelegate.rooms.isEmpty)
    }
  }
}
