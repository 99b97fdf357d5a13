import Air
import Bytes
import Glibc
import Loop
import Radio
import TestSupport
import Testing

@testable import HCI

@Suite("Sending values through the raw HCI socket")
struct RawHCITests {
  init() { EventLoop.shared.runInBackground() }

  static let anna = BluetoothAddress(0xA)
  static let bert = BluetoothAddress(0xB)

  /// Raw HCI on a strict controller, and its events.
  @LoopActor
  final class Bench {
    let controller = FakeController()
    let time = VirtualTime()
    let outcomes = Mailbox<RawOutcome>()
    let hci: KernelHCI
    /// The controllers for which a socket was opened.
    let opened = Mailbox<UInt16>()

    init(buffers: LEBuffers = LEBuffers(length: 27, count: 2)) {
      controller.buffers = buffers
      controller.completesAlone = false
      controller.links = [HCILink(handle: 0x40, address: anna), HCILink(handle: 0x41, address: bert)]
      hci = KernelHCI(
        scheduler: time,
        makeSocket: { [opened, controller] index in
          opened.put(index)
          return controller
        }, privilege: controller.privilege)
    }

    /// Waits until the controller has reported its buffers.
    func open() async throws {
      try hci.open(0)
      try await until { self.hci.buffers(of: 0) == self.controller.buffers }
    }

    @discardableResult
    func send(_ address: BluetoothAddress, _ value: [UInt8]) -> RawAcceptance {
      hci.send(ATTNotification(handle: 0x3F, value: value), to: address, on: 0) { [outcomes] in outcomes.put($0) }
    }

    /// Waits for a condition, checked in each loop iteration.
    func until(_ condition: () -> Bool) async throws {
      let deadline = EventLoop.shared.now.advanced(by: .seconds(60))
      while !condition() {
        guard EventLoop.shared.now < deadline else { throw HCIError.failed("it did not come") }
        await turn()
      }
    }

    /// Waits until the loop has run its pending calls.
    func turn() async {
      await withCheckedContinuation { continuation in EventLoop.shared.soon { continuation.resume() } }
    }
  }

  @Test("A controller's buffer sizes are read once, and the minimum is assumed until the answer")
  @LoopActor
  func asking() async throws {
    let bench = Bench(buffers: LEBuffers(length: 251, count: 8))
    try bench.hci.open(1)
    try bench.hci.open(1)
    #expect(bench.opened.all == [1])
    #expect(bench.hci.buffers(of: 1) == .least && bench.hci.buffers(of: 0) == .least)
    #expect(bench.controller.filter == HCIFilter(events: [0x0E], opcode: 0x2002))
    // An answer to another program's command is ignored.
    bench.controller.say([0x0E, 7, 1, 0x05, 0x10, 0, 0x1B, 0, 9])
    try await bench.until { bench.hci.buffers(of: 1) != .least }
    #expect(bench.hci.buffers(of: 1) == LEBuffers(length: 251, count: 8))
    // The filter of the socket passes no packets any more.
    #expect(bench.controller.filter == .nothing)
    bench.controller.say([0x0E, 7, 1, 0x02, 0x20, 0, 0x1B, 0, 1])
    await bench.turn()
    #expect(bench.hci.buffers(of: 1) == LEBuffers(length: 251, count: 8))
    #expect(bench.controller.violations.isEmpty)
  }

