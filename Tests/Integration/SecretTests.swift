import Common
import Crypto
import DBus
import Foundation
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali
import Verifier
import Wallet

/// All output of the complete service: its log at debug level, every message that it sends on the bus, and its entry
/// in `ps`.
@Suite("Secrecy of keys and credentials")
struct SecretTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("No key or credential of a transfer appears in the log, on the bus or in ps output")
  @LoopActor
  func nothingShows() async throws {
    let watched = try await Watched()
    defer { watched.close() }
    try await watched.receive("accepted", verdict: "Accept")
    try await watched.receive("rejected", verdict: "Reject")
    try await watched.send()
    try await watched.fail()
    let secrets = watched.secrets
    #expect(secrets.count > 30 && secrets.allSatisfy { $0.count >= 12 })
    for (place, text) in watched.emitted {
      #expect(SecretSearch.shown(secrets, in: text).isEmpty, "in \(place)")
      // The capture is not empty, so a secret in it would have been found.
      #expect(text.count > 100, "nothing of \(place) was captured")
    }
    let signals = String(decoding: watched.emitted["signals"] ?? [], as: UTF8.self)
    #expect(signals.contains("CredentialReceived") && signals.contains("accepted") && signals.contains("rejected"))
    let log = String(decoding: watched.emitted["log"] ?? [], as: UTF8.self)
    #expect(log.contains(" debug ") && log.contains("Credential accepted") && log.contains("A transfer failed"))
  }

  @Test("No checked credential and no claim appears in the log, in signals or in ps output")
  @LoopActor
  func checked() async throws {
    let watched = try await Watched(isChecked: true)
    defer { watched.close() }
    try await watched.receive("accepted", verdict: "Accept")
    try await watched.receive("rejected", verdict: "Reject")
    let claims = watched.claims
    #expect(claims.count == 2 && claims.allSatisfy { $0.count > 100 })
    for (place, text) in watched.emitted {
      #expect(SecretSearch.shown(watched.secrets + claims, in: text).isEmpty, "in \(place)")
    }
    let log = String(decoding: watched.emitted["log"] ?? [], as: UTF8.self)
    #expect(log.contains("The credential is valid"))
    let signals = String(decoding: watched.emitted["signals"] ?? [], as: UTF8.self)
    #expect(signals.contains("VerdictReceived"))
  }

  @Test("No private or derived key of the daemon is sent over the bus")
  @LoopActor
  func ownKeys() async throws {
    let (verifierKeys, walletKeys) = (RecordingRandom(seed: 21), RecordingRandom(seed: 22))
    let kiosk = try await Kiosk(decision: .accept, verifierRandom: verifierKeys, walletRandom: walletKeys)
    defer { kiosk.close() }
    let capture = try await BusCapture(kiosk.bus, sender: Kiosk.name)
    defer { capture.close() }
    var publicKeys: [X25519.PublicKey] = []
    for number in 1...3 {
      let uri = number == 1 ? try await kiosk.start() : kiosk.verifier.connectionURI
      publicKeys.append(try Invitation(reading: uri).key)
      let outgoing = try await kiosk.send(uri, String(repeating: "{\(number)}", count: 900))
      try await kiosk.await(outgoing, "State", .string("accepted"))
      try await kiosk.await(outgoing, "Live", .bool(false))
      for object in ["/org/earshot", VerifierAdaptor.path, WalletAdaptor.path] as [ObjectPath] {
        _ = try? await kiosk.call(object, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
      }
    }
    let secrets =
      verifierKeys.drawn(32) + walletKeys.drawn(32)
      + SecretSearch.derived(own: walletKeys.drawn(32), peers: publicKeys)
    #expect(secrets.count > 9)
    let said = capture.bytes
    #expect(SecretSearch.shown(secrets, in: said).isEmpty)
    // The public keys are found, which shows that the search works.
    #expect(!SecretSearch.shown(publicKeys.dropFirst().map(\.bytes), in: said).isEmpty)
  }

  @Test("The leak search detects a secret in captured bytes in each of its encodings", arguments: 0..<8)
  func spellings(form: Int) {
    let secret = (0..<32).map { UInt8(0xA0) ^ ($0 &* 7) }
    let spelled: [UInt8] =
      switch form {
      case 0: secret
      case 1: Array(secret.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined().utf8)
      case 2: Array(secret.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined().uppercased().utf8)
      case 3: Array("\(secret)".utf8)
      case 4...6: Array(Data([UInt8](repeating: 9, count: form - 4) + secret + [1]).base64EncodedString().utf8)
      default: Array(secret.suffix(12))
      }
    let text = Array("It is ".utf8) + spelled + Array("!".utf8)
    #expect(SecretSearch.shown([secret], in: text) == [0])
    #expect(SecretSearch.shown([secret.map { $0 ^ 1 }], in: text).isEmpty)
  }
}

/// A service at debug level whose output is captured, and a wallet and a verifier in this process whose keys are
/// known.
@LoopActor
private final class Watched {
  private let service: ServiceProcess
  private let capture: BusCapture
  private let walletKeys = RecordingRandom(seed: 11)
  private let verifierKeys = RecordingRandom(seed: 12)
  private let wallet: WalletService
  private let verifier: VerifierService
  private var credentials: [[UInt8]] = []
  /// Public keys that were sent by radio: those of the service's verifier, and those of all wallets.
  private var verifierKeysOnAir: [X25519.PublicKey] = []
  private let walletKeysOnAir = Locked<[X25519.PublicKey]>([])
  private var ps: [UInt8] = []
  private let checker: StandInCheckerSocket?

