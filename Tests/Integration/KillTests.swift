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

  @Test(
    "At 50 random moments of a transfer: what the wallet was told is received is there after the restart, once",
    arguments: ["client", "accept"])
  @LoopActor
  func atRandomMoments(decision: String) async throws {
    var random = SeededRandom(seed: 50)
    let counter = try await Counter(decision)
    defer { counter.close() }
    var told = 0
    for round in 1...50 {
      let credential = Self.credential(round, &random)
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

  @Test(
    "Around a verdict: it was answered, and the credential does not come back; or it was not, and it may",
    arguments: ["Accept", "Reject"])
  @LoopActor
  func aroundVerdict(verdict: String) async throws {
    var random = SeededRandom(seed: 20)
    let counter = try await Counter("client")
    defer { counter.close() }
    var answered = 0
    for round in 1...20 {
      let credential = Self.credential(round, &random)
      try await counter.deliver(credential)
      // An odd round is killed as soon as the answer is here, an even one at any moment.
      let moment = round.isMultiple(of: 2) ? Duration.microseconds(Int(random.bytes(1)[0]) * 20) : nil
      let wasAnswered = try await counter.judge(verdict, takes: true, killAfter: moment)
      let kept = try await counter.restartAndTake()
      #expect(kept.isEmpty || kept == [credential] && !wasAnswered, "round \(round): back after \(verdict)")
      answered += wasAnswered ? 1 : 0
    }
    #expect(answered >= 10)
  }

  @Test("After Accept, one that nobody has taken comes back as accepted, and can be taken")
  @LoopActor
  func acceptedUntaken() async throws {
    var random = SeededRandom(seed: 30)
    let counter = try await Counter("client")
    defer { counter.close() }
    let credential = Self.credential(1, &random)
    try await counter.deliver(credential)
    #expect(try await counter.judge("Accept", takes: false, killAfter: nil))
    try await counter.start()
    #expect(try await counter.transfers().map(\.state) == ["accepted"])
    #expect(try await counter.take() == [credential])
  }

  private static func credential(_ round: Int, _ random: inout SeededRandom) -> String {
    let text = random.bytes(2000).map { String($0, radix: 16) }.joined()
    return "{\"round\":\(round),\"text\":\"\(text)\"}"
  }
}

/// A verifier as a process of its own that can be killed, and a wallet here.
@LoopActor
private final class Counter {
  private let service: ServiceProcess
  private let wallet: WalletService

  init(_ decision: String) async throws {
    service = try await ServiceProcess("Decision=\(decision)")
    wallet = WalletService(radio: service.radio(), scheduler: EventLoop.shared)
    try await service.start()
  }

  func start() async throws { try await service.start() }

  func close() {
    wallet.stop()
    service.close()
  }

  /// - Returns: whether the wallet was told that the credential is received.
  func visit(_ credential: String, killAfter moment: Duration) async throws -> Bool {
    let transfer = try wallet.send(try await service.property("ConnectionUri"), Array(credential.utf8))
    let over = Mailbox<Bool>()
    var toldSuccess = false
    transfer.onChange { if $0.state == .received || $0.state == .accepted { toldSuccess = true } }
    let timer = EventLoop.shared.schedule(after: moment) { over.put(true) }
    _ = try await over.next()
    timer.cancel()
    service.end(SIGKILL)
    _ = wallet.disconnect(transfer)
    return toldSuccess
  }

  /// A visit up to the moment when the verifier has the credential.
  func deliver(_ credential: String) async throws {
    let received = Mailbox<Bool>()
    let transfer = try wallet.send(try await service.property("ConnectionUri"), Array(credential.utf8))
    transfer.onChange { if $0.state == .received { received.put(true) } }
    _ = try await received.next()
  }

  /// Judges the one credential that there is, and kills the service.
  ///
  /// - Parameter moment: so long after the call; nil for as soon as it is answered.
  /// - Returns: whether it was answered.
  func judge(_ verdict: String, takes: Bool, killAfter moment: Duration?) async throws -> Bool {
    let waiting = try await transfers().first { $0.state == "received" }
    let path = try #require(waiting?.path)
    if takes { _ = try await take() }
    let over = Mailbox<Bool>()
    service.client.call("org.earshot", path, TransferFaces.interfaceName, verdict) { result in
      if case .success = result { over.put(true) }
    }
    let timer = moment.map { EventLoop.shared.schedule(after: $0) { over.put(false) } }
    let isAnswered = try await over.next()
    timer?.cancel()
    service.end(SIGKILL)
    return isAnswered
  }

  /// Starts the service again, and takes and accepts every credential that it has.
  func restartAndTake() async throws -> [String] {
    try await service.start()
    let found = try await take()
    for transfer in try await transfers() where transfer.state == "received" {
      _ = try await service.client.call("org.earshot", transfer.path, TransferFaces.interfaceName, "Accept")
    }
    // Where the service has accepted it, its file goes after it was taken.
    let spool = service.directory.appendingPathComponent("state/spool").path
    try await until { ((try? FileManager.default.contentsOfDirectory(atPath: spool)) ?? []).isEmpty }
    return found
  }

  /// Fetches every credential there is.
  func take() async throws -> [String] {
    var found: [String] = []
    for transfer in try await transfers() where ["received", "accepted"].contains(transfer.state) {
      // One that was taken before, and is accepted, is no longer there.
      let values = try? await service.client.call(
        "org.earshot", transfer.path, TransferFaces.interfaceName, "GetCredential")
      if let text = values?.first?.asString { found.append(text) }
    }
    return found
  }

  func transfers() async throws -> [(path: ObjectPath, state: String)] {
    let objects = try await service.client.call(
      "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    return (objects.first?.asDictionary ?? [:]).compactMap { path, interfaces in
      guard let path = ObjectPath(path), path.isWithin(VerifierFace.path),
        let state = interfaces[TransferFaces.interfaceName]?["State"]?.asString
      else { return nil }
      return (path, state)
    }
  }
}