  @Test("A controller that never reports its buffer sizes gets one small packet at a time")
  @LoopActor
  func silent() async throws {
    let bench = Bench()
    bench.controller.answersBuffers = false
    bench.controller.buffers = .least
    bench.send(Self.anna, [UInt8](repeating: 1, count: 60))
    #expect(bench.controller.sent.all.count == 1)
    #expect(bench.controller.filter == HCIFilter(events: [0x0E, 0x13, 0x05], opcode: 0x2002))
    bench.time.advance(by: .milliseconds(199))
    #expect(bench.controller.sent.all.count == 1)
    // A packet without a report counts as done after a timeout; only the stand-in still holds it.
    bench.controller.complete(0x41, areOurs: false)
    bench.controller.complete(0x40)
    try await bench.until { bench.controller.sent.all.count == 2 }
    bench.time.advance(by: .milliseconds(199))
    #expect(bench.controller.sent.all.count == 2)
    bench.controller.buffers.count = 2
    bench.time.advance(by: .milliseconds(1))
    #expect(bench.controller.sent.all.count == 3)
    #expect(try await bench.outcomes.next() == .sent)
    #expect(bench.controller.violations.isEmpty)
  }

  @Test("Ten values for a controller with two buffers never have three packets in flight, and arrive complete")
  @LoopActor
  func twoBuffers() async throws {
    let bench = Bench()
    bench.controller.completesAlone = true
    try await bench.open()
    let values: [[UInt8]] = (0..<10).map { [UInt8](repeating: $0, count: $0 % 2 == 0 ? 1 : 100) }
    for (number, value) in values.enumerated() {
      #expect(bench.send(number % 3 == 0 ? Self.bert : Self.anna, value) == .accepted)
    }
    try await bench.until { bench.outcomes.all.count == 10 }
    #expect(bench.outcomes.all == [RawOutcome](repeating: .sent, count: 10))
    try await bench.until { bench.controller.held.isEmpty }
    #expect(bench.controller.violations.isEmpty)
    for peer in [Self.anna, Self.bert] {
      let got = bench.controller.received.all.filter { $0.peer == peer }.map(\.payload)
      let meant = values.indices.filter { ($0 % 3 == 0) == (peer == Self.bert) }.map { [0x1B, 0x3F, 0] + values[$0] }
      #expect(got == meant)
    }
    // While no packet is in the controller, the filter passes no packets.
    await bench.turn()
    #expect(bench.controller.filter == .nothing)
  }

  @Test("A value of three packets ends with its link, even if the connection handle is used again")
  @LoopActor
  func endedAmid() async throws {
    let bench = Bench()
    try await bench.open()
    bench.controller.links = [HCILink(handle: 0x40, address: Self.anna)]
    bench.send(Self.anna, [UInt8](repeating: 7, count: 100))
    bench.send(Self.anna, [8])
    #expect(bench.controller.sent.all.count == 2)
    bench.controller.end(0x40, thenGivenTo: Self.bert)
    try await bench.until { bench.outcomes.all == [.linkGone, .linkGone] }
    bench.send(Self.bert, [9])
    #expect(try await bench.outcomes.first { $0 == .sent } == .sent)
    #expect(bench.controller.received.all == [.init(peer: Self.bert, payload: [0x1B, 0x3F, 0, 9])])
    #expect(bench.controller.violations.isEmpty)
  }

  @Test("A value whose link ends during the look-up of its handle is not sent on the peer's next link either")
  @LoopActor
  func endedMeanwhile() async throws {
    let bench = Bench()
    try await bench.open()
    bench.controller.afterList = { [controller = bench.controller] in
      if controller.lookUps == 1 { controller.end(0x40, thenGivenTo: BluetoothAddress(0xC)) }
    }
    bench.send(Self.anna, [7])
    #expect(try await bench.outcomes.next() == .linkGone)
    #expect(bench.controller.lookUps == 2)
    #expect(bench.controller.sent.all.isEmpty && bench.controller.violations.isEmpty)
  }

  @Test("`RawHCI.forget` drops the values that wait for the link of a peer")
  @LoopActor
  func forgotten() async throws {
    let bench = Bench()
    try await bench.open()
    for _ in 0..<3 { bench.send(Self.anna, [7]) }
    bench.hci.forget(Self.anna, on: 0)
    bench.hci.forget(Self.anna, on: 9)
    try await bench.until { bench.outcomes.all.count == 3 }
    #expect(bench.outcomes.all == [.sent, .sent, .linkGone])
  }

