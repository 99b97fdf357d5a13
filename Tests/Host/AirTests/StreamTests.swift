import Common
import Loop
import Radio
import Testing

@testable import Air

private let profile = StreamProfile(
  name: "Test", services: [BluetoothUUID(short: 0x1101), BluetoothUUID(short: 0x1102)])

/// One end of a stream, with a record of its events.
@LoopActor
private final class StreamEnd {
  var stream: (any RadioStream)?
  private(set) var received: [UInt8] = []
  private(set) var reasons: [String] = []
  private(set) var failure: RadioError?
  private var unsent: ArraySlice<UInt8> = []

  func begin(_ stream: any RadioStream) {
    self.stream = stream
    stream.start { [weak self] event in
      guard let self else { return }
      switch event {
      case .received(let bytes): received += bytes
      case .writable: push()
      case .closed(let reason): reasons.append(reason)
      }
    }
  }

  func opened(_ result: Result<any RadioStream, RadioError>) {
    switch result {
    case .success(let stream): begin(stream)
    case .failure(let error): failure = error
    }
  }

  func send(_ bytes: [UInt8]) {
    unsent = bytes[...]
    push()
  }

  private func push() { unsent = unsent.dropFirst(stream?.send(unsent) ?? 0) }
}

private func pattern(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) } }

/// A server and a client in virtual time.
@LoopActor
private final class StreamPair {
  let time = VirtualTime()
  let air: AirSpace
  let server: AirRadio
  let client: AirRadio
  let here = StreamEnd()
  let there = StreamEnd()
  private(set) var registrations: [Registration] = []
  /// Number of open ends of streams.
  var openEnds: Int { air.streams(of: client).count + air.streams(of: server).count }

  init(_ conditions: AirConditions = AirConditions()) throws {
    air = AirSpace(scheduler: time, seed: 1, conditions: conditions)
    server = air.addNode()
    client = air.addNode()
    registrations.append(try server.listen(on: profile) { [there] in there.begin($0) })
  }

  func connect() throws {
    let address = try #require(server.publicAddress)
    registrations.append(try client.connect(to: address, on: profile) { [here] in here.opened($0) })
    time.advance(by: .seconds(1))
    try #require(here.stream != nil && there.stream != nil)
  }
}

@Suite struct StreamTests {
  @Test("Stream bytes arrive complete and in order both ways, and each end knows the peer's public address")
  func order() async throws {
    try await onLoop {
      let pair = try StreamPair()
      try pair.connect()
      let (one, two) = (pattern(300_000), pattern(100_001))
      pair.here.send(one)
      pair.there.send(two)
      pair.time.advance(by: .seconds(10))
      #expect(pair.there.received == one && pair.here.received == two)
      #expect(pair.there.stream?.address == pair.client.publicAddress)
      #expect(pair.here.stream?.address == pair.server.publicAddress)
      #expect(pair.here.reasons.isEmpty && pair.there.reasons.isEmpty)
    }
  }

  @Test("A simulated stream carries no more bytes in a second than its bandwidth")
  func bandwidth() async throws {
    try await onLoop {
      var conditions = AirConditions()
      conditions.streamBandwidth = 10_000
      let pair = try StreamPair(conditions)
      try pair.connect()
      pair.here.send(pattern(50_000))
      pair.time.advance(by: .seconds(2))
      #expect((18_000...20_000).contains(pair.there.received.count))
      pair.time.advance(by: .seconds(4))
      #expect(pair.there.received.count == 50_000)
    }
  }

  @Test("A stream whose receiver does not read stops accepting bytes, and loses none")
  func backPressure() async throws {
    try await onLoop {
      let pair = try StreamPair()
      try pair.connect()
      pair.there.stream?.pauseReading(true)
      let bytes = pattern(400_000)
      pair.here.send(bytes)
      pair.time.advance(by: .seconds(60))
      #expect(pair.there.received.isEmpty)
      #expect(pair.here.stream?.send([1]) == 0)
      pair.there.stream?.pauseReading(false)
      pair.time.advance(by: .seconds(60))
      #expect(pair.there.received == bytes)
    }
  }

  @Test("Closing a stream first sends the accepted bytes, and then notifies only the peer")
  func closing() async throws {
    try await onLoop {
      let pair = try StreamPair()
      try pair.connect()
      pair.here.send(pattern(5000))
      pair.here.stream?.close()
      pair.time.advance(by: .seconds(1))
      #expect(pair.there.received == pattern(5000))
      #expect(pair.there.reasons == ["The peer closed the stream."] && pair.here.reasons.isEmpty)
      #expect(pair.openEnds == 0)
    }
  }

  @Test("When its link is lost, a stream ends once at each end, after the bytes that arrived", arguments: [0, 1])
  func loss(cause: Int) async throws {
    try await onLoop {
      let pair = try StreamPair()
      pair.air.range = 50
      try pair.connect()
      pair.here.send(pattern(60_000))
      pair.time.advance(by: .milliseconds(200))
      switch cause {
      case 0: pair.server.power = false
      default: pair.client.position = AirPosition(x: 100)
      }
      pair.time.advance(by: .seconds(1))
      let count = pair.there.received.count
      #expect(count > 0 && count < 60_000 && pair.there.received == Array(pattern(60_000).prefix(count)))
      #expect(pair.here.reasons.count == 1 && pair.there.reasons == pair.here.reasons)
      #expect(pair.here.stream?.send([1]) == 0 && pair.openEnds == 0)
    }
  }

