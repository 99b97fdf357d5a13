import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct SharedLinkTests {
  /// Two nodes, each of which serves and advertises, with one link between them.
  @LoopActor
  private final class Peers {
    let time = VirtualTime()
    let air: AirSpace
    let one: AirRadio
    let two: AirRadio
    let (oneRecorder, twoRecorder) = (Recorder(), Recorder())
    let (oneClient, twoClient) = (Client(), Client())
    let servers: [TestServer]
    let advertising: [Registration]
    let delegates: [DriverRecorder]

    init(_ conditions: AirConditions = .init()) {
      air = AirSpace(scheduler: time, seed: 1, conditions: conditions)
      one = air.addNode()
      two = air.addNode()
      delegates = [.of(one), .of(two)]
      servers = [
        one.serve(application, delegate: oneRecorder), two.serve(application, delegate: twoRecorder),
      ]
      advertising = [one.advertise(advertisement()), two.advertise(advertisement())]
    }

    func settle() { time.runUntilIdle(limit: .seconds(1000)) }
  }

  @Test("One link carries GATT requests in both directions, and has one link number at each end")
  func bothDirections() async throws {
    try await onLoop {
      let peers = Peers()
      try peers.oneClient.connect(peers.one, to: peers.two.address)
      peers.settle()
      try peers.twoClient.connect(peers.two, to: peers.one.address)
      #expect(peers.twoClient.events.isEmpty)
      peers.settle()
      let (here, there) = (try #require(peers.oneClient.link), try #require(peers.twoClient.link))
      #expect(peers.delegates.map(\.links.count) == [1, 1] && peers.air.links == [here.id])
      #expect(peers.oneRecorder.calls == [.opened(here.id, peers.two.address)])
      #expect(peers.twoRecorder.calls == [.opened(there.id, peers.one.address)])
      #expect(peers.one.origin(of: here.id) == .here && peers.two.origin(of: there.id) == .peer)
      #expect(peers.one.origin(of: there.id) == .unknown)
      for link in [here, there] {
        link.discover()
        link.subscribe(to: report)
        link.write([1], to: submit, as: .request)
        link.write([2], to: submit, as: .command)
      }
      peers.settle()
      let expected: [LinkEvent] = [
        .connected, .discovered(application.services), .subscribed(report), .written(submit, error: nil),
        .written(submit, error: nil),
      ]
      #expect(peers.oneClient.events == expected && peers.twoClient.events == expected)
      #expect(peers.oneRecorder.values == [[1], [2]] && peers.twoRecorder.values == [[1], [2]])
      #expect(peers.servers[0].notify([7], of: report, to: here.id) == Delivery(accepted: [here.id]))
      #expect(peers.servers[1].notify([8], of: report, to: there.id) == Delivery(accepted: [there.id]))
      peers.settle()
      #expect(peers.oneClient.notified == [[8]] && peers.twoClient.notified == [[7]])
    }
  }

  @Test("The MTU of a link applies to both directions, and each end is notified of it once")
  func mtu() async throws {
    try await onLoop {
      let peers = Peers()
      try peers.oneClient.connect(peers.one, to: peers.two.address)
      peers.oneClient.link?.exchangeMTU(100)
      peers.settle()
      try peers.twoClient.connect(peers.two, to: peers.one.address)
      peers.twoClient.link?.write([UInt8](repeating: 1, count: 97), to: submit, as: .request)
      peers.twoClient.link?.write([UInt8](repeating: 1, count: 98), to: submit, as: .request)
      peers.settle()
      #expect(peers.twoClient.written == [nil, .invalidLength])
      let (here, there) = (try #require(peers.oneClient.link?.id), try #require(peers.twoClient.link?.id))
      #expect(peers.delegates[0].mtus == [here: 100] && peers.delegates[1].mtus == [there: 100])
    }
  }

  @Test("If two nodes connect to each other at once, they share one link, and each is the other's client")
  func atTheSameTime() async throws {
    try await onLoop {
      let peers = Peers()
      try peers.oneClient.connect(peers.one, to: peers.two.address)
      try peers.twoClient.connect(peers.two, to: peers.one.address)
      peers.settle()
      #expect(peers.oneClient.events == [.connected] && peers.twoClient.events == [.connected])
      #expect(peers.delegates.map(\.links.count) == [1, 1] && peers.air.links.count == 1)
      #expect(peers.delegates[0].links.first?.id == peers.oneClient.link?.id)
      #expect(peers.delegates[1].links.first?.id == peers.twoClient.link?.id)
    }
  }

  @Test("Disconnecting a link ends both of its directions at both nodes", arguments: [0, 1], [true, false])
  func cutting(node: Int, byHandle: Bool) async throws {
    try await onLoop {
      let peers = Peers()
      try peers.oneClient.connect(peers.one, to: peers.two.address)
      peers.settle()
      try peers.twoClient.connect(peers.two, to: peers.one.address)
      peers.settle()
      let client = node == 0 ? peers.oneClient : peers.twoClient
      let radio = node == 0 ? peers.one : peers.two
      let link = try #require(client.link)
      if byHandle { link.disconnect() } else { radio.cut(link.id) }
      #expect(!client.isOver)
      peers.settle()
      #expect(peers.oneClient.isOver && peers.twoClient.isOver)
      #expect(peers.delegates.map(\.ended.count) == [1, 1] && peers.air.links.isEmpty)
      #expect(radio.origin(of: link.id) == .unknown)
      radio.cut(link.id)
      peers.settle()
      #expect(peers.delegates.map(\.ended.count) == [1, 1])
    }
  }

  @Test("A link that is cut as soon as it comes up is opened and closed once, and no client counts as connected")
  func cutAtOnce() async throws {
    try await onLoop {
      let peers = Peers()
      peers.twoRecorder.onCall = {
        if case .opened(let link, _) = peers.twoRecorder.calls.last { peers.two.cut(link) }
      }
      try peers.oneClient.connect(peers.one, to: peers.two.address)
      peers.settle()
      #expect(peers.delegates.map(\.links.count) == [1, 1] && peers.delegates.map(\.ended.count) == [1, 1])
      #expect(peers.oneClient.isOver && peers.oneClient.events.count == 1)
    }
  }

  @Test("A link event contains the time when the link came up and the address of the peer")
  func since() async throws {
    try await onLoop {
      let peers = Peers()
      peers.time.advance(by: .seconds(77))
      try peers.oneClient.connect(peers.one, to: peers.two.address)
      peers.time.run(until: { peers.oneClient.isConnected }, limit: .seconds(1))
      let now = peers.time.now
      peers.time.advance(by: .seconds(5))
      let link = try #require(peers.delegates[1].links.first)
      #expect(link == DriverLink(id: link.id, address: peers.one.address, since: now))
    }
  }

  @Test("A subscription is reported once to its application, and ends with the link")
  func subscriptions() async throws {
    try await onLoop {
      let pair = try Pair()
      let link = try pair.serverLink
      #expect(pair.server.notify([1], of: report, to: .subscribers) == Delivery())
      try pair.link.subscribe(to: report)
      try pair.link.subscribe(to: report)
      try pair.link.subscribe(to: submit)
      try pair.link.subscribe(to: CharacteristicID(service: other, characteristic: other))
      pair.settle()
      #expect(pair.client.events.suffix(4).count { if case .subscribed = $0 { true } else { false } } == 4)
      let uses = pair.peripheralDelegate.uses
      #expect(uses.count == 1 && uses.first?.application == pair.server.number && uses.first?.link == link)
      #expect(uses.first?.use == .subscribed(report))
      #expect(pair.server.notify([2], of: report, to: .subscribers) == Delivery(accepted: [link]))
      try pair.link.disconnect()
      pair.settle()
      #expect(pair.server.notify([3], of: report, to: .link(link)) == Delivery(unreachable: [link]))
      let again = Client()
      try again.connect(pair.central, to: pair.peripheral.address)
      pair.settle()
      let second = try pair.serverLink
      #expect(second != link)
      #expect(
        pair.server.notify([4], of: report, to: .links([link, second])) == Delivery(unreachable: [link, second]))
      again.link?.subscribe(to: report)
      pair.settle()
      #expect(pair.peripheralDelegate.uses.count == 2)
      pair.server.close()
      let renewed = pair.peripheral.serve(application, delegate: pair.recorder)
      pair.settle()
      #expect(renewed.notify([5], of: report, to: .link(second)) == Delivery(unreachable: [second]))
      // Serving an application under the former number does not restore the subscription.
      pair.peripheral.serve(application, as: pair.server.number)
      renewed.close()
      pair.settle()
      let delivery = pair.peripheral.notify([6], of: report, in: pair.server.number, to: .link(second))
      #expect(delivery == Delivery(unreachable: [second]))
      again.link?.subscribe(to: report)
      pair.settle()
      #expect(pair.peripheralDelegate.uses.count == 3)
    }
  }

  @Test("The driver reports when an application begins to be served and when it no longer is", arguments: [0, 300])
  func applications(delay: Int) async throws {
    try await onLoop {
      let pair = try Pair()
      pair.peripheral.controller.servingDelay = .milliseconds(delay)
      let before = pair.peripheralDelegate.served.count
      let late = pair.peripheral.serve(
        GATTApplication(services: [GATTService(uuid: other, characteristics: [])]), delegate: Recorder())
      #expect(!pair.peripheral.isServed(late.number) && pair.peripheral.isServed(pair.server.number))
      if delay > 0 {
        pair.time.advance(by: .milliseconds(delay - 20))
        try pair.link.discover()
        pair.time.advance(by: .milliseconds(18))
        #expect(pair.client.events.last == .discovered(application.services))
        #expect(!pair.peripheral.isServed(late.number))
      }
      pair.settle()
      #expect(pair.peripheral.isServed(late.number))
      pair.peripheral.power = false
      #expect(!pair.peripheral.isServed(late.number))
      pair.settle()
      pair.peripheral.power = true
      pair.settle()
      let told = pair.peripheralDelegate.served.dropFirst(before)
      #expect(told.map(\.1) == [true, false, false, true, true])
      #expect(told.first?.0 == late.number && pair.peripheral.isServed(late.number))
      late.close()
      pair.settle()
      #expect(!pair.peripheral.isServed(late.number) && pair.peripheralDelegate.served.count == before + 5)
    }
  }
}
