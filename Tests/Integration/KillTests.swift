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
    var told = 0
    for round in 1...50 {
      let text = random.bytes(2000).map { String($0, radix: 16) }.joined()
      let credential = "{\"round\":\(round),\"text\":\"\(text)\"}"
      // A whole visit takes some 100 ms; a third of the moments is after it.
      let moment = Duration.milliseconds(Int(random.bytes(1)[0]))
      let toldSuccess = try await counter.visit(credential, killAfter: moment)
      let kept = try await counter.restartAndTake()
      let copies = kept.filter { $0 == credential }.count
      #expect(copies <= 1 && kept.count == copies, "round \(round)")
      if toldSuccess { #expect(copies == 1, "round \(round): lost, killed after \(moment)") }
      told += toldSuccess ? 1 : 0
    }
    #expect((5...45).contains(told), "the moments are no longer spread over the visit: \(told) of 50")
  }
}

/// A verifier as a process of its own that can be killed, and a wallet here.
@LoopActor
private final class Counter {
  private let service: ServiceProcess
  private let wallet: WalletService

  init() async throws {
    service = try await ServiceProcess()
    wallet = WalletService(radio: service.radio(), scheduler: EventLoop.shared)
    try await service.start()
  }

  func close() {
    wallet.stop()
    service.close()
  }

  /// - Returns: whether the wallet was told that the credential is received.
  func visit(_ credential: String, killAfter moment: Duration) async throws -> Bool {
    let transfer = try wallet.send(try await service.property("ConnectionUri"), Array(credential.utf8))
    let over = Mailbox<Bool>()
    var toldSuccess = false
    transfer.onChange { if $0.state == .received { toldSuccess = true } }
    let timer = EventLoop.shared.schedule(after: moment) { over.put(true) }
    _ = try await over.next()
    timer.cancel()
    service.end(SIGKILL)
    _ = wallet.disconnect(transfer)
    return toldSuccess
  }

  /// Starts the service again, and takes and accepts every credential that it has.
  func restartAndTake() async throws -> [String] {
    try await service.start()
    let objects = try await service.client.call(
      "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    var found: [String] = []
    for (path, interfaces) in objects.first?.asDictionary ?? [:] {
      guard let path = ObjectPath(path), interfaces[TransferFaces.interfaceName]?["State"] == .string("received") else {
        continue
      }
      let values = try await service.client.call("org.earshot", path, TransferFaces.interfaceName, "GetCredential")
      found.append(values.first?.asString ?? "")
      _ = try await service.client.call("org.earshot", path, TransferFaces.interfaceName, "Accept")
    }
    // Accept is answered before the file is erased; a kill in between would bring the credential back.
    let spool = service.directory.appendingPathComponent("state/spool").path
    try await until { ((try? FileManager.default.contentsOfDirectory(atPath: spool)) ?? []).isEmpty }
    return found
  }
}
