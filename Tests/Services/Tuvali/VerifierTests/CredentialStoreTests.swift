import Common
import Hall
import Loop
import Store
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

@Suite("Credentials that wait for a verdict")
struct CredentialStoreTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("After a crash a credential without a verdict is restored, and one with a verdict is erased")
  func restart() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let (kept, judged) = (sampleCredential(700, seed: 1), sampleCredential(700, seed: 2))
      let hall = cabinet.hall()
      _ = try hall.visit(kept)
      _ = try hall.visit(judged)
      #expect(cabinet.files.count == 2)
      let last = try #require(hall.incoming)
      #expect(hall.verifier.decide(last, accepted: true) == true)
      hall.time.advance(by: .seconds(1))
      #expect(cabinet.files.count == 1)
      cabinet.crash()

      let again = cabinet.hall()
      again.restore()
      let transfers = again.verifier.transfers.transfers
      #expect(transfers.count == 1)
      let transfer = try #require(transfers.first)
      #expect(transfer.state == .received && !transfer.isLive && transfer.dialect == "0.5")
      let isWhole = transfer.credential == kept
      #expect(isWhole)
      #expect(again.verifier.decide(transfer, accepted: false))
      again.time.advance(by: .seconds(1))
      #expect(cabinet.files.isEmpty)
    }
  }

  @Test("A credential that the service accepted stays until a program fetches it, even after a crash")
  func acceptedUntaken() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = sampleCredential(700)
      let hall = cabinet.hall(decision: .accept)
      hall.takes = false
      let (outgoing, _) = try hall.visit(credential)
      hall.time.advance(by: .seconds(10))
      #expect(outgoing.state == .accepted && hall.incoming?.state == .accepted)
      let isThere = hall.incoming?.credential == credential
      #expect(isThere)
      #expect(cabinet.files.map(Cabinet.isAccepted) == [true])
      cabinet.crash()

      let again = cabinet.hall(decision: .accept)
      again.restore()
      let transfer = try #require(again.incoming)
      #expect(transfer.state == .accepted && !again.verifier.decide(transfer, accepted: false))
      let isWhole = transfer.credential == credential
      #expect(isWhole)
      again.verifier.taken(transfer)
      again.time.advance(by: .seconds(1))
      #expect(transfer.credential == nil && cabinet.files.isEmpty)
      #expect(again.verifier.vault.kept == (0, 0))
    }
  }

  @Test("A service that crashed between SUCCESS and its own verdict gives the verdict after the restart")
  func acceptsAfterStart() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(decision: .client)
      _ = try hall.visit(sampleCredential(700))
      cabinet.crash()
      let again = cabinet.hall(decision: .accept)
      again.restore()
      again.time.advance(by: .seconds(1))
      #expect(again.incoming?.state == .accepted && again.incoming?.credential != nil)
      #expect(cabinet.files.map(Cabinet.isAccepted) == [true])
    }
  }

  @Test("Accepted credentials that were not fetched are not evicted, and use up the verifier's capacity")
  func untakenFillPlaces() async throws {
    try await LoopActor.run {
      let hall = Hall(decision: .accept, keptTransfers: 2)
      hall.takes = false
      for seed in 1...2 as ClosedRange<UInt64> { _ = try hall.visit(sampleCredential(300, seed: seed)) }
      let waiting = hall.verifier.transfers.transfers
      #expect(hall.verifier.state == .full && hall.verifier.connectionURI.isEmpty)
      #expect(hall.verifier.storage.contains("2 credentials wait"))
      #expect(waiting.allSatisfy { $0.credential != nil && $0.state == .accepted })
      hall.verifier.taken(waiting[0])
      #expect(hall.verifier.state == .waiting && hall.verifier.storage.isEmpty)
      let (served, _) = try hall.visit(sampleCredential(300, seed: 4))
      #expect(served.state == .accepted && hall.verifier.storeFull == 0)
      #expect(waiting[0].credential == nil && waiting[1].credential != nil)
    }
  }

  @Test("After a verdict a rejected or fetched credential is erased, and another can be fetched once")
  func goneAfterVerdict() async throws {
    try await LoopActor.run {
      for (isTaken, isAccepted) in [(true, true), (true, false), (false, true), (false, false)] {
        let hall = Hall(decision: .client)
        hall.takes = isTaken
        _ = try hall.visit(sampleCredential(300))
        let transfer = try #require(hall.incoming)
        #expect(transfer.credential != nil)
        #expect(hall.verifier.decide(transfer, accepted: isAccepted))
        #expect((transfer.credential == nil) == (isTaken || !isAccepted), "\(isTaken) \(isAccepted)")
        hall.verifier.taken(transfer)
        #expect(transfer.credential == nil)
        #expect(hall.verifier.vault.kept == (0, 0))
      }
    }
  }

  @Test("A disk that hangs at the start does not delay wallets, and its credentials appear later")
  func hangsAtStart() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let (before, meanwhile) = (sampleCredential(700, seed: 1), sampleCredential(700, seed: 2))
      _ = try cabinet.hall().visit(before)
      cabinet.crash()

      let hall = cabinet.hall()
      let worker = try #require(cabinet.worker)
      worker.hangs = true
      hall.verifier.begin()
      var isRestored = false
      hall.verifier.whenRestored(within: .seconds(5)) { isRestored = true }
      #expect(!isRestored && hall.verifier.transfers.transfers.isEmpty)
      hall.time.advance(by: .seconds(5))
      #expect(isRestored, "it is not waited for any longer")
      let (outgoing, _) = try hall.visit(meanwhile)
      #expect(outgoing.state == .received || outgoing.state.isEnd)
      worker.hangs = false
      hall.time.advance(by: .seconds(60))
      let kept = hall.verifier.transfers.transfers.compactMap(\.credential)
      let areBothHere = kept.count == 2 && kept.contains(before) && kept.contains(meanwhile)
      #expect(areBothHere)
      #expect(cabinet.files.count == 2)
    }
  }

  @Test("The start is complete only after the stored credentials were read from a working disk")
  func beginsAway() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = sampleCredential(700)
      _ = try cabinet.hall().visit(credential)
      cabinet.crash()
      let hall = cabinet.hall()
      hall.verifier.begin()
      #expect(hall.verifier.transfers.transfers.isEmpty, "nothing is read on the loop")
      var atRestore: Int?
      hall.verifier.whenRestored(within: .seconds(5)) { atRestore = hall.verifier.transfers.transfers.count }
      hall.time.advance(by: .seconds(1))
      #expect(atRestore == 1)
    }
  }

  @Test("A verdict is answered when it is on the disk and the wallet was notified", arguments: [true, false])
  func answeredWhenErased(isAccepted: Bool) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall()
      let outgoing = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(300))
      hall.time.run(until: { outgoing.state == .received }, limit: .seconds(5))
      let transfer = try #require(hall.incoming)
      let worker = try #require(cabinet.worker)
      var isAnswered = false
      worker.hangs = true
      let isJudged = hall.verifier.decide(transfer, accepted: isAccepted, then: { isAnswered = true })
      #expect(isJudged)
      hall.time.run(until: { outgoing.state.isEnd }, limit: .seconds(1))
      #expect(outgoing.state == (isAccepted ? .accepted : .rejected))
      #expect(!isAnswered && cabinet.files.count == 1)
      worker.hangs = false
      hall.time.run(until: { isAnswered }, limit: .seconds(1))
      cabinet.crash()
      #expect(isAnswered && cabinet.files.isEmpty)
    }
  }

  @Test("An expired credential is erased from memory and disk")
  func expiry() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(keepFor: .seconds(600))
      _ = try hall.visit(sampleCredential(300))
      let transfer = try #require(hall.incoming)
      hall.time.advance(by: .seconds(500))
      #expect(transfer.state == .received && transfer.credential != nil)
      #expect(hall.verifier.state == .waiting)
      hall.time.advance(by: .seconds(101))
      #expect(transfer.state == .undecided && transfer.credential == nil)
      #expect(cabinet.files.isEmpty)
    }
  }

  @Test("An expired credential frees its capacity, whether it was accepted or not", arguments: [true, false])
  func expiryMakesRoom(isAccepted: Bool) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(decision: isAccepted ? .accept : .client, keptTransfers: 1, keepFor: .seconds(600))
      hall.takes = false
      let before = hall.verifier.connectionURI
      _ = try hall.visit(sampleCredential(300))
      #expect(hall.verifier.state == .full && hall.verifier.connectionURI.isEmpty)
      hall.time.advance(by: .seconds(601))
      #expect(hall.verifier.state == .waiting && !hall.verifier.connectionURI.isEmpty)
      #expect(hall.verifier.connectionURI != before)
    }
  }

  @Test("A new storage time applies to credentials that already wait")
  func otherExpiry() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(keepFor: .seconds(600))
      for seed in 1...2 as ClosedRange<UInt64> { _ = try hall.visit(sampleCredential(300, seed: seed)) }
      hall.verifier.vault.settings.keepFor = .seconds(1200)
      hall.time.advance(by: .seconds(1000))
      #expect(cabinet.files.count == 2)
      hall.verifier.vault.settings.keepFor = .seconds(900)
      hall.time.advance(by: .seconds(1))
      #expect(hall.verifier.transfers.transfers.allSatisfy { $0.credential == nil } && cabinet.files.isEmpty)
    }
  }

  @Test("A full spool gives the wallet a named error, and a verdict frees capacity")
  func full() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      cabinet.limits.maximumCount = 1
      let hall = cabinet.hall()
      _ = try hall.visit(sampleCredential(300))
      let first = try #require(hall.incoming)
      let (refused, ended) = try hall.visit(sampleCredential(300, seed: 2))
      #expect(ended && refused.state == .failed)
      #expect((hall.incoming?.error as? TuvaliError)?.reason == .noCapacity && hall.verifier.storeFull == 1)
      #expect(hall.verifier.decide(first, accepted: true))
      hall.time.advance(by: .seconds(1))
      _ = try hall.visit(sampleCredential(300, seed: 3))
      #expect(hall.incoming?.state == .received)
    }
  }

  @Test("A credential that exactly fits is stored, and one byte more is refused and counted, with or without a disk")
  func bytes() async throws {
    try await LoopActor.run {
      for hasDisk in [true, false] {
        let cabinet = Cabinet()
        let size = try CredentialRecord(
          dialect: "0.5", peer: "C0:FF:EE:00:00:01", credential: sampleCredential(300)
        ).fileSize
        cabinet.limits.maximumBytes = 2 * size
        let hall =
          hasDisk
          ? cabinet.hall()
          : Hall(decision: .client, vault: { CredentialStore(.init(maximumBytes: 2 * size), scheduler: $0) })
        _ = try hall.visit(sampleCredential(300))
        let first = try #require(hall.incoming)
        _ = try hall.visit(sampleCredential(301))
        #expect((hall.incoming?.error as? TuvaliError)?.reason == .noCapacity && hall.verifier.storeFull == 1)
        _ = try hall.visit(sampleCredential(300, seed: 2))
        #expect(hall.incoming?.state == .received)
        let (refused, _) = try hall.visit(sampleCredential(1))
        #expect(refused.state == .failed && hall.verifier.storeFull == 2)
        #expect(hall.verifier.decide(first, accepted: false))
        hall.time.advance(by: .seconds(1))
        _ = try hall.visit(sampleCredential(300, seed: 3))
        #expect(hall.incoming?.state == .received && hall.verifier.vault.kept == (2, 0))
      }
    }
  }

  @Test("Restored credentials fill at most the verifier's capacity, and the rest are restored later")
  func boundedRestore() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall()
      let credentials = (1...3).map { sampleCredential(1000, seed: UInt64($0)) }
      for credential in credentials {
        _ = try hall.visit(credential)
        hall.time.advance(by: .seconds(2))
      }
      cabinet.crash()
      cabinet.limits.maximumBytes = 2500
      let again = cabinet.hall()
      again.restore()
      var transfers: [Transfer] { again.verifier.transfers.transfers }
      let areEarliest = transfers.compactMap(\.credential) == Array(credentials.prefix(2))
      #expect(areEarliest && cabinet.files.count == 3)
      // Records that are left on the disk use up its capacity.
      let (refused, _) = try again.visit(sampleCredential(300))
      #expect(refused.state == .failed)
      #expect(again.verifier.decide(transfers[0], accepted: false))
      again.time.advance(by: .seconds(1))
      let isHere = transfers.last?.credential == credentials[2]
      #expect(isHere && cabinet.files.count == 2)
    }
  }
}
