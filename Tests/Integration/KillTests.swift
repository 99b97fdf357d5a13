import Air
import Common
import Crypto
import DBus
import Foundation
import Loop
import TestSupport
import Testing
import Transfers
import Verifier
import Wallet

@Suite("The service is killed")
struct KillTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("At 50 random moments of a transfer: what the wallet was told is received is there after the restart, once")
  @LoopActor
  func atRandomMoments() async throws {
    var random = SeededRandom(seed: 50)
    let counter = try await Counter()
    defer { counter.close() }
    for round in 1...50 {
      let credential = "{\"round\":\(round),\"text\":\"\(Hex20.text(&random))\"}"
      // A whole visit takes some 100 ms; a third of the moments is after it.
      let moment = Duration.milliseconds(Int(random.bytes(1)[0]))
      let toldSuccess = try await counter.visit(credential, killAfter: moment)
      let kept = try await counter.restartAndTake()
      let copies = kept.filter { $0 == credential }.count
      #expect(copies <= 1 && kept.count == copies, "round \(round)")
      if toldSuccess { #expect(copies == 1, "round \(round): lost, killed after \(moment)") }
    }
  }
}

private enum Hex20 {
  static func text(_ random: inout SeededRandom) -> String {
    random.bytes(2000).map { String($0, radix: 16) }.joined()
  }
}

/// A verifier as a process of its own that can be killed, and a wallet here.
@LoopActor
private final class Counter {
  private let directory: URL
  private let bus: PrivateBus
  private let client: BusConnection
  private let hub: AirHub
  private let wallet: WalletService
  private var service: Program?

  struct Trouble: Error {
    let what: String
  }

  init() async throws {
    directory = FileManager.default.temporaryDirectory.appendingPathComponent("kill-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    bus = try PrivateBus()
    client = BusConnection(address: .address(bus.address))
    client.connect()
    try await client.ready()
    let air = AirSpace(scheduler: EventLoop.shared, seed: 1, conditions: AirConditions(latency: .zero))
    hub = try AirHub(path: directory.appendingPathComponent("air").path, air: air)
    wallet = WalletService(
      radio: RemoteAir(path: directory.appendingPathComponent("air").path), scheduler: EventLoop.shared)
    let configuration = """
      [Radio]
      Backend=air
      AirSocket=\(directory.path)/air
      [Verifier]
      Enabled=yes
      ReportDelay=0
      [Store]
      Directory=\(directory.path)/state
      """
    try configuration.write(to: directory.appendingPathComponent("conf"), atomically: true, encoding: .utf8)
    try await start()
  }

  func close() {
    service?.end()
    wallet.stop()
    hub.close()
    client.close()
    bus.stop()
    try? FileManager.default.removeItem(at: directory)
  }

  /// - Returns: whether the wallet was told that the credential is received.
  func visit(_ credential: String, killAfter moment: Duration) async throws -> Bool {
    let uri =
      try await client.call(
        "org.earshot", VerifierFace.path, "org.freedesktop.DBus.Properties", "Get",
        [.string(VerifierFace.interfaceName), .string("ConnectionUri")]
      ).first?.asString ?? ""
    let transfer = try wallet.send(uri, Array(credential.utf8))
    let over = Mailbox<Bool>()
    var toldSuccess = false
    transfer.onChange { if $0.state == .received { toldSuccess = true } }
    let timer = EventLoop.shared.schedule(after: moment) { over.put(true) }
    _ = try await over.next()
    timer.cancel()
    service?.end(SIGKILL)
    service = nil
    _ = wallet.disconnect(transfer)
    return toldSuccess
  }

  /// Starts the service again, and takes and accepts every credential that it has.
  func restartAndTake() async throws -> [String] {
    try await start()
    let objects = try await client.call(
      "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    var found: [String] = []
    for (path, interfaces) in objects.first?.asDictionary ?? [:] {
      guard let path = ObjectPath(path), interfaces[TransferFaces.interfaceName]?["State"] == .string("received") else {
        continue
      }
      let values = try await client.call("org.earshot", path, TransferFaces.interfaceName, "GetCredential")
      found.append(values.first?.asString ?? "")
      _ = try await client.call("org.earshot", path, TransferFaces.interfaceName, "Accept")
    }
    try await awaitEmptySpool()
    return found
  }

  /// Accept is answered before the file is erased; a kill in between would bring the credential back.
  private func awaitEmptySpool() async throws {
    let empty = Mailbox<Bool>()
    let spool = directory.appendingPathComponent("state/spool")
    func look() {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: spool.path)) ?? []
      if names.isEmpty { return empty.put(true) }
      timer = EventLoop.shared.schedule(after: .milliseconds(2)) { look() }
    }
    var timer: Registration?
    look()
    _ = try await empty.next()
    timer?.cancel()
  }

  private func start() async throws {
    let owned = Mailbox<Bool>()
    let watch = client.watchName("org.earshot") { if $0 != nil { owned.put(true) } }
    defer { watch.cancel() }
    service = try Program([
      Self.program, "--bus", bus.address, "--config", directory.appendingPathComponent("conf").path,
    ])
    _ = try await owned.next()
  }

  /// The service as it was built beside the tests.
  private static var program: String {
    let bundle = Swift.CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? ""
    let beside = URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("earshotd")
    if FileManager.default.isExecutableFile(atPath: beside.path) { return beside.path }
    return URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent(".build/debug/earshotd").path
  }
}