  @Test("A peer whose value was refused is reported when there is capacity")
  @LoopActor
  func room() async throws {
    let (bench, rooms) = (Bench(), Mailbox<BluetoothAddress>())
    try await bench.open()
    let watch = bench.hci.onRoom { address, index in if index == 0 { rooms.put(address) } }
    let answers = (0..<19).map { bench.send(Self.anna, [$0]) }
    #expect(answers.filter { $0 == .full }.count == 1 && answers.last == .full)
    await bench.turn()
    #expect(rooms.all.isEmpty)
    bench.controller.complete(0x40)
    #expect(try await rooms.next() == Self.anna)
    #expect(bench.send(Self.anna, [20]) == .accepted)
    // The value that waits for buffer space has no outcome yet.
    bench.controller.completesAlone = true
    bench.controller.complete(0x40, 2)
    try await bench.until { bench.outcomes.all.count == 19 && bench.controller.held.isEmpty }
    await bench.turn()
    #expect(bench.outcomes.all.count == 19 && bench.controller.violations.isEmpty)
    watch.cancel()
  }

  @Test("CAP_NET_RAW is effective only while a packet is sent or a socket filter is set")
  @LoopActor
  func privilege() async throws {
    let bench = Bench()
    try await bench.open()
    for _ in 0..<3 { bench.send(Self.anna, [1]) }
    #expect(!bench.controller.isPrivileged)
    // Without the privilege the kernel would have taken the reports out of the filter.
    #expect(bench.controller.filter.events == [0x05, 0x13])
    bench.controller.complete(0x40)
    try await bench.until { bench.outcomes.all.count == 3 }
    #expect(bench.outcomes.all.allSatisfy { $0 == .sent })
    // Without the capability, the value is refused.
    let outcomes = Mailbox<RawOutcome>()
    let weak = KernelHCI(
      scheduler: bench.time, makeSocket: { _ in FakeController() },
      privilege: { (body) throws(HCIError) in try body() })
    #expect(caught(HCIError.self) { try weak.open(0) } == .denied("send without CAP_NET_RAW"))
    #expect(weak.send(ATTNotification(handle: 1, value: []), to: Self.anna, on: 0) { outcomes.put($0) } == .accepted)
    #expect(try await outcomes.next() == .failed(.denied("send without CAP_NET_RAW")))
  }

  @Test(
    "In a running program CAP_NET_RAW is raised only for the sending thread and dropped again",
    .enabled(if: Capabilities.permitted.contains(.netRaw)))
  @LoopActor
  func capability() throws {
    // From now on the capability is permitted but not effective on the loop's thread, as in the service.
    _ = Capabilities.give(up: [], keepingAside: .netRaw)
    #expect(!Capabilities.effective.contains(.netRaw))
    let probe = CapabilityProbe()
    let hci = KernelHCI(scheduler: VirtualTime(), makeSocket: { _ in probe })
    try hci.open(0)
    #expect(probe.seen == [true, true])
    #expect(!Capabilities.effective.contains(.netRaw))
  }

  /// A socket that records whether CAP_NET_RAW is in effect.
  @LoopActor
  private final class CapabilityProbe: RawSocket {
    var seen: [Bool] = []

    func send(_ packet: [UInt8]) throws(HCIError) { seen.append(Capabilities.effective.contains(.netRaw)) }
    func listen(to filter: HCIFilter) throws(HCIError) { seen.append(Capabilities.effective.contains(.netRaw)) }
    func receive(limit: Int) -> HCISocket.Arrival { .nothing }
    func watch(_ body: @escaping @LoopActor () -> Void) -> Registration { Registration {} }
    func links(of index: UInt16) throws(HCIError) -> [HCILink] { [] }
    func sharedBuffers(of index: UInt16) -> LEBuffers? { nil }
  }

