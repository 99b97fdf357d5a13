import Compression
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

/// Secrets that a debugger could find in the memory of the running service.
@Suite("Remains of credentials in memory", .enabled(if: !Sanitizer.isOn, "it has its own allocator"))
struct MemorySearchTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "A credential that is waiting or judged leaves no text, gzip data or key in process memory",
    arguments: [700, 60_000, 400_000])
  @LoopActor
  func judged(size: Int) async throws {
    let searched = try await Searched()
    defer { searched.close() }
    for verdict in ["Accept", "Reject"] {
      for way in ["GetCredential", "OpenCredential", nil] {
        let visit = "\(size) bytes, \(way ?? "not fetched"), \(verdict)"
        let path = try await searched.receive(size)
        var found = try await searched.remains()
        #expect(found == [:], "\(visit): while it waits")
        if let way { #expect(try await searched.fetch(path, way), "\(visit)") }
        found = try await searched.remains()
        #expect(found == [:], "\(visit): before the verdict")
        try await searched.judge(path, verdict)
        if way == nil, verdict == "Accept" { #expect(try await searched.fetch(path, "GetCredential"), "\(visit)") }
        found = try await searched.remains()
        #expect(found == [:], "\(visit): after the verdict")
      }
    }
  }

  @Test("A checked and judged credential leaves no text and no claim in process memory", arguments: [700, 400_000])
  @LoopActor
  func checked(size: Int) async throws {
    let searched = try await Searched(isChecked: true)
    defer { searched.close() }
    for (verdict, isFetched) in [("Accept", true), ("Reject", false)] {
      let path = try await searched.receive(size)
      try await searched.verdict(on: path)
      var found = try await searched.remains()
      #expect(found == [:], "\(verdict): while it waits")
      if isFetched {
        #expect(try await searched.fetchClaims(path))
        #expect(try await searched.fetch(path, "OpenCredential"))
      }
      try await searched.judge(path, verdict)
      found = try await searched.remains()
      #expect(found == [:], "\(verdict): after the verdict")
    }
  }

  @Test("A transfer that lost its link leaves no key and no credential data in process memory")
  @LoopActor
  func lost() async throws {
    let searched = try await Searched()
    defer { searched.close() }
    try await searched.lose(60_000)
    let found = try await searched.remains()
    #expect(found == [:])
  }

  @Test("The memory search finds 16 bytes of a secret at any offset, and ignores 15")
  func parts() {
    var random = SeededRandom(seed: 5)
    let secret = random.bytes(100)
    let search = MemorySearch([("secret", secret)])
    for offset in 0..<24 {
      for start in [0, 1, 50, 84] {
        let before = [UInt8](repeating: 0xA5, count: offset)
        let after = [UInt8](repeating: 0x5A, count: 40)
        let whole: [UInt8] = before + Array(secret[start..<start + 16]) + after
        #expect(search.places(in: whole) == ["secret"])
        // The bytes next to the matching part differ from those of the secret.
        let short: [UInt8] = before + [~secret[start]] + Array(secret[start + 1..<start + 16]) + after
        #expect(start == 84 || search.places(in: short + [0]) == [])
      }
    }
  }
}

/// A service whose memory is searched, a wallet in this process whose keys are known, and a program that fetches and
/// judges.
@LoopActor
private final class Searched {
  private let service: ServiceProcess
  private let keys = RecordingRandom(seed: 31)
  private let wallet: WalletService
  private let received = Mailbox<ObjectPath>()
  /// Receives a value at each property change of the verifier.
  private let changes = Mailbox<Bool>()
  private var watches: [Registration] = []
  private var random = SeededRandom(seed: 32)
  private var credentials: [[UInt8]] = []
  /// The verifier's public keys, one per invitation.
  private var verifierKeys: [X25519.PublicKey] = []
  private let checker: StandInCheckerSocket?

  /// - Parameter isChecked: whether the service has each credential checked.
  init(isChecked: Bool = false) async throws {
    service = try await ServiceProcess()
    checker = isChecked ? try service.check() : nil
    let keys = keys
    wallet = WalletService(radio: service.radio(), scheduler: EventLoop.shared, random: { keys })
    watches = [
      service.client.subscribe(SignalMatch(sender: "org.earshot", member: "CredentialReceived")) { [received] in
        if let path = $0.arguments.first?.asObjectPath { received.put(path) }
      },
      service.client.subscribe(
        SignalMatch(sender: "org.earshot", path: VerifierAdaptor.path, member: "PropertiesChanged")
      ) { [changes] _ in changes.put(true) },
    ]
    try await service.start(behind: MemorySearch.prefix)
  }

  func close() {
    watches = []
    wallet.stop()
    service.close()
    checker?.close()
  }

  /// Waits for the checker's verdict on a credential.
  func verdict(on path: ObjectPath) async throws { try await service.verdict(on: path) }

  /// - Returns: whether the claims equal those of the last verdict.
  func fetchClaims(_ path: ObjectPath) async throws -> Bool {
    let value = try await service.client.call("org.earshot", path, CredentialObjects.interfaceName, "GetClaims").first
    let claims = checker?.claims.last.map { String(decoding: $0, as: UTF8.self) }
    return value?.asString == claims.map { #"{"portrait":"\#($0)"}"# }
  }

  /// - Returns: the transfer's object, when the credential has arrived.
  func receive(_ size: Int) async throws -> ObjectPath {
    _ = try await send(size)
    return try await received.next()
  }

  /// Runs a transfer in which the wallet disconnects while it sends.
  func lose(_ size: Int) async throws {
    let isGone = Mailbox<Bool>()
    try await send(size).onChange { [wallet] in
      if $0.state == .transferring { _ = wallet.disconnect($0) }
      if !$0.isLive { isGone.put(true) }
    }
    _ = try await isGone.next()
    try await asking { try await self.service.property("State") == "waiting" }
  }

  /// Repeats a query after each property change of the service, until it returns true.
  private func asking(_ isSo: @LoopActor () async throws -> Bool) async throws {
    while try await !isSo() { _ = try await changes.next() }
  }

  private func send(_ size: Int) async throws -> Transfer {
    // Half of the text is random and incompressible; the other half is one text three times.
    let text = random.bytes(size / 2).map { UInt8(ascii: "0") + $0 % 64 }
    let repeated = Array(text.prefix(size / 6))
    let credential = text + repeated + repeated + repeated
    credentials.append(credential)
    let uri = try await invitation()
    verifierKeys.append(try Invitation(reading: uri).key)
    return try wallet.send(uri, credential)
  }

  /// The next client's invitation, which is shown as soon as the last wallet has identified itself.
  private func invitation() async throws -> String {
    var uri = ""
    try await asking {
      uri = try await self.service.property("ConnectionUri")
      return try !uri.isEmpty && !self.verifierKeys.contains(Invitation(reading: uri).key)
    }
    return uri
  }

  /// - Returns: whether the fetched text equals the credential.
  func fetch(_ path: ObjectPath, _ method: String) async throws -> Bool {
    let value = try await service.client.call("org.earshot", path, CredentialObjects.interfaceName, method).first
    let text = try value?.asString.map { Array($0.utf8) } ?? value?.asDescriptor?.readAll(limit: 1 << 20)
    return text == credentials.last
  }

  func judge(_ path: ObjectPath, _ verdict: String) async throws {
    _ = try await service.client.call("org.earshot", path, CredentialObjects.interfaceName, verdict)
  }

  /// Occurrences of all credentials and keys until now. Threads may still be finishing: after a match the search is
  /// repeated, and only lasting matches count.
  func remains() async throws -> [String: Int] {
    var secrets: [(name: String, bytes: [UInt8])] = []
    for credential in credentials {
      let gzip = try Gzip.compress(credential)
      secrets += Self.parts(of: credential).map { ("text", $0) } + Self.parts(of: gzip).map { ("gzip", $0) }
    }
    // The wallet draws one key, the same for each transfer.
    let own = Array(keys.drawn(32).prefix(1))
    let derived = SecretSearch.derived(own: own, peers: verifierKeys)
    #expect(derived.count == 3 * credentials.count && !credentials.isEmpty)
    secrets += derived.map { ("key", $0) } + (checker?.claims ?? []).map { ("claims", $0) }
    // A public text must be found, which shows that the search works.
    let known = "a path"
    secrets.append((known, Array(service.directory.path.utf8)))
    let search = MemorySearch(secrets)
    let process = try #require(service.processID)
    var found: [String: Int] = [:]
    for _ in 0..<5 {
      _ = try await service.property("State")
      found = try search.occurrences(in: process)
      let isKnownFound = found.contains { $0.key.hasPrefix(known) }
      #expect(isKnownFound, "nothing is found of what must be there")
      found = found.filter { !$0.key.hasPrefix(known) }
      if found.isEmpty { break }
    }
    return found
  }

  /// The complete secret, or of a large one its beginning, middle and end, because the search takes time for each
  /// byte.
  private static func parts(of secret: [UInt8]) -> [[UInt8]] {
    let part = 8 << 10
    guard secret.count > 8 * part else { return [secret] }
    let middle = secret.count / 2
    return [Array(secret.prefix(part)), Array(secret[middle..<middle + part]), Array(secret.suffix(part))]
  }
}
