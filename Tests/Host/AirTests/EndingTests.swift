import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct EndingTests {
  @Test("The node that disconnects is notified at once, the peer one latency later, and then no event follows")
  func disconnecting() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .milliseconds(10)))
      try pair.link.write([1], to: submit, as: .command)
      try pair.link.write([1], to: submit, as: .request)
      try pair.link.disconnect()
      pair.time.advance(by: .zero)
      #expect(pair.client.isOver && pair.recorder.closed == 0)
      pair.time.advance(by: .milliseconds(10))
      #expect(pair.recorder.closed == 1)
      let (events, calls) = (pair.client.events.count, pair.recorder.calls.count)
      try pair.link.write([1], to: submit, as: .command)
      try pair.link.discover()
      try pair.link.disconnect()
      try pair.server.notify([1], of: report, to: pair.serverLink)
      pair.settle()
      #expect(pair.client.events.count == events && pair.recorder.calls.count == calls)
      #expect(pair.recorder.values.isEmpty && pair.air.links.isEmpty)
    }
  }

  @Test("A GATT server can disconnect its own client, but not a link between other nodes")
  func serverDisconnects() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .milliseconds(10)))
      try pair.air.addNode().cut(pair.serverLink)
      try pair.peripheral.cut(pair.link.id)
      try pair.central.cut(pair.serverLink)
      pair.settle()
      #expect(pair.client.isConnected)
      try pair.server.disconnect(pair.serverLink)
      pair.time.advance(by: .zero)
      #expect(pair.recorder.closed == 1 && !pair.client.isOver)
      pair.settle()
      #expect(pair.client.isOver)
    }
  }

  @Test("A simulated link can be disconnected once, by the link number of either end", arguments: [true, false])
  func cutting(byClient: Bool) async throws {
    try await onLoop {
      let pair = try Pair()
      let id = byClient ? try pair.link.id : try pair.serverLink
      #expect(pair.air.cut(id))
      #expect(!pair.air.cut(id))
      pair.settle()
      #expect(pair.client.isOver && pair.recorder.closed == 1)
    }
  }

  @Test("Dropping the handle of a simulated link does not end the link; disconnecting it notifies both ends")
  func droppingLink() async throws {
    try await onLoop {
      let pair = try Pair()
      let id = try pair.link.id
      pair.client.link = nil
      pair.settle()
      #expect(pair.client.isConnected && pair.recorder.closed == 0 && pair.air.links == [id])
      pair.central.cut(id)
      pair.settle()
      #expect(pair.client.isOver && pair.recorder.closed == 1 && pair.centralDelegate.ended == [id])
    }
  }

  @Test("Dropping the handle of a connection attempt cancels the attempt")
  func droppingAttempt() async throws {
    try await onLoop {
      let pair = try Pair()
      let lonely = Client()
      try lonely.connect(pair.central, to: BluetoothAddress(0x42))
      lonely.link = nil
      pair.time.advance(by: .zero)
      #expect(lonely.isOver && pair.air.links.count == 1)
    }
  }

  @Test("A simulated link ends when its two nodes move out of range", arguments: [true, false])
  func outOfRange(byDistance: Bool) async throws {
    try await onLoop {
      let pair = try Pair()
      pair.air.range = 30
      pair.settle()
      #expect(pair.client.isConnected)
      if byDistance {
        pair.central.position = AirPosition(x: 20, y: 20, z: 20)
      } else {
        pair.air.isInRange = { _, _ in false }
      }
      pair.settle()
      #expect(pair.client.isOver && pair.recorder.closed == 1)
    }
  }

  @Test(
    "Powering off a simulated adapter ends its links, and the adapter serves again after power-on",
    arguments: [true, false])
  func power(ofPeripheral: Bool) async throws {
    try await onLoop {
      let pair = try Pair()
      let radio = ofPeripheral ? pair.peripheral : pair.central
      let states = States()
      let registration = radio.onStatus { states.heard.append($0) }
      radio.power = false
      radio.power = false
      #expect(radio.status.state == .waiting && radio.status.adapters.isEmpty && states.heard.isEmpty)
      pair.settle()
      #expect(pair.client.isOver && pair.recorder.closed == 1)
      if ofPeripheral {
        let lonely = Client()
        try lonely.connect(pair.central, to: pair.peripheral.address)
        pair.settle()
        #expect(lonely.isOver && !lonely.events.contains(.connected))
      } else {
        #expect(throws: RadioError.notReady(radio.status.reason)) {
          try radio.connect(to: pair.peripheral.address) { _ in }
        }
      }
      radio.power = true
      let again = Client()
      try again.connect(pair.central, to: pair.peripheral.address)
      pair.settle()
      #expect(again.isConnected)
      again.link?.write([7], to: submit, as: .request)
      pair.settle()
      #expect(pair.recorder.values == [[7]])
      #expect(states.heard.map(\.state) == [.waiting, .ready] && radio.status.state == .ready)
      registration.cancel()
      radio.power = false
      pair.settle()
      #expect(states.heard.count == 2)
    }
  }

  @Test("A node removed from the simulated radio stays unavailable, and its address can be used again")
  func removing() async throws {
    try await onLoop {
      let pair = try Pair()
      pair.air.removeNode(pair.peripheral)
      pair.settle()
      #expect(pair.client.isOver && pair.recorder.closed == 1)
      pair.peripheral.power = true
      #expect(pair.peripheral.status.state == .waiting)
      #expect(!pair.air.isTaken(pair.peripheral.address))
      let heir = pair.air.addNode(address: pair.peripheral.address)
      #expect(heir.status.state == .ready)
    }
  }

  @Test("An ATT request that is not answered for 30 s ends the simulated link")
  func silence() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(filter: { $0.kind == .request ? .drop : .deliver }))
      let start = pair.time.now
      try pair.link.write([1], to: submit, as: .request)
      pair.time.run(until: { pair.client.isOver }, limit: .seconds(60))
      #expect(start.duration(to: pair.time.now) == .seconds(30) + .microseconds(7500))
      #expect(pair.recorder.values.isEmpty)
    }
  }

  @Test(
    "A link that is disconnected inside a delegate call gives exactly one end event at each side",
    arguments: [true, false])
  func endingWithin(byServer: Bool) async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .zero))
      pair.recorder.onCall = {
        guard let link = pair.recorder.link else { return }
        if byServer { pair.server.disconnect(link) } else { pair.client.link?.disconnect() }
      }
      try pair.link.write([1], to: submit, as: .request)
      try pair.link.write([2], to: submit, as: .request)
      pair.settle()
      #expect(pair.recorder.values == [[1]] && pair.recorder.closed == 1)
      #expect(pair.client.isOver && pair.client.written.isEmpty)
    }
  }

  @LoopActor
  private final class States {
    var heard: [RadioStatus] = []
  }
}
