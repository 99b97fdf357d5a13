import Common
import Foundation
import Hall
import Loop
import Store
import Testing
import Transfers
import Tuvali
import Verifier

@Suite("Credentials wait for their verdict")
struct VaultTests {
  init() { EventLoop.shared.runInBackground() }

  /// A state directory on the disk, gone with the test.
  private final class Place {
    let url = FileManager.default.temporaryDirectory.appendingPathComponent("vault-\(UUID().uuidString.prefix(8))")

    deinit {
      try? FileManager.default.removeItem(at: url)
    }

    var files: [String] {
      ((try? FileManager.default.contentsOfDirectory(atPath: url.appendingPathComponent("spool").path)) ?? []).sorted()
    }

    @LoopActor
    func hall(
      limits: CredentialSpool.Limits = .init(), keepFor: Duration = .seconds(3600)
    ) throws -> Hall {
      let state = try StateDirectory(path: url.path)
      let spool = try CredentialSpool(in: state, key: try SpoolKey.load(from: state), limits: limits)
      return Hall(decision: .client, vault: { CredentialVault(spool, keepFor: keepFor, scheduler: $0) })
    }
  }

  @Test("What nobody judged is a transfer again after the start, whole; what was judged is erased")
  func restart() async throws {
    try await LoopActor.run {
      let place = Place()
      let (kept, judged) = (sampleCredential(700, seed: 1), sampleCredential(700, seed: 2))
      var hall: Hall? = try place.hall()
      _ = try hall?.visit(kept)
      _ = try hall?.visit(judged)
      #expect(place.files.count == 2)
      let last = try #require(hall?.incoming)
      #expect(hall?.verifier.decide(last, accepted: true) == true)
      hall?.time.advance(by: .seconds(1))
      #expect(place.files.count == 1)
      hall?.verifier.stop()
      hall = nil

      let again = try place.hall()
      again.verifier.restore()
      let transfers = again.verifier.transfers.transfers
      #expect(transfers.count == 1)
      let transfer = try #require(transfers.first)
      #expect(transfer.state == .received && !transfer.isLive && transfer.dialect == "0.5")
      let isWhole = transfer.credential == kept
      #expect(isWhole)
      #expect(again.verifier.decide(transfer, accepted: false))
      again.time.advance(by: .seconds(1))
      #expect(place.files.isEmpty)
    }
  }

  @Test("A credential that waited too long is erased, from memory and from the disk")
  func expiry() async throws {
    try await LoopActor.run {
      let place = Place()
      let hall = try place.hall(keepFor: .seconds(600))
      _ = try hall.visit(sampleCredential(300))
      let transfer = try #require(hall.incoming)
      hall.time.advance(by: .seconds(500))
      #expect(transfer.state == .received && transfer.credential != nil)
      hall.time.advance(by: .seconds(101))
      #expect(transfer.state == .undecided && transfer.credential == nil)
      #expect(place.files.isEmpty)
    }
  }

  @Test("A full spool is a named error for the wallet, and a verdict makes room")
  func full() async throws {
    try await LoopActor.run {
      let place = Place()
      var limits = CredentialSpool.Limits()
      limits.maximumCount = 1
      let hall = try place.hall(limits: limits)
      _ = try hall.visit(sampleCredential(300))
      let first = try #require(hall.incoming)
      let (refused, ended) = try hall.visit(sampleCredential(300, seed: 2))
      #expect(ended && refused.state == .failed)
      #expect((hall.incoming?.error as? TuvaliError)?.reason == .limitExceeded)
      #expect(hall.verifier.decide(first, accepted: true))
      hall.time.advance(by: .seconds(1))
      _ = try hall.visit(sampleCredential(300, seed: 3))
      #expect(hall.incoming?.state == .received)
    }
  }

  @Test("A disk that fails is a state, not an end: the kiosk serves from memory, and says so")
  func failingDisk() async throws {
    try await LoopActor.run {
      let place = Place()
      let hall = try place.hall()
      #expect(hall.verifier.vault.trouble == nil)
      try FileManager.default.removeItem(at: place.url)
      let (_, ended) = try hall.visit(sampleCredential(300))
      #expect(ended)
      #expect(hall.incoming?.state == .received)
      #expect(hall.verifier.vault.trouble != nil)
    }
  }
}
