import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@testable import BlueZ

@Suite("Write sockets offered to clients")
struct WriteOfferTests {
  init() { EventLoop.shared.runInBackground() }

  /// The sample application at a bluetoothd of this release.
  @LoopActor
  private static func served(
    by version: BlueZVersion = BlueZVersion(5, 82), takesAllWrites: Bool = true
  ) async throws -> (Rig, Service, DriverRig.Server) {
    let (rig, service) = (try await Rig.ready(version: version), Service())
    let application = Service.application(reach: .subscribers, takesAllWrites: takesAllWrites)
    return (rig, service, try await rig.serve(service, application))
  }

  @LoopActor
  private static func close(_ rig: Rig, _ server: DriverRig.Server) {
    server.close()
    rig.close()
  }

  /// A connected client, with its link.
  ///
  /// - Parameter server: the service by which the client shows that it will stream; nil for a phone.
  @LoopActor
  private static func client(
    _ number: Int, _ rig: Rig, _ service: Service, streamsTo server: DriverRig.Server?
  ) async throws -> (ObjectPath, LinkID) {
    let address = "00:AA:02:00:00:0\(number)"
    let device = rig.fake.addDevice(address)
    let event = try await service.events.first { if case .opened(_, address) = $0 { true } else { false } }
    guard case .opened(let link, _) = event else { throw CancellationError() }
    server?.expectStream(from: link)
    return (device, link)
  }

  /// A client with a socket: it has written 0 by a call, and 1 through the socket.
  @LoopActor
  private static func writer(
    _ rig: Rig, _ service: Service, _ server: DriverRig.Server
  ) async throws -> (ObjectPath, LinkID) {
    let (device, link) = try await client(1, rig, service, streamsTo: server)
    #expect(await rig.fake.write([0], to: Service.put, from: device) == nil)
    try await rig.fake.until { isOffered(rig) }
    #expect(await rig.fake.write([1], to: Service.put, from: device) == nil)
    try await until([1], on: link, service)
    return (device, link)
  }

  @LoopActor
  private static func isOffered(_ rig: Rig) -> Bool {
    rig.fake.applications.last?[Service.put]?.offersWriteSockets == true
  }

  @LoopActor
  private static func written(_ service: Service, on link: LinkID) -> [[UInt8]] {
    service.events.all.compactMap { if case .written(link, _, let value) = $0 { value } else { nil } }
  }

  @LoopActor
  private static func until(_ value: [UInt8], on link: LinkID, _ service: Service) async throws {
    let last = Service.Event.written(link, Service.id(0xFE02), value)
    if !service.events.all.contains(last) { _ = try await service.events.first { $0 == last } }
  }

