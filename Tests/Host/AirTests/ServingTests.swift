import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct ServingTests {
  @Test("A notification reaches only the client of its link, and only after the client has subscribed")
  func subscribing() async throws {
    try await onLoop {
      let pair = try Pair()
      let second = Client()
      let node = pair.air.addNode()
      try second.connect(node, to: pair.peripheral.address)
      pair.settle()
      second.link?.subscribe(to: report)
      pair.settle()
      let first = try #require(pair.recorder.calls.first)
      guard case .opened(let link, _) = first else { throw Missing() }
      pair.server.notify([1], of: report, to: link)
      pair.settle()
      #expect(pair.client.notified.isEmpty)
      try pair.link.subscribe(to: report)
      pair.settle()
      #expect(pair.client.events.last == .subscribed(report))
      pair.server.notify([2], of: report, to: link)
      pair.server.notify([3], of: status, to: link)
      pair.server.notify([4], of: submit, to: link)
      pair.settle()
      #expect(pair.client.events.last == .notified(report, [2]))
      #expect(pair.client.notified == [[2]] && second.notified.isEmpty)
    }
  }

  @Test("With `deliverUnsubscribed` a notification reaches a client that has not subscribed")
  func unsubscribed() async throws {
    try await onLoop {
      let kinds = Kinds()
      let pair = try Pair(
        AirConditions(
          deliverUnsubscribed: true,
          filter: {
            kinds.heard.append($0.kind)
            return .deliver
          }))
      try pair.server.notify([1], of: report, to: pair.serverLink)
      try pair.server.notify([2], of: status, to: pair.serverLink)
      try pair.server.notify([3], of: submit, to: pair.serverLink)
      pair.settle()
      #expect(pair.client.notified == [[1], [2]])
      #expect(kinds.heard == [.notification, .notification])
    }
  }

  @Test(
    "A subscriber of an indicate-only characteristic gets the next indication only after it confirmed the previous one")
  func indications() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .milliseconds(10), notificationLoss: 1))
      try pair.link.subscribe(to: status)
      pair.settle()
      let start = pair.time.now
      for number in 0..<5 { try pair.server.notify(value(number), of: status, to: pair.serverLink) }
      pair.time.run(until: { pair.client.notified.count == 5 }, limit: .seconds(1))
      #expect(numbers(pair.client.notified) == Array(0..<5))
      #expect(start.duration(to: pair.time.now) == .milliseconds(90))
    }
  }

  @Test("An indication that is not confirmed for 30 s ends the link")
  func unconfirmed() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(filter: { _ in .drop }))
      try pair.link.subscribe(to: status)
      pair.settle()
      try pair.server.notify([1], of: status, to: pair.serverLink)
      pair.time.advance(by: .seconds(30))
      #expect(pair.recorder.closed == 0)
      pair.time.advance(by: .milliseconds(10))
      #expect(pair.recorder.closed == 1)
    }
  }

  @Test(
    "A notification that is longer than the MTU allows is truncated",
    arguments: [(nil, 20), (100, 97), (517, 512), (515, 512)])
  func cut(mtu: Int?, length: Int) async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(maximumMTU: 600, deliverUnsubscribed: true), mtu: mtu)
      try pair.server.notify([UInt8](repeating: 7, count: 700), of: report, to: pair.serverLink)
      pair.settle()
      #expect(pair.client.notified.map(\.count) == [length])
    }
  }

  @Test("A service added during a link receives the client's writes, and gets no event for the start of the link")
  func lateApplication() async throws {
    try await onLoop {
      let pair = try Pair()
      let late = Recorder()
      let characteristic = CharacteristicID(service: other, characteristic: other)
      let more = GATTApplication(services: [
        GATTService(
          uuid: other, characteristics: [GATTCharacteristic(uuid: other, properties: .writeWithoutResponse)])
      ])
      let server = pair.peripheral.serve(more, delegate: late)
      pair.settle()
      try pair.link.write([1], to: characteristic, as: .command)
      pair.settle()
      let link = try pair.serverLink
      #expect(late.calls == [.written(link, characteristic, [1])])
      #expect(pair.peripheralDelegate.links.count == 1)
      server.close()
      let third = Recorder()
      let renewed = pair.peripheral.serve(more, delegate: third)
      pair.settle()
      try pair.link.write([2], to: characteristic, as: .command)
      pair.settle()
      #expect(late.calls.count == 1 && third.calls == [.written(link, characteristic, [2])])
      try pair.link.disconnect()
      pair.settle()
      #expect(third.closed == 1)
      renewed.close()
    }
  }

  @Test("A closed server receives and sends nothing more, and its clients' links stay up")
  func closing() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(deliverUnsubscribed: true))
      let calls = pair.recorder.calls.count
      try pair.link.write([1], to: submit, as: .command)
      pair.server.close()
      let link = try pair.serverLink
      #expect(pair.server.notify([1], of: report, to: link) == Delivery(unreachable: [link]))
      try pair.link.write([2], to: submit, as: .request)
      try pair.link.discover()
      pair.settle()
      #expect(pair.recorder.calls.count == calls)
      #expect(pair.client.written == [nil, .unlikely] && pair.client.events.last == .discovered([]))
      #expect(pair.client.isConnected)
    }
  }

  @Test("A server refuses requests after its delegate, which it holds weakly, was released")
  func weakDelegate() async throws {
    try await onLoop {
      let pair = try Pair()
      var gone: DriverRecorder? = DriverRecorder()
      let watched = Weak(object: gone)
      pair.peripheral.delegate = gone
      gone = nil
      #expect(watched.object == nil)
      try pair.link.write([1], to: submit, as: .request)
      pair.settle()
      #expect(pair.client.written == [.unlikely])
    }
  }

  @Test("Dropping the handle of a server closes the server")
  func dropping() async throws {
    try await onLoop {
      let pair = try Pair()
      var server: TestServer? = pair.peripheral.serve(
        GATTApplication(services: [GATTService(uuid: other, characteristics: [])]), delegate: pair.recorder)
      #expect(server != nil)
      server = nil
      try pair.link.discover()
      pair.settle()
      #expect(pair.client.events.last == .discovered(application.services))
    }
  }

  @Test("A link number is used for only one link on the whole simulated radio")
  func numbering() async throws {
    try await onLoop {
      let time = VirtualTime()
      let air = AirSpace(scheduler: time, seed: 1)
      let peripheral = air.addNode()
      let recorder = Recorder()
      let server = peripheral.serve(application, delegate: recorder)
      let advertising = peripheral.advertise(advertisement())
      var seen: Set<LinkID> = []
      for _ in 0..<50 {
        let client = Client()
        try client.connect(air.addNode(), to: peripheral.address)
        time.advance(by: .seconds(1))
        let (ours, theirs) = (try #require(client.link?.id), try #require(recorder.link))
        #expect(seen.insert(ours).inserted && seen.insert(theirs).inserted)
        client.link?.disconnect()
      }
      server.close()
      advertising.cancel()
    }
  }

  private struct Missing: Error {}

  private struct Weak {
    weak var object: DriverRecorder?
  }

  @LoopActor
  private final class Kinds {
    var heard: [AirPacket.Kind] = []
  }
}
