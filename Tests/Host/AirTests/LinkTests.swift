import Common
import Loop
import Radio
import Testing

@testable import Air

@Suite struct LinkTests {
  @Test("Both ends of a simulated link are notified of it once, each with a link number of its own")
  func connecting() async throws {
    try await onLoop {
      let pair = try Pair(mtu: nil)
      pair.settle()
      let server = try pair.serverLink
      #expect(pair.client.events == [.connected])
      #expect(pair.recorder.calls == [.opened(server, pair.central.address)])
      #expect(try pair.link.id != server)
      let link = try pair.link.id
      #expect(pair.air.links == [link])
    }
  }

  @Test("Connecting to a node that does not advertise, is out of range or does not exist fails within the timeout")
  func unreachable() async throws {
    try await onLoop {
      let time = VirtualTime()
      let air = AirSpace(scheduler: time, seed: 1)
      let central = air.addNode()
      let silent = air.addNode()
      let far = air.addNode(position: AirPosition(x: 100))
      air.range = 50
      let advertising = far.advertise(advertisement())
      for address in [silent.address, far.address, BluetoothAddress(0x42), central.address] {
        let client = Client()
        try client.connect(central, to: address)
        time.advance(by: .milliseconds(4999))
        #expect(client.events.isEmpty)
        time.advance(by: .milliseconds(1))
        #expect(client.isOver && client.events.count == 1)
      }
      advertising.cancel()
      #expect(air.links.isEmpty)
    }
  }

  @Test("A connection attempt succeeds if the peer starts to advertise, or comes into range, during the attempt")
  func patience() async throws {
    try await onLoop {
      let time = VirtualTime()
      let air = AirSpace(scheduler: time, seed: 1)
      let central = air.addNode()
      let peer = air.addNode(position: AirPosition(x: 100))
      air.range = 50
      let client = Client()
      try client.connect(central, to: peer.address)
      time.advance(by: .seconds(1))
      let early = Client()
      try early.connect(air.addNode(position: peer.position), to: peer.address)
      let advertising = peer.advertise(advertisement())
      time.advance(by: .seconds(1))
      #expect(client.events.isEmpty && early.events == [.connected])
      peer.position = AirPosition(x: 50)
      time.advance(by: .milliseconds(300))
      #expect(client.events == [.connected])
      advertising.cancel()
    }
  }

  @Test("A simulated connection attempt can be cancelled")
  func givingUp() async throws {
    try await onLoop {
      let time = VirtualTime()
      let air = AirSpace(scheduler: time, seed: 1)
      let central = air.addNode()
      let client = Client()
      try client.connect(central, to: BluetoothAddress(0x42))
      client.link?.disconnect()
      #expect(client.events.isEmpty)
      time.runNext()
      #expect(client.isOver)
      #expect(time.runUntilIdle(limit: .seconds(60)) && client.events.count == 1)
    }
  }

  @Test("Connecting to a connected peer returns the same link, and a new link after that link has ended")
  func oneLinkEach() async throws {
    try await onLoop {
      let pair = try Pair()
      let second = Client()
      try second.connect(pair.central, to: pair.peripheral.address)
      second.link?.write([8], to: submit, as: .request)
      #expect(second.events.isEmpty)
      pair.settle()
      #expect(second.events == [.connected, .written(submit, error: nil)] && pair.recorder.values == [[8]])
      #expect(try second.link?.id == pair.link.id)
      #expect(pair.air.links.count == 1 && pair.centralDelegate.links.count == 1)
      try pair.link.disconnect()
      pair.settle()
      #expect(pair.client.isOver && second.isOver && pair.recorder.closed == 1)
      let third = Client()
      try third.connect(pair.central, to: pair.peripheral.address)
      pair.settle()
      #expect(third.isConnected)
      #expect(try third.link?.id != pair.link.id)
    }
  }

  @Test(
    "Cancelling a connection attempt to a peer that is already connected does not end its link",
    arguments: [true, false])
  func givingUpSharing(byDropping: Bool) async throws {
    try await onLoop {
      let pair = try Pair()
      let second = Client()
      try second.connect(pair.central, to: pair.peripheral.address)
      if byDropping { second.link = nil } else { second.link?.disconnect() }
      pair.settle()
      #expect(pair.client.isConnected && pair.recorder.closed == 0)
      #expect(second.events == [.disconnected(reason: "Disconnected.")])
    }
  }

  @Test("A second connection attempt to an address during the first one fails at once")
  func oneAttemptEach() async throws {
    try await onLoop {
      let pair = try Pair()
      let (first, second) = (Client(), Client())
      try first.connect(pair.central, to: BluetoothAddress(0x42))
      try second.connect(pair.central, to: BluetoothAddress(0x42))
      pair.time.advance(by: .zero)
      #expect(first.events.isEmpty && second.isOver && second.events.count == 1)
      #expect(first.link?.id != second.link?.id)
    }
  }