  @Test("Writes of clients that write at the same time are assigned to the right clients")
  @LoopActor
  func together() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    var clients: [(device: ObjectPath, link: LinkID)] = []
    for number in 1...3 { clients.append(try await Self.client(number, rig, service, streamsTo: server)) }
    for (index, client) in clients.enumerated() {
      rig.fake.write([UInt8(index)], to: Service.put, from: client.device) { _ in }
    }
    for (index, client) in clients.enumerated() { try await Self.until([UInt8(index)], on: client.link, service) }
    for (index, client) in clients.enumerated() {
      #expect(Self.written(service, on: client.link) == [[UInt8(index)]])
    }
  }

  @Test("After its first write each client has its own write socket")
  @LoopActor
  func sockets() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    var clients: [(device: ObjectPath, link: LinkID)] = []
    for number in 1...2 { clients.append(try await Self.client(number, rig, service, streamsTo: server)) }
    #expect(await rig.fake.write([0, 0], to: Service.put, from: clients[0].device, mtu: 247) == nil)
    try await rig.settle()
    #expect(!Self.isOffered(rig))
    #expect(await rig.fake.write([0, 1], to: Service.put, from: clients[1].device, mtu: 247) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
    for round in 1..<20 as Range<UInt8> {
      for index in 0..<2 {
        #expect(await rig.fake.write([round, UInt8(index)], to: Service.put, from: clients[index].device) == nil)
      }
    }
    #expect(rig.fake.writesBySocket == 38)
    for index in 0..<2 {
      try await Self.until([19, UInt8(index)], on: clients[index].link, service)
      #expect(Self.written(service, on: clients[index].link) == (0..<20).map { [$0, UInt8(index)] })
      #expect(service.events.all.contains(.changed(clients[index].link, 247)))
    }
  }

  @Test("A write shortly after writes of several clients waits one connection interval, and none is lost")
  @LoopActor
  func gathered() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let (device, link) = try await Self.writer(rig, service, server)
    func write(_ number: UInt8) { rig.fake.write([number], to: Service.put, from: device) { #expect($0 == nil) } }
    var times: [UInt8: Instant] = [:]
    service.onWritten = { value in
      times[value[0]] = EventLoop.shared.now
      if value == [3] { EventLoop.shared.soon { write(4) } }
    }
    write(2)
    write(3)
    try await Self.until([4], on: link, service)
    #expect(Self.written(service, on: link) == (0...4).map { [$0] })
    #expect(try #require(times[4]) >= #require(times[3]).advanced(by: .microseconds(7500)))
    #expect(rig.fake.writesBySocket == 4)
  }

  @Test("A client that connects later is recognised by its first write, and the sockets of others stay open")
  @LoopActor
  func later() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let first = try await Self.client(1, rig, service, streamsTo: server)
    #expect(await rig.fake.write([1], to: Service.put, from: first.0) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
    #expect(await rig.fake.write([2], to: Service.put, from: first.0) == nil)
    let second = try await Self.client(2, rig, service, streamsTo: server)
    try await rig.fake.until { !Self.isOffered(rig) }
    #expect(await rig.fake.write([3], to: Service.put, from: first.0) == nil)
    #expect(rig.fake.writesBySocket == 2)
    #expect(await rig.fake.write([4], to: Service.put, from: second.0) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
    #expect(rig.fake.writesBySocket == 2)
    #expect(await rig.fake.write([5], to: Service.put, from: second.0) == nil)
    try await Self.until([5], on: second.1, service)
    #expect(Self.written(service, on: second.1) == [[4], [5]])
    try await Self.until([3], on: first.1, service)
    #expect(Self.written(service, on: first.1) == [[1], [2], [3]])
  }

  @Test(
    "A burst of writes of one client is complete while another client streams through its socket"
  )
  @LoopActor
  func burst() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let first = try await Self.client(1, rig, service, streamsTo: server)
    for number in 1...2 as ClosedRange<UInt8> {
      #expect(await rig.fake.write([number], to: Service.put, from: first.0) == nil)
    }
    #expect(rig.fake.writesBySocket == 1)
    let phone = try await Self.client(2, rig, service, streamsTo: nil)
    try await rig.fake.until { !Self.isOffered(rig) }
    let values = (0..<20 as Range<UInt8>).map { [UInt8](repeating: $0, count: 100 + Int($0)) }
    for value in values { rig.fake.write(value, to: Service.put, from: phone.0) { _ in } }
    try await Self.until(values[19], on: phone.1, service)
    #expect(Self.written(service, on: phone.1) == values)
    #expect(await rig.fake.write([3], to: Service.put, from: first.0) == nil)
    #expect(rig.fake.writesBySocket == 2)
    let third = try await Self.client(3, rig, service, streamsTo: server)
    for number in 1...3 as ClosedRange<UInt8> {
      #expect(await rig.fake.write([number], to: Service.put, from: third.0) == nil)
    }
    #expect(rig.fake.writesBySocket == 2)
    rig.fake.setConnected(phone.0, false)
    try await rig.fake.until { Self.isOffered(rig) }
    #expect(await rig.fake.write([4], to: Service.put, from: third.0) == nil)
    try await Self.until([4], on: third.1, service)
    #expect(rig.fake.writesBySocket == 3)
    #expect(Self.written(service, on: third.1) == [[1], [2], [3], [4]])
  }

  @Test("A client may announce a stream after it has already written")
  @LoopActor
  func saidLater() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let client = try await Self.client(1, rig, service, streamsTo: nil)
    for number in 1...2 as ClosedRange<UInt8> {
      #expect(await rig.fake.write([number], to: Service.put, from: client.0) == nil)
    }
    try await rig.settle()
    #expect(!Self.isOffered(rig))
    server.expectStream(from: client.1)
    try await rig.fake.until { Self.isOffered(rig) }
    #expect(await rig.fake.write([3], to: Service.put, from: client.0) == nil)
    #expect(rig.fake.writesBySocket == 1)
  }

  @Test("A client with a write socket does not delay the socket of another client")
  @LoopActor
  func early() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let first = try await Self.client(1, rig, service, streamsTo: server)
    #expect(await rig.fake.write([1], to: Service.put, from: first.0) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
    // bluetoothd delivers the first write before it has handled the withdrawal.
    let second = rig.fake.addDevice("00:AA:02:00:00:02")
    rig.fake.write([2], to: Service.put, from: second) { _ in }
    try await rig.fake.until { rig.fake.writesBySocket == 1 }
    try await rig.settle()
    #expect(await rig.fake.write([3], to: Service.put, from: first.0) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
  }

  @Test("A connected peer that never writes delays the sockets of others for at most 30 s")
  @LoopActor
  func silent() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let first = try await Self.client(1, rig, service, streamsTo: server)
    _ = try await Self.client(2, rig, service, streamsTo: server)
    #expect(await rig.fake.write([1], to: Service.put, from: first.0) == nil)
    rig.time.advance(by: .milliseconds(29_900))
    try await rig.settle()
    #expect(!Self.isOffered(rig))
    rig.time.advance(by: .milliseconds(200))
    try await rig.fake.until { Self.isOffered(rig) }
    let third = try await Self.client(3, rig, service, streamsTo: server)
    try await rig.fake.until { !Self.isOffered(rig) }
    #expect(await rig.fake.write([2], to: Service.put, from: first.0) == nil)
    rig.fake.setConnected(third.0, false)
    try await rig.fake.until { Self.isOffered(rig) }
  }

  @Test("Peers that were connected or paired before the start delay sockets for at most 30 s")
  @LoopActor
  func strangers() async throws {
    let rig = try await Rig.ready(version: BlueZVersion(5, 82)) { fake in
      fake.addAdapter()
      fake.addDevice("00:AA:02:00:00:08")
      fake.addDevice("00:AA:02:00:00:09")
    }
    let service = Service()
    let server = try await rig.serve(service, Service.application(reach: .subscribers, takesAllWrites: true))
    defer { Self.close(rig, server) }
    for number in [8, 9] as [UInt8] {
      let device = rig.fake.devicePath("00:AA:02:00:00:0\(number)")
      #expect(await rig.fake.write([number], to: Service.put, from: device) == nil)
    }
    for link in rig.radio.links { server.expectStream(from: link) }
    rig.time.advance(by: .milliseconds(29_900))
    try await rig.settle()
    #expect(!Self.isOffered(rig))
    rig.time.advance(by: .milliseconds(200))
    try await rig.fake.until { Self.isOffered(rig) }
    _ = rig.fake.addDevice("00:AA:02:00:00:07", isPaired: true)
    try await rig.fake.until { !Self.isOffered(rig) }
    #expect(await rig.fake.write([1], to: Service.put, from: rig.fake.devicePath("00:AA:02:00:00:08")) == nil)
    rig.time.advance(by: .milliseconds(30_100))
    try await rig.fake.until { Self.isOffered(rig) }
  }

  @Test("After a restart of bluetoothd no write socket is offered before a client has written")
  @LoopActor
  func restart() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let client = try await Self.client(1, rig, service, streamsTo: server)
    #expect(await rig.fake.write([1], to: Service.put, from: client.0) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
    rig.fake.vanish()
    try await rig.reach(.waiting)
    try await rig.fake.start()
    try await rig.reach(.ready)
    try await rig.fake.until { rig.fake.applications.last?[Service.put]?.handle ?? 0 != 0 }
    #expect(!Self.isOffered(rig))
    let again = try await Self.client(2, rig, service, streamsTo: server)
    #expect(await rig.fake.write([2], to: Service.put, from: again.0) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
    #expect(rig.fake.writesBySocket == 0)
  }

  @Test("A write that is too long is refused and counted, and other writes arrive")
  @LoopActor
  func tooLong() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let (device, link) = try await Self.client(1, rig, service, streamsTo: server)
    #expect(await rig.fake.write([0], to: Service.put, from: device) == nil)
    try await rig.fake.until { Self.isOffered(rig) }
    let values: [[UInt8]] = [[1], [UInt8](repeating: 2, count: 513), [UInt8](repeating: 3, count: 512), [4]]
    #expect(await rig.fake.write(values[0], to: Service.put, from: device) == nil)
    for value in values.dropFirst() { rig.fake.write(value, to: Service.put, from: device) { _ in } }
    try await Self.until([4], on: link, service)
    #expect(Self.written(service, on: link) == [[0], values[0], values[2], values[3]])
    #expect(rig.radio.counters.refusedWrites == 1)
  }

  @Test("Values in a write socket are delivered even if the client has disconnected")
  @LoopActor
  func lastWords() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let (device, link) = try await Self.writer(rig, service, server)
    // More than one loop iteration reads.
    for number in 2..<100 as Range<UInt8> { rig.fake.write([number], to: Service.put, from: device) { _ in } }
    rig.fake.setConnected(device, false)
    _ = try await service.events.first { $0 == .closed(link) }
    #expect(Self.written(service, on: link) == (0..<100).map { [$0] })
  }

  @Test(
    "Values in a write socket are delivered before the link's end, even if Connected=false arrives first"
  )
  @LoopActor
  func lastWordsUnread() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let (device, link) = try await Self.writer(rig, service, server)
    // In one loop iteration, so that nothing is read from the socket in between; bluetoothd keeps its end open.
    for number in 2..<40 as Range<UInt8> { rig.fake.write([number], to: Service.put, from: device) { _ in } }
    var gone = try #require(rig.driver.daemon.devices[device])
    gone.isConnected = false
    rig.driver.links.deviceChanged(gone, wasConnected: true)
    #expect(Self.written(service, on: link) == (0..<40).map { [$0] })
    #expect(service.events.all.last == .closed(link))
  }

  @Test(
    "Values in a replaced write socket are delivered before those of the new socket")
  @LoopActor
  func replaced() async throws {
    let (rig, service, server) = try await Self.served()
    defer { Self.close(rig, server) }
    let (device, link) = try await Self.writer(rig, service, server)
    // More than one loop iteration reads.
    for number in 2..<100 as Range<UInt8> { rig.fake.write([number], to: Service.put, from: device) { _ in } }
    rig.fake.renewWriteSocket(of: device, at: Service.put)
    #expect(await rig.fake.write([100], to: Service.put, from: device) == nil)
    #expect(await rig.fake.write([101], to: Service.put, from: device) == nil)
    try await Self.until([101], on: link, service)
    #expect(Self.written(service, on: link) == (0...101).map { [$0] })
  }

  @Test(
    "No write socket is offered for a service that may refuse writes, or by a bluetoothd before 5.76",
    arguments: [(66, true), (82, false)])
  @LoopActor
  func noWriters(minor: Int, takesAllWrites: Bool) async throws {
    let (rig, service, server) = try await Self.served(by: BlueZVersion(5, minor), takesAllWrites: takesAllWrites)
    defer { Self.close(rig, server) }
    let device = rig.fake.addDevice("00:AA:02:00:00:01")
    #expect(await rig.fake.write([0], to: Service.put, from: device) == nil)
    try await rig.settle()
    #expect(!Self.isOffered(rig))
    service.refusal = .busy
    #expect(await rig.fake.write([1], to: Service.put, from: device) != nil)
  }
}