  /// - Parameter isChecked: whether the service has each credential checked.
  init(isChecked: Bool = false) async throws {
    service = try await ServiceProcess("[Log]\nLevel=debug")
    checker = isChecked ? try service.check(adding: "[Log]\nLevel=debug") : nil
    capture = try await BusCapture(service.bus, sender: "org.earshot")
    let keys = walletKeys
    wallet = WalletService(radio: service.radio(), scheduler: EventLoop.shared, random: { keys })
    verifier = VerifierService(
      radio: service.radio(), scheduler: EventLoop.shared,
      settings: .init(engine: .init(name: "other"), decision: .accept), random: verifierKeys)
    let onAir = walletKeysOnAir
    service.air.conditions.filter = { packet in
      if let identify = try? Identify(reading: packet.value) { onAir.withLock { $0.append(identify.walletKey) } }
      return .deliver
    }
    try await service.start()
  }

  func close() {
    wallet.stop()
    verifier.stop()
    capture.close()
    service.close()
    checker?.close()
  }

  private func credential(_ word: String) -> [UInt8] {
    let text = Array("{\"\(word)\":\"".utf8) + sampleCredential(3000, seed: UInt64(credentials.count) + 1)
    credentials.append(text.filter { $0 != UInt8(ascii: "\\") })
    return credentials.last ?? []
  }

  /// The service's verifier receives a credential from this process's wallet.
  func receive(_ word: String, verdict: String) async throws {
    let came = Mailbox<ObjectPath>()
    let watch = service.client.subscribe(SignalMatch(sender: "org.earshot", member: "CredentialReceived")) {
      if let path = $0.arguments.first?.asObjectPath { came.put(path) }
    }
    defer { watch.cancel() }
    let uri = try await service.invitation()
    verifierKeysOnAir.append(try Invitation(reading: uri).key)
    let transfer = try wallet.send(uri, credential(word))
    let path = try await came.next()
    if checker != nil { try await service.verdict(on: path) }
    look()
    _ = try await service.client.call("org.earshot", path, CredentialObjects.interfaceName, verdict)
    try await ended(transfer)
    #expect(transfer.state == (verdict == "Accept" ? .accepted : .rejected))
  }

  /// The service's wallet sends a credential to this process's verifier.
  func send() async throws {
    let ended = Mailbox<Bool>()
    let text = String(decoding: credential("sent"), as: UTF8.self)
    let watch = service.client.subscribe(SignalMatch(sender: "org.earshot", member: "PropertiesChanged")) {
      if $0.path?.isWithin(WalletAdaptor.path) == true, $0.arguments[1]["State"] == .string("accepted") {
        ended.put(true)
      }
    }
    defer { watch.cancel() }
    _ = try await service.client.call(
      "org.earshot", WalletAdaptor.path, WalletAdaptor.interfaceName, "Send",
      [.string(verifier.start()), .string(text)])
    _ = try await ended.next()
    look()
  }

  /// Runs a transfer that fails: the wallet is cancelled after the key agreement.
  func fail() async throws {
    let uri = try await service.invitation()
    verifierKeysOnAir.append(try Invitation(reading: uri).key)
    let transfer = try wallet.send(uri, credential("failed"))
    transfer.onChange { [wallet] in if $0.state == .transferring { _ = wallet.disconnect($0) } }
    try await ended(transfer)
    #expect(transfer.state == .failed)
    try await until { [service] in
      String(decoding: service.log, as: UTF8.self).contains("A transfer failed")
    }
  }

  private func ended(_ transfer: Transfer) async throws {
    let over = Mailbox<Bool>()
    transfer.onChange { if !$0.isLive { over.put(true) } }
    if !transfer.isLive { over.put(true) }
    _ = try await over.next()
  }

  /// Records the process's entries in `ps -ef`, `ps e` and `top`.
  private func look() {
    guard let processID = service.processID else { return }
    for name in ["cmdline", "environ", "comm", "status"] {
      let file = FileManager.default.contents(atPath: "/proc/\(processID)/\(name)")
      ps += file.map(Array.init) ?? []
    }
  }

  /// All secrets: values drawn in this process, values that both sides derived from them, the key of the spool, and
  /// the texts.
  var secrets: [[UInt8]] {
    let (wallets, verifiers) = (walletKeys.drawn(32), verifierKeys.drawn(32))
    let spoolKey = Array(service.bytes(of: "state/spool.key").suffix(32))
    return wallets + verifiers + credentials + [spoolKey]
      + SecretSearch.derived(own: wallets, peers: verifierKeysOnAir)
      + SecretSearch.derived(own: verifiers, peers: walletKeysOnAir.withLock { $0 })
  }

  /// The claims of all verdicts.
  var claims: [[UInt8]] { checker?.claims ?? [] }

  /// The captured output, by its destination.
  var emitted: [String: [UInt8]] {
    ["log": service.log, "signals": capture.bytes, "ps": ps]
  }
}