  @Test("The removal of a controller fails waiting values, and a controller with the same number is opened anew")
  @LoopActor
  func takenOut() async throws {
    let bench = Bench()
    try await bench.open()
    for _ in 0..<4 { bench.send(Self.anna, [1]) }
    bench.controller.arrive(.broken(.noController))
    try await bench.until { bench.outcomes.all.count == 4 }
    #expect(bench.outcomes.all == [.sent, .sent, .failed(.noController), .failed(.noController)])
    bench.controller.end(0x40, thenGivenTo: Self.anna)
    try await bench.open()
    #expect(bench.opened.all == [0, 0])
    bench.send(Self.anna, [2])
    #expect(try await bench.outcomes.first { _ in bench.outcomes.all.count == 5 } == .sent)
    // The controller's absence is detected by a send.
    bench.controller.failure = .noController
    bench.send(Self.anna, [3])
    #expect(try await bench.outcomes.first { _ in bench.outcomes.all.count == 6 } == .failed(.noController))
    bench.controller.failure = nil
    try await bench.open()
    #expect(bench.opened.all == [0, 0, 0])
  }

  @Test("Closing raw HCI fails waiting values, and each callback runs once")
  @LoopActor
  func closed() async throws {
    let bench = Bench()
    try await bench.open()
    for _ in 0..<3 { bench.send(Self.anna, [1]) }
    bench.hci.closeAll()
    bench.hci.closeAll()
    try await bench.until { bench.outcomes.all.count == 3 }
    #expect(bench.outcomes.all == [.sent, .sent, .failed(.noController)])
  }

  @Test("Malformed HCI events of a controller are ignored")
  @LoopActor
  func nonsense() async throws {
    let bench = Bench()
    try await bench.open()
    for _ in 0..<3 { bench.send(Self.anna, [1]) }
    bench.controller.arrive(.tooLong)
    bench.controller.arrive(.packet([]))
    bench.controller.arrive(.packet([0x04, 0x13, 5, 1, 0x40, 0, 1]))
    bench.controller.arrive(.packet([0x02, 0x13, 5, 1, 0x40, 0, 1, 0]))
    bench.controller.arrive(.packet([0x04, 0x05, 4, 0x0C, 0x40, 0, 0x13]))
    for _ in 0..<8 { await bench.turn() }
    #expect(bench.outcomes.all.count == 2)
    bench.controller.complete(0x40)
    try await bench.until { bench.outcomes.all.count == 3 }
    #expect(bench.outcomes.all.allSatisfy { $0 == .sent })
  }

  @Test("Each kernel error for raw HCI has a reason, and is classified as temporary or permanent")
  @LoopActor
  func refused() async throws {
    let hci = KernelHCI(makeSocket: { (_) throws(HCIError) in throw HCIError(EPERM, in: "bind") })
    #expect(caught(HCIError.self) { try hci.open(0) } == .denied("the kernel denied permission"))
    let outcomes = Mailbox<RawOutcome>()
    #expect(hci.send(ATTNotification(handle: 1, value: []), to: Self.anna, on: 0) { outcomes.put($0) } == .accepted)
    #expect(outcomes.all.isEmpty)
    #expect(try await outcomes.next() == .failed(.denied("the kernel denied permission")))
    for code in [ENODEV, ENETDOWN, EPIPE, EBADFD] { #expect(HCIError(code, in: "send") == .noController) }
    #expect(HCIError(EAFNOSUPPORT, in: "socket").description.contains("the kernel has no Bluetooth sockets"))
    let passing = [EAGAIN, ENOBUFS, ENOMEM, ENODEV, ENETDOWN, EPIPE].map { HCIError($0, in: "send").isPassing }
    #expect(!passing.contains(false) && HCIError.noLink.isPassing)
    let lasting = [EPERM, EACCES, EAFNOSUPPORT, EPROTONOSUPPORT, EINVAL].map { HCIError($0, in: "send").isPassing }
    #expect(!lasting.contains(true))
  }
}
