import Common
import Loop
import Radio
import TestSupport
import Testing

/// The behaviour of every radio driver. A client cannot read a value over the simulated radio, so reading is not part
/// of the contract.
@Suite("The contract that every radio driver fulfils", .serialized)
struct RadioContractTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private func withWorld(
    _ radio: ContractRadio, _ body: @LoopActor (any ContractWorld) async throws -> Void
  ) async throws {
    let world = try await radio.world()
    defer { world.close() }
    try await body(world)
  }

  /// A world whose driver serves, advertises and has a link that the peer made.
  @LoopActor
  private func serving(
    _ radio: ContractRadio, _ body: @LoopActor (any ContractWorld, LinkID) async throws -> Void
  ) async throws {
    try await withWorld(radio) { world in
      let recorder = world.recorder
      world.driver.serve(Contract.application, as: Contract.number)
      world.driver.advertise(Contract.advertisement, in: 0)
      try await world.until { recorder.count(.served(true)) == 1 && recorder.count(.onAir(true)) == 1 }
      try await world.peerConnects()
      try await world.until { recorder.link != nil }
      try await body(world, try #require(recorder.link))
    }
  }

  /// Scans until the driver has reported the peer's advertisement, and stops the scan.
  @LoopActor
  private func findPeer(of world: any ContractWorld) async throws {
    world.driver.listen(Listening(services: [Contract.service]))
    try await world.peerAdvertises()
    try await world.until { world.recorder.events.contains(.heard(world.peerAddress, [Contract.service])) }
    world.driver.listen(nil)
    try await world.settle()
  }

  /// A world whose driver has made a link to the peer, discovered its services and subscribed.
  @LoopActor
  private func connected(
    _ radio: ContractRadio, _ body: @LoopActor (any ContractWorld, any Link) async throws -> Void
  ) async throws {
    try await withWorld(radio) { world in
      let recorder = world.recorder
      try await findPeer(of: world)
      let link = try world.driver.connect(to: world.peerAddress) { recorder.note(.link($0)) }
      #expect(recorder.linkEvents.isEmpty)
      link.discover()
      link.subscribe(to: Contract.hear)
      try await world.until { recorder.linkEvents.contains(.subscribed(Contract.hear)) }
      try await body(world, link)
    }
  }

  @Test("Every driver advertises an advertisement until its slot is emptied", arguments: ContractRadio.allCases)
  @LoopActor
  func advertising(radio: ContractRadio) async throws {
    try await withWorld(radio) { world in
      let recorder = world.recorder
      #expect(try await world.servicesOnAir() == [])
      world.driver.advertise(Contract.advertisement, in: 0)
      #expect(recorder.events.isEmpty)
      try await world.until { recorder.count(.onAir(true)) == 1 }
      #expect(try await world.servicesOnAir() == [Contract.service])
      world.driver.advertise(nil, in: 0)
      try await world.until { recorder.count(.onAir(false)) >= 1 }
      #expect(try await world.servicesOnAir() == [])
    }
  }

  @Test("Every driver serves an application until it is stopped", arguments: ContractRadio.allCases)
  @LoopActor
  func serving(radio: ContractRadio) async throws {
    try await withWorld(radio) { world in
      let recorder = world.recorder
      world.driver.serve(Contract.application, as: Contract.number)
      #expect(recorder.events.isEmpty)
      try await world.until { recorder.count(.served(true)) == 1 }
      #expect(world.driver.isServed(Contract.number))
      world.driver.stopServing(Contract.number)
      #expect(!world.driver.isServed(Contract.number))
    }
  }

  @Test(
    "Every driver's scan reports the advertisers of the requested services, with their addresses",
    arguments: ContractRadio.allCases)
  @LoopActor
  func scanning(radio: ContractRadio) async throws {
    try await withWorld(radio) { world in
      let recorder = world.recorder
      try await findPeer(of: world)
      let count = recorder.events.count
      try await world.settle()
      #expect(recorder.events.count == count)
    }
  }

  @Test(
    "Every driver opens an outgoing link before `connected`, and `disconnected` is the link's last event",
    arguments: ContractRadio.allCases)
  @LoopActor
  func connecting(radio: ContractRadio) async throws {
    try await connected(radio) { world, link in
      let recorder = world.recorder
      let up = ContractRecorder.Event.up(link.id, world.peerAddress)
      let first = try #require(recorder.events.firstIndex(of: up))
      let second = try #require(recorder.events.firstIndex(of: .link(.connected)))
      #expect(first < second && recorder.count(up) == 1)
      #expect(world.driver.origin(of: link.id) == .here)
      let found = recorder.linkEvents.compactMap { event -> [GATTService]? in
        if case .discovered(let services) = event { services } else { nil }
      }
      #expect(found == [Contract.application.services])
      link.disconnect()
      try await world.until { recorder.isOver && recorder.count(.down(link.id)) == 1 }
      let count = recorder.linkEvents.count
      try await world.settle()
      #expect(recorder.linkEvents.count == count && recorder.count(.down(link.id)) == 1)
    }
  }

  @Test(
    "Every driver delivers writes in order, and reports the peer's error for a refused write request",
    arguments: ContractRadio.allCases)
  @LoopActor
  func writing(radio: ContractRadio) async throws {
    try await connected(radio) { world, link in
      let recorder = world.recorder
      let before = recorder.linkEvents.count
      for number in 0..<20 as Range<UInt8> {
        link.write([number], to: Contract.put, as: number.isMultiple(of: 5) ? .request : .command)
      }
      try await world.until { recorder.linkEvents.count == before + 20 && world.peerReceived.count == 20 }
      #expect(world.peerReceived == (0..<20).map { [$0] })
      #expect(recorder.linkEvents.dropFirst(before).allSatisfy { $0 == .written(Contract.put, error: nil) })
      world.peerRefusal = .noCapacity
      link.write([99], to: Contract.put, as: .request)
      try await world.until { recorder.linkEvents.last == .written(Contract.put, error: .noCapacity) }
    }
  }

  @Test(
    "Every driver delivers a peer's notifications in order, including equal ones", arguments: ContractRadio.allCases)
  @LoopActor
  func notified(radio: ContractRadio) async throws {
    try await connected(radio) { world, _ in
      let recorder = world.recorder
      let values: [[UInt8]] = [[1], [1], [2], [3]]
      for value in values { world.peerNotifies(value) }
      @LoopActor
      func received() -> [[UInt8]] {
        recorder.linkEvents.compactMap { event -> [UInt8]? in
          if case .notified(Contract.hear, let value) = event { value } else { nil }
        }
      }
      try await world.until { received().count == values.count }
      #expect(received() == values)
    }
  }

  @Test(
    "Every driver passes a peer's write to the delegate, and returns the delegate's refusal to the peer",
    arguments: ContractRadio.allCases)
  @LoopActor
  func written(radio: ContractRadio) async throws {
    try await serving(radio) { world, link in
      let recorder = world.recorder
      let isAccepted = try await world.peerWrites([1, 2, 3])
      recorder.refusal = .noCapacity
      let isRefused = try await !world.peerWrites([4])
      #expect(isAccepted && isRefused)
      let written = [[1, 2, 3], [4]].map { ContractRecorder.Event.written(link, Contract.put, $0) }
      let found = recorder.events.filter { if case .written = $0 { true } else { false } }
      #expect(found == written)
      #expect(recorder.count(.mtu(link, 517)) == 1 && recorder.count(.up(link, world.peerAddress)) == 1)
    }
  }

  @Test(
    "Every driver sends a client no value before it subscribes, and then each accepted value in order",
    arguments: ContractRadio.allCases)
  @LoopActor
  func notifying(radio: ContractRadio) async throws {
    try await serving(radio) { world, link in
      let (recorder, driver) = (world.recorder, world.driver)
      @LoopActor
      func notify(_ value: [UInt8]) -> Delivery {
        driver.notify(value, of: Contract.hear, in: Contract.number, to: .link(link))
      }
      #expect(notify([0]) == Delivery(unreachable: [link]))
      try await world.peerSubscribes()
      for number in 1...50 as ClosedRange<UInt8> {
        while true {
          let rooms = recorder.count(.room(link))
          if !notify([number]).accepted.isEmpty { break }
          try await world.until { recorder.count(.room(link)) > rooms }
        }
      }
      try await world.until { world.peerNotified.count == 50 }
      #expect(world.peerNotified == (1...50).map { [$0] })
    }
  }

  @Test(
    "Every driver reports the loss of a client's link once, and then treats the link as unreachable",
    arguments: ContractRadio.allCases)
  @LoopActor
  func peerLost(radio: ContractRadio) async throws {
    try await serving(radio) { world, link in
      let (recorder, driver) = (world.recorder, world.driver)
      try await world.peerSubscribes()
      world.losePeer()
      try await world.until { recorder.count(.down(link)) == 1 }
      try await world.settle()
      #expect(recorder.count(.down(link)) == 1)
      let delivery = driver.notify([1], of: Contract.hear, in: Contract.number, to: .link(link))
      #expect(delivery == Delivery(unreachable: [link]))
    }
  }

  @Test(
    "Every driver ends an outgoing link, also for its owner, when the peer is lost", arguments: ContractRadio.allCases)
  @LoopActor
  func linkLost(radio: ContractRadio) async throws {
    try await connected(radio) { world, link in
      let recorder = world.recorder
      world.losePeer()
      try await world.until { recorder.isOver && recorder.count(.down(link.id)) == 1 }
    }
  }

  @Test(
    "Every driver can cut incoming and outgoing links, and a second cut has no effect",
    arguments: ContractRadio.allCases)
  @LoopActor
  func cutting(radio: ContractRadio) async throws {
    try await serving(radio) { world, link in
      let recorder = world.recorder
      world.driver.cut(link)
      #expect(recorder.count(.down(link)) == 0)
      try await world.until { recorder.count(.down(link)) == 1 }
      world.driver.cut(link)
      try await world.settle()
      #expect(recorder.count(.down(link)) == 1)
    }
    try await connected(radio) { world, link in
      let recorder = world.recorder
      world.driver.cut(link.id)
      try await world.until { recorder.isOver && recorder.count(.down(link.id)) == 1 }
    }
  }

  @Test(
    "Every driver ends links at power-off, and restores advertisement and application at power-on",
    arguments: ContractRadio.allCases)
  @LoopActor
  func radioLost(radio: ContractRadio) async throws {
    try await serving(radio) { world, link in
      let recorder = world.recorder
      world.setPower(false)
      try await world.until {
        world.driver.status.state == .waiting && recorder.count(.down(link)) == 1 && recorder.count(.onAir(false)) >= 1
      }
      #expect(throws: RadioError.self) { _ = try world.driver.connect(to: world.peerAddress) { _ in } }
      let before = recorder.events.count
      world.setPower(true)
      try await world.until {
        world.driver.status.state == .ready && world.driver.isServed(Contract.number)
          && recorder.events.dropFirst(before).contains(.onAir(true))
      }
      #expect(try await world.servicesOnAir() == [Contract.service])
    }
  }

  @Test(
    "Every driver carries stream bytes both ways, and ends a stream at both ends", arguments: ContractRadio.allCases)
  @LoopActor
  func stream(radio: ContractRadio) async throws {
    try await withWorld(radio) { world in
      let recorder = world.recorder
      let listening = try world.driver.listen(on: Contract.profile) { recorder.accept($0) }
      let peer = try await world.peerOpensStream()
      try await world.until { recorder.streams.count == 1 }
      let stream = try #require(recorder.streams.first)
      #expect(stream.address == world.peerAddress)
      peer.send([1, 2, 3])
      try await world.until { recorder.streamBytes == [1, 2, 3] }
      #expect(stream.send([4, 5]) == 2)
      try await world.until { peer.received == [4, 5] }
      peer.close()
      try await world.until { recorder.count(.stream(nil)) == 1 }
      let other = try await world.peerOpensStream()
      try await world.until { recorder.streams.count == 2 }
      try #require(recorder.streams.last).close()
      try await world.until { other.isOver }
      listening.cancel()
    }
  }
}
