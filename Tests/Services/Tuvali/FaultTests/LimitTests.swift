import Air
import Common
import Compression
import Crypto
import Hall
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali
import Wallet

@testable import Verifier

/// Sizes and values above a limit.
@Suite("Limits of a credential transfer", .serialized)
struct LimitTests {
  init() { EventLoop.shared.runInBackground() }

  /// Announced size, MTU, and the resulting error code; nil if it is accepted.
  private static let sizes: [(value: [UInt8], mtu: Int, code: String?)] = {
    let frameLimit = Limits.frameBytes(forCredential: 4 << 20)
    let chunkLimit = Limits.chunks * 60
    func size(_ size: Int) -> [UInt8] { ResponseSize(size).bytes(as: .bigEndian) }
    return [
      (size(0), 517, "TVV_TRA_001"), (size(1), 517, "TVV_TRA_001"), (size(16), 517, "TVV_TRA_001"),
      (size(17), 517, nil), (size(18), 517, nil),
      (size(frameLimit - 1), 517, nil), (size(frameLimit), 517, nil), (size(frameLimit + 1), 517, "TVV_TRA_001"),
      (size(0x7FFF_FFFF), 517, "TVV_TRA_001"), ([0x80, 0, 0, 0], 517, "TVV_TRA_001"),
      ([0xFF, 0xFF, 0xFF, 0xFF], 517, "TVV_TRA_001"),
      (size(chunkLimit), 67, nil), (size(chunkLimit + 1), 67, "TVV_TRA_001"),
      ([], 517, "TVV_UNK_002"), ([0, 0, 1], 517, "TVV_UNK_002"), ([0, 0, 1, 0, 9], 517, nil),
    ]
  }()

  /// The rows whose values are sizes, and too large. The other refused values are not sizes of frames.
  private static let tooLarge = [
    Limits.frameBytes(forCredential: 4 << 20) + 1, 0x7FFF_FFFF, Limits.chunks * 60 + 1,
  ].map { ResponseSize($0).bytes(as: .bigEndian) }

