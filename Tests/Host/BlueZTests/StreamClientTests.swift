import BlueZ
import Bytes
import Common
import Glibc
import HCI
import Loop
import Network
import Radio
import Synchronization
import TestSupport
import Testing

/// A peer that answers connections over BR/EDR: pairs of Unix sockets in place of the kernel's.
private final class FakeClassic: ClassicSockets {
  enum Call: Hashable, Sendable {
    case discovery(BluetoothAddress)
    case stream(BluetoothAddress, channel: UInt8)
  }

  private let state = Mutex<(calls: [Call], ends: [Int32], refusals: [HCIError])>(([], [], []))

  var calls: [Call] { state.withLock { $0.calls } }
  func refuse(_ error: HCIError, _ times: Int) {
    state.withLock { $0.refusals = [HCIError](repeating: error, count: times) }
  }

  /// The peer's end of the connection that was made last; the caller owns it.
  func takeLast() -> Int32? { state.withLock { $0.ends.popLast() } }

  func discovery(of peer: BluetoothAddress, from adapter: BluetoothAddress) throws(HCIError) -> Int32 {
    try pair(SOCK_SEQPACKET.rawValue, .discovery(peer))
  }

  func stream(to peer: BluetoothAddress, channel: UInt8, from adapter: BluetoothAddress) throws(HCIError) -> Int32 {
    try pair(SOCK_STREAM.rawValue, .stream(peer, channel: channel))
  }

  private func pair(_ type: UInt32, _ call: Call) throws(HCIError) -> Int32 {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(type | SOCK_CLOEXEC.rawValue), 0, &ends)
    let refusal = state.withLock { state -> HCIError? in
      state.calls.append(call)
      guard state.refusals.isEmpty else { return state.refusals.removeFirst() }
      state.ends.append(ends[1])
      return nil
    }
    if let refusal {
      for end in ends { close(end) }
      throw refusal
    }
    return ends[0]
  }
}

private let profile = StreamProfile(
  name: "Test profile",
  services: [
    BluetoothUUID(high: 0x0BBF_C6EF_14CC_4AB2, low: 0xAF63_B92E_8872_27AE), BluetoothUUID(short: 0x1102),
  ])

@Suite("Outgoing RFCOMM streams", .serialized)
struct StreamClientTests {
  init() { EventLoop.shared.runInBackground() }

  private static let peer = BluetoothAddress(0x00AA_0200_0007)
  private static let record: [UInt8] = [
    0x35, 0x13, 0x35, 0x11, 0x09, 0x00, 0x04, 0x35, 0x0C, 0x35, 0x03, 0x19, 0x01, 0x00, 0x35, 0x05, 0x19, 0x00, 0x03,
    0x08, 0x05,
  ]

  @LoopActor
  private final class Opened {
    let results = Mailbox<String>()
    let received = Mailbox<[UInt8]>()
    let reasons = Mailbox<String>()
    private(set) var stream: (any RadioStream)?

    func take(_ result: Result<any RadioStream, RadioError>) {
      switch result {
      case .failure(let error): results.put(error.sentence)
      case .success(let stream):
        self.stream = stream
        stream.start { [weak self] event in
          switch event {
          case .received(let bytes): self?.received.put(bytes)
          case .closed(let reason): self?.reasons.put(reason)
          case .writable: break
          }
        }
        results.put("open")
      }
    }
  }

  @LoopActor
  private func rig(_ classic: FakeClassic, safety: ClassicSafety = .safe) async throws -> Rig {
    let rig = try await Rig(classic: classic, safety: safety)
    try await rig.reach(.ready)
    return rig
  }

  /// Reads the next packet of this machine, and answers it.
  private func answer(_ end: Int32, _ part: [UInt8]) async -> [UInt8] {
    await Task.detached {
      var buffer = [UInt8](repeating: 0, count: 512)
      let count = recv(end, &buffer, buffer.count, 0)
      guard count > 5 else { return [] }
      let size = part.count + 3
      let head: [UInt8] = [0x07, buffer[1], buffer[2], 0, UInt8(size), 0, UInt8(part.count)]
      let packet = head + part + [0]
      send(end, packet, packet.count, 0)
      return Array(buffer.prefix(count))
    }.value
  }