  @Test("A stream attempt fails if the peer accepts none, is off or out of range, or has no such profile")
  func unreachable() async throws {
    try await onLoop {
      let pair = try StreamPair()
      let silent = pair.air.addNode()
      let other = StreamEnd()
      let unknown = StreamProfile(name: "Other", services: [BluetoothUUID(short: 0x1103)])
      let attempts = [
        try pair.client.connect(to: try #require(silent.publicAddress), on: profile) { pair.here.opened($0) },
        try pair.client.connect(to: try #require(pair.server.publicAddress), on: unknown) { other.opened($0) },
      ]
      pair.time.advance(by: .seconds(20))
      #expect(pair.here.failure == .peerLost("The peer did not answer within 5.0 seconds."))
      #expect(other.failure == .peerLost("The peer does not offer the profile Other."))
      withExtendedLifetime(attempts) {}
      pair.client.power = false
      #expect(pair.client.publicAddress == nil)
      #expect(throws: RadioError.self) {
        _ = try pair.client.connect(to: BluetoothAddress(1), on: profile) { _ in }
      }
    }
  }

  @Test("A stream client finds a server by its second UUID, and a node has one server for each profile")
  func services() async throws {
    try await onLoop {
      let pair = try StreamPair()
      let second = pair.air.addNode()
      let end = StreamEnd()
      let listening = try second.listen(on: StreamProfile(name: "", services: [profile.services[1]])) { end.begin($0) }
      #expect(second.status.traits.isReachable)
      let attempt = try pair.client.connect(to: try #require(second.publicAddress), on: profile) {
        pair.here.opened($0)
      }
      pair.time.advance(by: .seconds(1))
      #expect(end.stream != nil && pair.here.stream != nil)
      #expect(throws: RadioError.refused("The profile is registered already.")) {
        _ = try pair.server.listen(on: profile) { _ in }
      }
      listening.cancel()
      #expect(!second.status.traits.isReachable)
      withExtendedLifetime(attempt) {}
    }
  }

  @Test("The public address of a node stays the same when its LE address changes")
  func publicAddress() async {
    await onLoop {
      let time = VirtualTime()
      let node = AirSpace(scheduler: time, seed: 1, controller: AirController(addressInterval: .seconds(1))).addNode()
      let (address, fixed) = (node.address, node.publicAddress)
      time.advance(by: .seconds(2))
      #expect(node.address != address && node.publicAddress == fixed && fixed == address)
    }
  }
}

@Suite(.serialized, .timeLimit(.minutes(10))) struct HubStreamTests {
  @Test("Over the simulated radio hub 300,000 stream bytes arrive unchanged each way, and a close notifies the peer")
  func bothWays() async throws {
    try await onLoopAsync {
      var conditions = AirConditions(latency: .zero)
      conditions.streamBandwidth = 50_000_000
      conditions.streamSetup = .milliseconds(1)
      let pair = try await HubPair(conditions)
      let (here, there) = (StreamEnd(), StreamEnd())
      let listening = try pair.peripheral.listen(on: profile) { there.begin($0) }
      #expect(throws: RadioError.refused("The profile is registered already.")) {
        _ = try pair.peripheral.listen(on: profile) { _ in }
      }
      let address = try #require(pair.peripheral.publicAddress)
      let attempt = try pair.central.connect(to: address, on: profile) { here.opened($0) }
      try #require(await eventually { here.stream != nil && there.stream != nil })
      let bytes = pattern(300_000)
      here.send(bytes)
      there.send(bytes)
      try #require(await eventually { here.received.count == bytes.count && there.received.count == bytes.count })
      #expect(here.received == bytes && there.received == bytes)
      #expect(there.stream?.address == pair.central.publicAddress)
      there.send([1, 2, 3])
      there.stream?.close()
      try #require(await eventually { !here.reasons.isEmpty })
      #expect(here.received.suffix(3) == [1, 2, 3] && there.reasons.isEmpty)
      withExtendedLifetime((attempt, listening)) {}
    }
  }

  @Test("When the simulated radio hub ends, its streams end, and a program accepts streams again at the next hub")
  func hubEnds() async throws {
    try await onLoopAsync {
      let conditions = AirConditions(latency: .zero)
      let pair = try await HubPair(conditions)
      let (here, there, late) = (StreamEnd(), StreamEnd(), StreamEnd())
      let listening = try pair.peripheral.listen(on: profile) { there.begin($0) }
      let address = try #require(pair.peripheral.publicAddress)
      let attempts = [
        try pair.central.connect(to: address, on: profile) { here.opened($0) },
        try pair.central.connect(to: BluetoothAddress(7), on: profile) { late.opened($0) },
      ]
      try #require(await eventually { here.stream != nil && there.stream != nil })
      pair.hub.close()
      try #require(await eventually { here.reasons.count == 1 && there.reasons.count == 1 && late.failure != nil })
      pair.hub = try HubPair.hub(pair.folder, conditions)
      try await pair.becomeReady()
      let again = StreamEnd()
      let next = try #require(pair.peripheral.publicAddress)
      let retry = try pair.central.connect(to: next, on: profile) { again.opened($0) }
      try #require(await eventually { again.stream != nil })
      withExtendedLifetime((attempts, listening, retry)) {}
    }
  }
}
