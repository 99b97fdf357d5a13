import Common
import Glibc
import Loop
import Radio
import TestSupport
import Testing

@testable import Air

/// Checks `condition` in each loop iteration, beginning with the next, until it holds or `Patience` ends.
@LoopActor
func eventually(_ condition: @escaping @LoopActor () -> Bool) async -> Bool {
  let end = EventLoop.shared.now.advanced(by: Patience.limit)
  return await withCheckedContinuation { continuation in
    @LoopActor func turn() {
      if condition() {
        continuation.resume(returning: true)
      } else if EventLoop.shared.now > end {
        continuation.resume(returning: false)
      } else {
        EventLoop.shared.soon { turn() }
      }
    }
    EventLoop.shared.soon { turn() }
  }
}

/// A folder that is deleted with the object.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/earshot-air.XXXXXX".utf8CString)
    path = try #require(mkdtemp(&template).map { String(cString: $0) })
  }

  var socket: String { path + "/air" }

  deinit {
    unlink(path + "/air")
    rmdir(path)
  }
}

/// A hub with a verifier and a wallet, each over a connection of its own.
@LoopActor
final class HubPair {
  let folder: TemporaryFolder
  var hub: AirHub
  let peripheral: RemoteAir
  let central: RemoteAir
  let recorder = Recorder()
  let client = Client()
  var server: TestServer
  let advertising: Registration

  init(_ conditions: AirConditions = .init(latency: .zero), _ controller: AirController = .init()) async throws {
    folder = try TemporaryFolder()
    hub = try Self.hub(folder, conditions, controller)
    peripheral = RemoteAir(path: folder.socket, pause: .milliseconds(1))
    central = RemoteAir(path: folder.socket, pause: .milliseconds(1))
    server = peripheral.serve(application, delegate: recorder)
    var advertisement = advertisement()
    advertisement.interval = .milliseconds(20)
    advertising = peripheral.advertise(advertisement)
    try await becomeReady()
  }

  static func hub(
    _ folder: TemporaryFolder, _ conditions: AirConditions, _ controller: AirController = .init()
  ) throws -> AirHub {
    try AirHub(
      path: folder.socket,
      air: AirSpace(scheduler: EventLoop.shared, seed: 1, conditions: conditions, controller: controller),
      log: .init(destination: .capture { _ in }, level: .debug))
  }

  func becomeReady() async throws {
    let (one, two) = (peripheral, central)
    try #require(await eventually { one.status.state == .ready && two.status.state == .ready })
  }

  func connect() async throws {
    let client = client
    try client.connect(central, to: try #require(peripheral.address))
    try #require(await eventually { client.isConnected })
    client.link?.exchangeMTU(517)
    try #require(await eventually { client.mtu == 517 })
  }

  var link: any Link { get throws { try #require(client.link) } }
}