  @Test(
    "An outgoing stream uses the RFCOMM channel of the first UUID that the peer serves, and carries bytes both ways")
  @LoopActor
  func opening() async throws {
    let classic = FakeClassic()
    let rig = try await rig(classic)
    defer { rig.close() }
    #expect(rig.driver.status.traits.connectingShortfall == nil)
    let opened = Opened()
    let attempt = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    let discovery = try #require(classic.takeLast())
    let first = await answer(discovery, [0x35, 0])
    let second = await answer(discovery, Self.record)
    #expect(first.count > 24 && first[8...11] == [0x0B, 0xBF, 0xC6, 0xEF] && second[8...11] == [0, 0, 0x11, 0x02])
    #expect(try await opened.results.next() == "open")
    #expect(classic.calls == [.discovery(Self.peer), .stream(Self.peer, channel: 5)])
    let end = SocketStream(owning: try #require(classic.takeLast()))
    let answers = Mailbox<[UInt8]>()
    end.start { if case .received(let bytes) = $0 { answers.put(bytes) } }
    #expect(opened.stream?.send([1, 2]) == 2)
    #expect(try await answers.next() == [1, 2])
    end.send([3])
    #expect(try await opened.received.next() == [3])
    // The connection to the service discovery server is closed after the query.
    var byte: UInt8 = 0
    #expect(recv(discovery, &byte, 1, 0) == 0)
    close(discovery)
    rig.fake.vanish()
    #expect(try await opened.reasons.next() == "The Bluetooth adapter is gone.")
    withExtendedLifetime(attempt) {}
  }

  @Test("A peer without the profile, one with a malformed SDP answer, and one that disconnects give different errors")
  @LoopActor
  func failures() async throws {
    let classic = FakeClassic()
    let rig = try await rig(classic)
    defer { rig.close() }
    let opened = Opened()
    var attempt = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    var end = try #require(classic.takeLast())
    _ = await answer(end, [0x35, 0])
    _ = await answer(end, [0x35, 0])
    #expect(try await opened.results.next() == "The peer does not serve the profile.")
    close(end)

    attempt = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    end = try #require(classic.takeLast())
    _ = await answer(end, [0x35, 9])
    #expect(try await opened.results.next() == "The peer's service discovery server sent a malformed answer.")
    #expect(rig.driver.counters.malformed == 1)
    close(end)

    attempt = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    close(try #require(classic.takeLast()))
    #expect(try await opened.results.next() == "The peer closed the connection.")

    classic.refuse(.noController, 1)
    attempt = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    rig.time.advance(by: .zero)
    #expect(try await opened.results.next().contains("the controller was removed"))
    withExtendedLifetime(attempt) {}
  }

  @Test("A stream attempt ends after 10 s if the peer does not answer, and a dropped attempt closes its connection")
  @LoopActor
  func timeLimit() async throws {
    let classic = FakeClassic()
    let rig = try await rig(classic)
    defer { rig.close() }
    let opened = Opened()
    var attempt: Registration? = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    let end = try #require(classic.takeLast())
    rig.time.advance(by: .seconds(10))
    #expect(try await opened.results.next() == "The peer did not answer in time.")
    close(end)
    attempt = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    let other = try #require(classic.takeLast())
    attempt = nil
    rig.time.advance(by: .seconds(20))
    var bytes = [UInt8](repeating: 0, count: 64)
    // The request may have been sent before.
    while recv(other, &bytes, bytes.count, 0) > 0 {}
    close(other)
    #expect(opened.results.all.count == 1)
    withExtendedLifetime(attempt) {}
  }

  @Test("A stream that the peer refuses for security is requested twice in all", arguments: [1, 2])
  @LoopActor
  func security(refusals: Int) async throws {
    let classic = FakeClassic()
    let rig = try await rig(classic)
    defer { rig.close() }
    let opened = Opened()
    let attempt = try rig.driver.connect(to: Self.peer, on: profile) { opened.take($0) }
    let discovery = try #require(classic.takeLast())
    classic.refuse(.denied("the peer denied it"), refusals)
    _ = await answer(discovery, Self.record)
    while classic.calls.count < 2 { try await rig.settle() }
    rig.time.advance(by: .milliseconds(200))
    let result = try await opened.results.next()
    #expect(refusals == 1 ? result == "open" : result.contains("the peer denied it"))
    #expect(classic.calls.count == 3)
    close(discovery)
    withExtendedLifetime(attempt) {}
  }

  @Test("On a kernel that would crash, no BR/EDR connection is made, and the radio status states the reason")
  @LoopActor
  func faultyKernel() async throws {
    let classic = FakeClassic()
    let rig = try await rig(classic, safety: .known(KernelVersion(6, 1, 192)))
    defer { rig.close() }
    #expect(rig.driver.status.traits.connectingShortfall?.contains("Linux 6.1.192 may crash") == true)
    #expect(throws: RadioError.self) { _ = try rig.driver.connect(to: Self.peer, on: profile) { _ in } }
    #expect(classic.calls.isEmpty)
  }
}
