import Bytes
import Common
import Glibc
import Journal
import Loop
import Radio
import TestSupport
import Testing

@testable import Air

@Suite(.serialized, .timeLimit(.minutes(10))) struct HubTests {
  @Test("Two programs scan, connect and exchange values over the simulated radio hub")
  func conversation() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      let scanResults = Box<[ScanResult]>([])
      let scan = pair.central.scan(for: [service]) { scanResults.value.append($0) }
      try #require(await eventually { !scanResults.value.isEmpty })
      let address = try #require(pair.peripheral.address)
      #expect(
        scanResults.value == [ScanResult(address: address, serviceUUIDs: [service], serviceData: [], localName: "x")])
      try await pair.connect()
      let (client, recorder) = (pair.client, pair.recorder)
      let link = try pair.link
      link.discover()
      link.subscribe(to: report)
      link.write([1], to: submit, as: .command)
      link.write([2], to: submit, as: .request)
      link.write([UInt8](repeating: 0, count: 5000), to: submit, as: .request)
      try #require(await eventually { client.writtenCount == 3 })
      let server = try #require(recorder.link)
      let central = try #require(pair.central.address)
      #expect(
        client.events == [
          .connected, .mtuChanged(517), .discovered(application.services), .subscribed(report),
          .written(submit, error: nil), .written(submit, error: nil), .written(submit, error: .invalidLength),
        ])
      #expect(
        recorder.calls == [
          .opened(server, central), .changed(server, 517), .written(server, submit, [1]),
          .written(server, submit, [2]),
        ])
      pair.recorder.refusal = .busy
      link.write([3], to: submit, as: .request)
      pair.server.notify([9], of: report, to: server)
      try #require(await eventually { client.written.last == .some(.busy) && client.notified == [[9]] })
      pair.server.disconnect(server)
      try #require(await eventually { client.isOver && recorder.closed == 1 })
      #expect(link.id != server)
      withExtendedLifetime(scan) {}
    }
  }

  @Test("Over the simulated radio hub a cancelled scan, advertisement, application or link has no further effect")
  func takingDown() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      try await pair.connect()
      let (client, recorder) = (pair.client, pair.recorder)
      pair.server.close()
      client.link?.write([1], to: submit, as: .request)
      try #require(await eventually { client.written == [.unlikely] })
      #expect(recorder.values.isEmpty)
      client.link?.disconnect()
      try #require(await eventually { client.isOver })
      pair.advertising.cancel()
      let late = Box<[ScanResult]>([])
      let scan = pair.central.scan(for: []) { late.value.append($0) }
      let other = pair.peripheral.advertise(advertisement("other"))
      try #require(await eventually { late.value.count == 1 })
      #expect(late.value.first?.localName == "other")
      scan.cancel()
      withExtendedLifetime(other) {}
    }
  }

  @Test("The simulated radio hub has a socket of mode 600, which it removes at its end and no second hub can use")
  func socketFile() async throws {
    try await onLoopAsync {
      let folder = try TemporaryFolder()
      let hub = try HubPair.hub(folder, .init())
      var status = stat()
      #expect(lstat(folder.socket, &status) == 0 && status.st_mode & 0o777 == 0o600)
      #expect(throws: AirHubError.alreadyRunning(path: folder.socket)) { try HubPair.hub(folder, .init()) }
      hub.close()
      #expect(lstat(folder.socket, &status) != 0)
      // A hub that crashed leaves its socket file behind.
      let dead = try UnixSocket.listen(at: folder.socket)
      Glibc.close(dead)
      #expect(lstat(folder.socket, &status) == 0)
      let heir = try HubPair.hub(folder, .init())
      hub.close()
      #expect(lstat(folder.socket, &status) == 0)
      heir.close()
      #expect(throws: AirHubError.self) { try AirHub(path: "", air: heir.air) }
      #expect(throws: AirHubError.self) { try AirHub(path: String(repeating: "x", count: 108), air: heir.air) }
      #expect(throws: AirHubError.notASocket(path: "/tmp")) { try AirHub(path: "/tmp", air: heir.air) }
      #expect(throws: AirHubError.self) { try AirHub(path: folder.path + "/no/air", air: heir.air) }
    }
  }

  @Test("Without a simulated radio hub the radio is waiting with advice, and restores registrations when it starts")
  func restart() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      try await pair.connect()
      let (client, recorder, central, peripheral) = (pair.client, pair.recorder, pair.central, pair.peripheral)
      let scanResults = Box<[ScanResult]>([])
      let scan = central.scan(for: [service]) { scanResults.value.append($0) }
      try #require(await eventually { scanResults.value.count == 1 })
      let states = Box<[RadioStatus.State]>([])
      let registration = central.onStatus { states.value.append($0.state) }
      pair.hub.close()
      try #require(await eventually { client.isOver && recorder.closed == 1 && peripheral.status.state == .waiting })
      #expect(
        central.status
          == RadioStatus(
            .waiting, reason: "The simulated radio at \(pair.folder.socket) is not available; start earshot-air."))
      let address = try #require(peripheral.address)
      #expect(throws: RadioError.notReady(central.status.reason)) { try central.connect(to: address) { _ in } }
      let (events, calls) = (client.events.count, recorder.calls.count)
      client.link?.write([1], to: submit, as: .command)
      pair.hub = try HubPair.hub(pair.folder, .init(latency: .zero))
      try await pair.becomeReady()
      try #require(await eventually { scanResults.value.count == 2 })
      #expect(client.events.count == events && recorder.calls.count == calls)
      let again = Client()
      try again.connect(central, to: try #require(peripheral.address))
      again.link?.write([5], to: submit, as: .request)
      try #require(await eventually { again.written == [nil] })
      #expect(recorder.values == [[5]] && states.value == [.waiting, .ready])
      #expect(again.link?.id != client.link?.id)
      withExtendedLifetime((scan, registration)) {}
    }
  }

  @Test("A program that disconnects from the simulated radio hub ends the links of its node")
  func leaving() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      try await pair.connect()
      let (client, recorder) = (pair.client, pair.recorder)
      pair.central.close()
      try #require(await eventually { client.isOver && recorder.closed == 1 })
      let hub = pair.hub
      #expect(await eventually { hub.nodeCount == 1 && hub.air.links.isEmpty })
    }
  }

  @Test("A Bluetooth address requested from the simulated radio hub is refused while another program uses it")
  func addresses() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      let address = BluetoothAddress(0x1122_3344_5566)
      let first = RemoteAir(path: pair.folder.socket, address: address)
      #expect(await eventually { first.status.state == .ready && first.address == address })
      let second = RemoteAir(
        path: pair.folder.socket, address: address, log: .init(destination: .capture { _ in }, level: .error))
      #expect(await eventually { second.status.reason.contains("11:22:33:44:55:66") })
      #expect(second.status.state == .waiting)
    }
  }

  @Test(
    "A program that sends the simulated radio hub an invalid frame is disconnected and logged, and no other is",
    arguments: [
      [0, 0, 0, 0], [1, 0, 1, 0, 1], [255, 255, 255, 255], [1, 0, 0, 0, 99], [5, 0, 0, 0, 8, 1, 0, 0, 0],
      [3, 0, 0, 0, 1, 2, 2], [4, 0, 0, 0, 1, 2, 0, 0], [3, 0, 0, 0, 1, 2, 0, 3, 0, 0, 0, 1, 2, 0],
      [3, 0, 0, 0, 1, 9, 0],
    ] as [[UInt8]])
  func malformed(bytes: [UInt8]) async throws {
    try await onLoopAsync {
      let lines = Box<[String]>([])
      let folder = try TemporaryFolder()
      let hub = try AirHub(
        path: folder.socket, air: AirSpace(scheduler: EventLoop.shared, seed: 1),
        log: Log(
          destination: .capture { record in LoopActor.assumeIsolated { lines.value.append(record.text) } },
          level: .warning))
      let innocent = RemoteAir(path: folder.socket)
      try #require(await eventually { innocent.status.state == .ready })
      let descriptor = try #require(UnixSocket.connect(to: folder.socket))
      #expect(send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
      try #require(await eventually { lines.value.count == 1 })
      #expect(lines.value.first?.contains("disconnected") == true)
      var rest = [UInt8](repeating: 0, count: 1000)
      #expect(
        await eventually {
          let count = recv(descriptor, &rest, rest.count, Int32(MSG_DONTWAIT))
          return count == 0 || (count < 0 && errno == ECONNRESET)
        })
      Glibc.close(descriptor)
      #expect(hub.nodeCount == 1 && innocent.status.state == .ready)
      hub.close()
    }
  }

  @Test("The simulated radio hub continues after 1,000 connections that send invalid data")
  func nonsense() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      var generator = SplitMix64(seed: 3)
      let hello: [UInt8] = [3, 0, 0, 0, 1, AirWire.version, 0]
      for _ in 0..<1000 {
        let descriptor = try #require(UnixSocket.connect(to: pair.folder.socket))
        var bytes = hello
        for _ in 0..<20 {
          var frame = WireTests.nodeFrames[Int.random(in: 1..<WireTests.nodeFrames.count, using: &generator)].1
          if Int.random(in: 0..<10, using: &generator) == 0 {
            frame[Int.random(in: 0..<frame.count, using: &generator)] = .random(in: 0...255, using: &generator)
          }
          bytes += [UInt8(frame.count), 0, 0, 0] + frame
        }
        _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        Glibc.close(descriptor)
        let hub = pair.hub
        try #require(await eventually { hub.nodeCount < 20 })
      }
      let hub = pair.hub
      #expect(await eventually { hub.nodeCount == 2 })
      try await pair.connect()
    }
  }

  @Test("Sending 1 MiB over the simulated radio hub in values of 509 bytes needs at most 8 loop iterations per value")
  func mebibyte() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      try await pair.connect()
      let (client, recorder, link) = (pair.client, pair.recorder, try pair.link)
      let value = [UInt8](repeating: 7, count: 509)
      let left = Box(2060)
      client.onEvent = { event in
        guard case .written = event, left.value > 0 else { return }
        left.value -= 1
        link.write(value, to: submit, as: .command)
      }
      link.write(value, to: submit, as: .command)
      let turns = Box(0)
      try #require(
        await eventually {
          turns.value += 1
          return recorder.received == 2061
        })
      #expect(turns.value <= 8 * 2061, "\(turns.value) turns")
    }
  }

  @Test("20,000 values that are sent over the simulated radio hub without a pause arrive completely and in order")
  func flood() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      try await pair.connect()
      let (recorder, link) = (pair.recorder, try pair.link)
      for number in 0..<20_000 {
        link.write(value(number % 65536) + [UInt8](repeating: 0, count: 500), to: submit, as: .command)
      }
      try #require(await eventually { recorder.received == 20_000 })
      #expect(numbers(recorder.values) == Array(0..<20_000))
    }
  }

  @Test("A value sent over the simulated radio hub is not delivered before the configured latency has passed")
  func paced() async throws {
    try await onLoopAsync {
      let pair = try await HubPair(AirConditions(latency: .milliseconds(5), commandWindow: 1))
      try await pair.connect()
      let (recorder, client, link) = (pair.recorder, pair.client, try pair.link)
      let earliest = EventLoop.shared.now.advanced(by: .milliseconds(100))
      for number in 0..<20 { link.write(value(number), to: submit, as: .command) }
      try #require(await eventually { client.writtenCount == 20 && recorder.received == 20 })
      #expect(EventLoop.shared.now >= earliest)
    }
  }

  @Test("A program that stops reading from the simulated radio hub does not delay the values of others")
  func slowReader() async throws {
    try await onLoopAsync {
      let pair = try await HubPair()
      let descriptor = try #require(UnixSocket.connect(to: pair.folder.socket))
      func post(_ frame: NodeFrame) {
        let bytes = AirWire.frame(frame.write(to:)) ?? []
        #expect(send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
      }
      let deaf = BluetoothAddress(0x4242)
      post(.hello(version: AirWire.version, address: deaf))
      post(.serve(application: 1, application))
      post(
        .advertise(slot: 0, .init(data: [], scanResponse: [], interval: .milliseconds(20), isConnectable: true)))
      let sender = RemoteAir(path: pair.folder.socket)
      let client = Client()
      try #require(await eventually { sender.status.state == .ready })
      try client.connect(sender, to: deaf)
      try #require(await eventually { client.isConnected })
      client.link?.exchangeMTU(517)
      for _ in 0..<10_000 { client.link?.write([UInt8](repeating: 1, count: 509), to: submit, as: .command) }
      try await pair.connect()
      pair.client.link?.write([1], to: submit, as: .request)
      let other = pair.client
      #expect(await eventually { other.written == [nil] })
      #expect(client.writtenCount < 10_000)
      // After the client resumes reading, all data arrive.
      let total = Box(0)
      var buffer = [UInt8](repeating: 0, count: 1 << 16)
      #expect(
        await eventually {
          total.value += max(0, recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT)))
          return client.writtenCount == 10_000 && total.value > 10_000 * 509
        })
      Glibc.close(descriptor)
    }
  }

  @LoopActor
  private final class Box<Value> {
    var value: Value

    init(_ value: Value) {
      self.value = value
    }
  }
}

extension AirHub {
  /// Number of connected nodes.
  fileprivate var nodeCount: Int { storedProperty("nodes", of: self, as: [Any].self)?.count ?? -1 }
}
