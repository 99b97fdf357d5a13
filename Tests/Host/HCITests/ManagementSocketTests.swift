import Air
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("The kernel's Bluetooth management socket")
struct ManagementSocketTests {
  init() { EventLoop.shared.runInBackground() }

  typealias Answer = Result<UInt8, ManagementSocket.Failure>

  @Test("Management reports that were not requested are dropped, and those of wrong length are malformed")
  @LoopActor
  func unwanted() async throws {
    let kernel = FakeKernel()
    let socket = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    let heard = Mailbox<ManagementEvent>()
    let watch = socket.onEvent { event, _ in heard.put(event) }
    var asked: [[UInt8]] = []
    socket.wantsReport = { data, index in
      #expect(index == 0x0102)
      asked.append(Array(data))
      return data.first == 2
    }
    func report(_ data: [UInt8]) -> AdvertisingReport {
      AdvertisingReport(address: BluetoothAddress(1), kind: .randomAddress, rssi: -59, flags: 4, data: data)
    }
    func monitored(_ data: [UInt8]) -> ManagementEvent {
      .monitoredDeviceFound(MonitoredReport(monitor: 0, report: report(data)))
    }
    var cut = monitored([2, 1, 5]).packet(of: 0)
    cut.parameters.removeLast()
    kernel.tell(monitored([3, 1, 6, 6]), of: 0x0102)
    kernel.tell(.deviceFound(report([])), of: 0x0102)
    kernel.send(cut.bytes)
    kernel.tell(monitored([2, 1, 6]), of: 0x0102)
    kernel.tell(.deviceFound(report([2, 1, 7])), of: 0x0102)
    kernel.tell(.indexRemoved)
    _ = try await heard.first { $0 == .indexRemoved }
    #expect(heard.all == [monitored([2, 1, 6]), .deviceFound(report([2, 1, 7])), .indexRemoved])
    #expect(asked == [[3, 1, 6, 6], [], [2, 1, 6], [2, 1, 7]] && socket.malformed == 1)
    withExtendedLifetime(watch) {}
    kernel.close()
  }