  @Test(
    "An announced credential size is accepted up to each limit, and refused with its error code beyond",
    arguments: sizes.indices, Seeds.few)
  func announcedSizes(index: Int, seed: UInt64) async throws {
    let (value, mtu, code) = Self.sizes[index]
    try await LoopActor.run {
      try Trial.run("size \(value) at MTU \(mtu)", Hall(seed: seed)) { trial in
        let phone = Phone(in: trial.hall)
        try phone.identify(mtu: mtu)
        phone.write(value, to: .responseSize)
        // A chunk after the size does not change the result.
        phone.write([0, 1, 0, 0, 0], to: .submitResponse, as: .command)
        trial.hall.time.advance(by: .milliseconds(400))
        trial.check(trial.hall.incoming?.error?.code == code, "\(trial.hall.incoming?.error?.code ?? "no error")")
        let isTooLarge = Self.tooLarge.contains(value) && code != nil
        trial.check(trial.hall.verifier.counters.failedByLimit == (isTooLarge ? 1 : 0), "not counted")
        phone.leave()
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "A credential of the maximum size is received, and one byte more is refused",
    arguments: [(4095, nil), (4096, nil), (4097, "TVV_UNK_003"), (8192, "TVV_UNK_003"), (0, "TVV_UNK_003")]
      as [(Int, String?)], Seeds.usual)
  func credentialLimit(credential: (count: Int, code: String?), seed: UInt64) async throws {
    let (count, code) = credential
    try await LoopActor.run {
      let hall = Hall(seed: seed, conditions: Trial.quick, configure: { $0.credentialLimit = 4096 })
      try Trial.run("credential of \(count) bytes", hall) { trial in
        let phone = Phone(in: hall)
        try phone.deliver(Array(repeating: UInt8(ascii: "x"), count: count))
        hall.time.run(until: { phone.values(of: .disconnect) == [[1]] }, limit: .seconds(10))
        trial.check(hall.incoming?.error?.code == code, "\(hall.incoming?.error?.code ?? "no error")")
        trial.check((hall.received.last?.count == count) == (code == nil), "something else was received")
        trial.check(hall.verifier.counters.failedByLimit == (count > 4096 ? 1 : 0), "not counted")
        trial.check(phone.values(of: .transferReportResponse).contains([1, 0, 0]) == (code == nil), "a false success")
        trial.expectWaiting(within: .seconds(3))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "A gzip bomb or invalid gzip data is refused as a credential, in one gzip member or in 1,000",
    arguments: ["one member", "a thousand members", "no gzip", "half a gzip", "no UTF-8", "wrong key"], Seeds.few)
  func bombs(kind: String, seed: UInt64) async throws {
    let mebibyte = try Gzip.compress(Array(repeating: 0, count: 1 << 20))
    let compressed: [UInt8] =
      switch kind {
      case "one member": try Gzip.compress(Array(repeating: 0, count: 64 << 20))
      case "a thousand members": Array(repeatElement(mebibyte, count: 1000).joined())
      case "half a gzip": Array(mebibyte.prefix(500))
      case "no UTF-8": try Gzip.compress([0x7B, 0xFF, 0x7D])
      case "wrong key": try Gzip.compress(Array("{}".utf8))
      default: sampleCredential(2000)
      }
    try await LoopActor.run {
      try Trial.run("gzip bomb, \(kind)", Hall(seed: seed, conditions: AirConditions(latency: .zero))) { trial in
        let hall = trial.hall
        let phone = Phone(in: hall)
        let uri = hall.verifier.connectionURI
        try phone.identify()
        let key = try Self.key(uri, isRight: kind != "wrong key")
        let (identify, _) = try Phone.identify(to: uri)
        try phone.send(try AESGCM.seal(compressed, key: key, nonce: Array(identify.prefix(12))), mtu: 517)
        hall.time.run(until: { hall.incoming?.state.isEnd == true }, limit: .seconds(10))
        trial.check(hall.incoming?.error?.code == "TVV_UNK_003", "\(hall.incoming?.error?.code ?? "no error")")
        trial.check(hall.received.isEmpty, "it was received")
        hall.time.advance(by: .milliseconds(50))
        trial.check(phone.values(of: .transferReportResponse).isEmpty, "the wallet was told of a success")
        trial.check(phone.values(of: .disconnect) == [[1]], "the wallet was not asked to leave")
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  /// The key with which the phone of `Phone.identify` encrypts.
  private static func key(_ uri: String, isRight: Bool) throws -> SecretBytes {
    var random = SeededRandom(seed: 1)
    let own = X25519.PrivateKey(randomFrom: &random)
    let shared = try own.sharedSecret(with: try Invitation(reading: uri).key)
    return try HKDF.sha256(
      secret: shared, salt: Array("SHA-256".utf8), info: Array((isRight ? "SKVerifier" : "SKWallet").utf8), count: 32)
  }

  @Test(
    "If all session slots have credentials without a verdict, the next wallet is refused until a verdict",
    arguments: Seeds.usual)
  func storageFull(seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Hall(seed: seed, conditions: Trial.quick, decision: .client, keptTransfers: 3)
      try Trial.run("storage full", hall) { trial in
        for _ in 0..<2 {
          let (transfer, _) = try trial.send()
          trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
          trial.check(transfer.state == .undecided, "the wallet's end is \(transfer.state)")
        }
        // The wallet identifies itself while there is capacity, and sends its size when there is none.
        let late = Phone(in: hall)
        try late.identify()
        hall.time.advance(by: .seconds(1))
        let (third, _) = try trial.send()
        trial.expectEnd(of: third, within: .seconds(40))
        let waiting = hall.verifier.transfers.transfers.filter { $0.credential != nil }
        trial.check(waiting.count == 3, "\(waiting.count) wait")
        trial.check(hall.verifier.connectionURI.isEmpty, "somebody is invited")
        trial.check(hall.verifier.storage.contains("3 credentials wait"), "nothing is said: \(hall.verifier.storage)")
        late.write(ResponseSize(500).bytes(as: .bigEndian), to: .responseSize)
        hall.time.advance(by: .milliseconds(200))
        trial.check(late.values(of: .disconnect) == [[1]], "the visitor does not learn of it at its size")
        let refusal = hall.verifier.transfers.transfers.compactMap { $0.error as? TuvaliError }.last
        trial.check(refusal?.reason == .noCapacity, "the kiosk's error is \(refusal?.sentence ?? "none")")
        trial.check(hall.verifier.counters.noRoom == 1, "it is not counted")
        trial.check(hall.received.count == 3, "it was received")
        trial.check(
          waiting.allSatisfy { one in one.credential != nil && hall.verifier.transfers.transfers.contains { $0 === one }
          },
          "one of the three is lost")
        trial.expectWaiting(within: .seconds(1))
        trial.check(hall.verifier.state == .full, "it is \(hall.verifier.state)")
        trial.expectComplaints()

        trial.check(hall.verifier.decide(waiting[1], accepted: true), "it cannot be judged")
        hall.judge = { _ in true }
        try trial.expectOrdinaryVisit()
        trial.check(hall.verifier.transfers.transfers.count <= 5, "\(hall.verifier.transfers.transfers.count) are kept")
      }
    }
  }

  @Test("A full verifier refuses wallets and preserves credentials without a verdict", arguments: Seeds.few)
  func storageFullForLong(seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Hall(seed: seed, conditions: Trial.quick, decision: .client, keptTransfers: 2)
      try Trial.run("storage full for long", hall) { trial in
        for _ in 0..<2 {
          let (transfer, _) = try trial.send()
          trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
        }
        trial.check(hall.verifier.state == .full, "it is \(hall.verifier.state)")
        for _ in 0..<20 {
          let phone = Phone(in: hall)
          phone.connect()
          hall.time.advance(by: .seconds(6))
          trial.check(!phone.isConnected, "somebody got in without an advertisement")
        }
        let transfers = hall.verifier.transfers.transfers
        trial.check(transfers.count <= 3, "\(transfers.count) are kept")
        trial.check(transfers.count { $0.state == .received } == 2, "the two that wait are lost")
        for transfer in transfers { _ = hall.verifier.decide(transfer, accepted: false) }
        hall.judge = { _ in true }
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("A wallet may have 4 transfers at once, and another one when one of them ends", arguments: Seeds.usual)
  func walletAtOnce(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("five at once", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let (_, wallet) = try trial.send()
        let uri = trial.hall.verifier.connectionURI
        let others = try (1..<wallet.settings.concurrentTransfers).map { _ in try wallet.send(uri, sampleCredential(10))
        }
        let error = caught(TuvaliError.self) { try wallet.send(uri, sampleCredential(10)) }
        trial.check(error?.reason == .limitExceeded, "a fifth: \(error?.sentence ?? "taken")")
        trial.check(wallet.active == 4, "\(wallet.active) are under way")
        trial.check(wallet.disconnect(others[0]), "it cannot be ended")
        trial.hall.time.advance(by: .milliseconds(10))
        _ = try wallet.send(uri, sampleCredential(10))
        trial.hall.time.advance(by: .seconds(40))
        trial.expectWaiting(within: .seconds(61))
        try trial.expectOrdinaryVisit()
      }
    }
  }
}