  @Test(
    "A simulated link starts with an MTU of 23, and agrees on the smaller maximum of both ends",
    arguments: [
      (517, 517, 517), (517, 185, 185), (100, 517, 100), (10, 517, 23), (600, 600, 600),
    ])
  func mtu(asked: Int, most: Int, agreed: Int) async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(maximumMTU: most), mtu: nil)
      try pair.link.write([UInt8](repeating: 1, count: 21), to: submit, as: .request)
      try pair.link.write([UInt8](repeating: 2, count: 20), to: submit, as: .request)
      pair.settle()
      #expect(pair.client.written == [.invalidLength, nil])
      try pair.link.exchangeMTU(asked)
      pair.settle()
      #expect(pair.client.events.last == .mtuChanged(agreed))
      let server = try pair.serverLink
      #expect(pair.recorder.calls.last == .changed(server, agreed))
      let fits = min(agreed - 3, 512)
      try pair.link.write([UInt8](repeating: 3, count: fits), to: submit, as: .request)
      try pair.link.write([UInt8](repeating: 4, count: fits + 1), to: submit, as: .request)
      try pair.link.write([UInt8](repeating: 5, count: fits + 1), to: submit, as: .command)
      try pair.link.write([UInt8](repeating: 6, count: fits), to: submit, as: .command)
      pair.settle()
      #expect(pair.client.written.dropFirst(2) == [nil, .invalidLength, nil, nil])
      #expect(pair.recorder.values.map { $0[0] } == [2, 3, 6])
    }
  }

  @Test("Service discovery returns the services that the peer serves at that time")
  func discovery() async throws {
    try await onLoop {
      let pair = try Pair()
      let more = GATTApplication(services: [GATTService(uuid: other, characteristics: [])])
      let server = pair.peripheral.serve(more, delegate: pair.recorder)
      try pair.link.discover()
      pair.settle()
      #expect(pair.client.events.last == .discovered(application.services + more.services))
      server.close()
      try pair.link.discover()
      pair.settle()
      #expect(pair.client.events.last == .discovered(application.services))
    }
  }

  @Test("200 write requests and write commands arrive and are confirmed in order")
  func order() async throws {
    try await onLoop {
      let pair = try Pair()
      for number in 0..<200 {
        try pair.link.write(value(number), to: submit, as: number % 7 == 3 ? .request : .command)
      }
      pair.settle()
      #expect(numbers(pair.recorder.values) == Array(0..<200))
      #expect(pair.client.written == Array(repeating: nil, count: 200))
    }
  }

  @Test("A write request gets the delegate's error as its answer; a write command gets no answer")
  func refusing() async throws {
    try await onLoop {
      let pair = try Pair()
      pair.recorder.refusal = .busy
      try pair.link.write([1], to: submit, as: .request)
      try pair.link.write([2], to: submit, as: .command)
      pair.settle()
      #expect(pair.client.written == [.busy, nil])
      #expect(pair.recorder.values == [[1], [2]])
    }
  }

  @Test("A write to an unknown or read-only characteristic is refused for a request and dropped for a command")
  func notWritable() async throws {
    try await onLoop {
      let pair = try Pair()
      let nowhere = CharacteristicID(service: other, characteristic: submit.characteristic)
      for characteristic in [nowhere, readOnly] {
        try pair.link.write([1], to: characteristic, as: .request)
        try pair.link.write([1], to: characteristic, as: .command)
      }
      pair.settle()
      #expect(pair.client.written == [.unlikely, nil, .writeNotPermitted, nil])
      #expect(pair.recorder.values.isEmpty)
    }
  }

  @Test("The simulated radio delivers no event inside a call of its own methods")
  func neverWithin() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .zero))
      let (events, calls) = (pair.client.events.count, pair.recorder.calls.count)
      try pair.link.discover()
      try pair.link.exchangeMTU(100)
      try pair.link.subscribe(to: report)
      try pair.link.write([1], to: submit, as: .command)
      try pair.link.write([1], to: submit, as: .request)
      try pair.server.notify([1], of: report, to: pair.serverLink)
      pair.central.power = false
      try pair.server.disconnect(pair.serverLink)
      #expect(pair.client.events.count == events && pair.recorder.calls.count == calls)
    }
  }

  @Test("Write commands beyond the link's window are confirmed only when earlier ones have been sent")
  func flowControl() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .milliseconds(10), commandWindow: 4))
      for number in 0..<10 { try pair.link.write(value(number), to: submit, as: .command) }
      pair.time.advance(by: .zero)
      #expect(pair.client.written.count == 4)
      pair.time.advance(by: .milliseconds(10))
      #expect(pair.client.written.count == 5)
      pair.time.advance(by: .milliseconds(50))
      #expect(pair.client.written.count == 10 && pair.recorder.values.count == 6)
    }
  }

  @Test("Each direction of a simulated link carries one packet per latency")
  func pace() async throws {
    try await onLoop {
      let pair = try Pair(AirConditions(latency: .milliseconds(10)))
      let start = pair.time.now
      for number in 0..<100 { try pair.link.write(value(number), to: submit, as: .command) }
      pair.time.run(until: { pair.recorder.values.count == 100 }, limit: .seconds(10))
      #expect(start.duration(to: pair.time.now) == .seconds(1))
    }
  }
}