  @Test("Management commands are executed in order, each with its own answer")
  @LoopActor
  func order() async throws {
    let (kernel, answers) = (FakeKernel(), Mailbox<Answer>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    for instance in 1...3 as ClosedRange<UInt8> {
      management.call(AddAdvertising(instance: instance, flags: .connectable, data: [], scanResponse: []), on: 0) {
        answers.put($0)
      }
    }
    management.call(RemoveAdvertising(instance: 9), on: 0) { answers.put($0) }
    #expect(answers.all.isEmpty)
    _ = try await answers.first { $0 == .failure(.refused(.invalidParameters)) }
    #expect(answers.all == [.success(1), .success(2), .success(3), .failure(.refused(.invalidParameters))])
    management.close()
    kernel.close()
  }

  @Test("A follow-up command of an answer is sent before other waiting commands")
  @LoopActor
  func next() async throws {
    let (kernel, done) = (FakeKernel(), Mailbox<String>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    for instance in 1...2 as ClosedRange<UInt8> {
      let parameters = AddExtendedAdvertisingParameters(instance: instance, flags: [], interval: 160)
      management.call(parameters, on: 0) { _ in
        let data = AddExtendedAdvertisingData(instance: instance, data: [instance], scanResponse: [])
        management.call(data, on: 0, isNext: true) { done.put("\($0)") }
      }
    }
    _ = try await done.first { _ in done.all.count == 2 }
    #expect(done.all == ["success(1)", "success(2)"])
    #expect(kernel.commands.all == ["0x54 0", "0x55 0", "0x54 0", "0x55 0"])
    #expect(kernel.onAir().mapValues(\.data) == [1: [1], 2: [2]])
    management.close()
    kernel.close()
  }

  @Test("New data of an advertising instance does not change its interval, flags or address")
  @LoopActor
  func exchange() async throws {
    let (kernel, answers) = (FakeKernel(), Mailbox<Answer>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    func put(_ data: [UInt8], _ scanResponse: [UInt8], of instance: UInt8 = 2) {
      let command = AddExtendedAdvertisingData(instance: instance, data: data, scanResponse: scanResponse)
      management.call(command, on: 0) { answers.put($0) }
    }
    let parameters = AddExtendedAdvertisingParameters(
      instance: 2, isConnectable: false, hasScanResponse: false, interval: 0xA0)
    management.call(parameters, on: 0) { _ in }
    put([1], [])
    _ = try await answers.next()
    let first = try #require(kernel.onAir()[2])
    put([2], [])
    _ = try await answers.next()
    let second = try #require(kernel.onAir()[2])
    #expect(first.data == [1] && second.data == [2] && kernel.made == [2: 1])
    #expect(first.interval == 0xA0 && second.interval == 0xA0 && second.flags == .intervals)
    // A scan response that was not requested, and an instance that does not exist.
    put([3], [3])
    put([3], [], of: 1)
    _ = try await answers.first { _ in answers.all.count == 4 }
    #expect(answers.all.suffix(2) == [.failure(.refused(.invalidParameters)), .failure(.refused(.invalidParameters))])
    #expect(kernel.onAir().mapValues(\.data) == [2: [2]])
    management.close()
    kernel.close()
  }

  @Test("Advertising instances that the kernel lists are known, and unlisted ones are unknown")
  @LoopActor
  func features() async throws {
    let (kernel, answers) = (FakeKernel(), Mailbox<Answer>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    for instance in [1, 3] as [UInt8] {
      let command = AddAdvertising(instance: instance, flags: [], data: [], scanResponse: [])
      management.call(command, on: 0) { answers.put($0) }
    }
    let lists = Mailbox<AdvertisingFeatures>()
    management.call(ReadAdvertisingFeatures(), on: 0) { if case .success(let features) = $0 { lists.put(features) } }
    let features = try await lists.next()
    #expect(features.instances == [1])
    #expect((1...3).map { features.state(of: $0) } == [.used, .unknown, .unknown])
    management.close()
    kernel.close()
  }

  @Test("A management command without an answer ends after 10 s, and the next one is sent")
  @LoopActor
  func silence() async throws {
    let (kernel, time, answers) = (FakeKernel(), VirtualTime(), Mailbox<Answer>())
    let management = ManagementSocket(kernel.socket, scheduler: time)
    kernel.isSilent = true
    management.call(RemoveAdvertising(instance: 1), on: 0) { answers.put($0) }
    management.call(AddAdvertising(instance: 1, flags: [], data: [], scanResponse: []), on: 0) { answers.put($0) }
    try await kernel.until { kernel.commands.all.count == 1 }
    time.advance(by: .milliseconds(9999))
    #expect(answers.all.isEmpty)
    kernel.isSilent = false
    time.advance(by: .milliseconds(1))
    #expect(answers.all == [.failure(.timedOut)])
    _ = try await answers.first { $0 == .success(1) }
    // The answer to the command that timed out is ignored.
    kernel.tell(.commandComplete(opcode: RemoveAdvertising.opcode, .success, [1]))
    management.call(AddAdvertising(instance: 2, flags: [], data: [], scanResponse: []), on: 0) { answers.put($0) }
    _ = try await answers.first { $0 == .success(2) }
    #expect(answers.all.count == 3)
    management.close()
    kernel.close()
  }

  @Test("At most 64 management commands wait, further ones fail, and closing fails all")
  @LoopActor
  func bounded() async throws {
    let (kernel, answers) = (FakeKernel(), Mailbox<Answer>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    kernel.isSilent = true
    for _ in 0..<65 { management.call(RemoveAdvertising(instance: 1), on: 0) { answers.put($0) } }
    #expect(try await answers.next() == .failure(.tooMany))
    management.close()
    #expect(answers.all.count == 65)
    #expect(answers.all.count { $0 == .failure(.closed) } == 64)
    management.call(RemoveAdvertising(instance: 1), on: 0) { answers.put($0) }
    #expect(try await answers.first { _ in answers.all.count == 66 } == .failure(.closed))
    kernel.close()
  }

  @Test("Management events arrive in order with their controller, and malformed ones are counted")
  @LoopActor
  func events() async throws {
    struct Heard: Hashable, Sendable {
      let event: ManagementEvent
      let index: UInt16
    }
    let (kernel, heard) = (FakeKernel(), Mailbox<Heard>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    let watch = management.onEvent { heard.put(Heard(event: $0, index: $1)) }
    let report = AdvertisingReport(
      address: BluetoothAddress(1), kind: .randomAddress, rssi: -40, flags: 0, data: [3, 3, 1, 0])
    kernel.isSilent = true
    management.call(RemoveAdvertising(instance: 1), on: 0) { _ in }
    kernel.send([1, 2, 3])
    kernel.send([UInt8](repeating: 0, count: 5000))
    kernel.tell(.indexAdded, of: 7)
    kernel.tell(.discovering(.init(types: 6, isOn: true)))
    kernel.tell(.deviceFound(report))
    kernel.tell(.indexRemoved, of: 7)
    _ = try await heard.first { $0.event == .indexRemoved }
    #expect(
      heard.all == [
        Heard(event: .indexAdded, index: 7), Heard(event: .discovering(.init(types: 6, isOn: true)), index: 0),
        Heard(event: .deviceFound(report), index: 0), Heard(event: .indexRemoved, index: 7),
      ])
    #expect(management.malformed == 2)
    watch.cancel()
    management.close()
    kernel.close()
  }

  @Test("A malformed answer to a management command is an error")
  @LoopActor
  func malformedAnswer() async throws {
    let (kernel, answers) = (FakeKernel(), Mailbox<Answer>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    kernel.isSilent = true
    management.call(RemoveAdvertising(instance: 1), on: 0) { answers.put($0) }
    kernel.tell(.commandComplete(opcode: RemoveAdvertising.opcode, .success, [1]), of: 1)
    kernel.tell(.commandComplete(opcode: RemoveAdvertising.opcode, .success, []))
    #expect(try await answers.next() == .failure(.malformed(.truncated(needed: 1, available: 0))))
    management.close()
    kernel.close()
  }

  @Test("A broken management socket fails all waiting commands")
  @LoopActor
  func broken() async throws {
    let (kernel, answers) = (FakeKernel(), Mailbox<Answer>())
    let management = ManagementSocket(kernel.socket, scheduler: VirtualTime())
    kernel.isSilent = true
    management.call(RemoveAdvertising(instance: 1), on: 0) { answers.put($0) }
    try await kernel.until { kernel.commands.all.count == 1 }
    kernel.close()
    #expect(try await answers.next() == .failure(.closed))
    #expect(!management.isOpen)
  }
}
