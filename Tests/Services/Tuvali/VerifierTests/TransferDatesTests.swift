import Common
import Hall
import Loop
import Store
import TestSupport
import Testing
import Transfers

@testable import Verifier

@Suite("Dates of a credential transfer")
struct TransferDatesTests {
  init() { EventLoop.shared.runInBackground() }

  /// Time to keep, in milliseconds.
  @LoopActor private static let keepFor = Int64(Cabinet.keepFor.components.seconds) * 1000

  @Test("A transfer's dates are adjusted after restarts, clock changes and a new storage time")
  func dates() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      var received: Int64 = 0
      do {
        let hall = cabinet.hall()
        let outgoing = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(300))
        hall.time.run(until: { hall.incoming?.state == .transferring }, limit: .seconds(5))
        let transfer = try #require(hall.incoming)
        #expect(transfer.receivedAt == 0 && transfer.expiresAt == 0)
        hall.time.run(until: { outgoing.state == .received }, limit: .seconds(5))
        received = cabinet.seconds * 1000
        #expect(abs(transfer.receivedAt - received) <= 1000)
        #expect(transfer.expiresAt == transfer.receivedAt + Self.keepFor)
        var shown = 0
        transfer.onChange { _ in shown += 1 }
        hall.time.advance(by: .seconds(100))
        let before = shown
        cabinet.setClock(by: 3600)
        #expect(abs(transfer.receivedAt - received - 3_600_000) <= 1000 && shown == before + 1)
        #expect(outgoing.receivedAt == 0 && outgoing.expiresAt == 0)
        hall.verifier.vault.settings.keepFor = .seconds(9000)
        #expect(transfer.expiresAt == transfer.receivedAt + 9_000_000 && shown == before + 2)
        hall.time.advance(by: .seconds(1))
        received = transfer.receivedAt
      }
      cabinet.crash()
      let hall = cabinet.hall()
      hall.restore()
      let transfer = try #require(hall.incoming)
      #expect(abs(transfer.receivedAt - received) <= 1000)
      #expect(transfer.expiresAt == transfer.receivedAt + Self.keepFor)
      #expect(hall.verifier.decide(transfer, accepted: false))
      hall.time.advance(by: .seconds(1))
      // The time of reception stays correct. No transfer waits.
      #expect(abs(transfer.receivedAt - received) <= 1000 && transfer.expiresAt == 0)
    }
  }

  @Test("An accepted credential has an expiry until it is fetched, and the change is signalled")
  func fetched() async throws {
    try await LoopActor.run {
      let hall = Hall(decision: .client)
      hall.takes = false
      _ = try hall.visit(sampleCredential(300))
      let transfer = try #require(hall.incoming)
      #expect(hall.verifier.decide(transfer, accepted: true))
      #expect(transfer.expiresAt > 0 && !transfer.wasTaken)
      var shown: [Bool] = []
      transfer.onChange { shown.append($0.wasTaken) }
      hall.verifier.taken(transfer)
      #expect(transfer.wasTaken && shown.contains(true) && transfer.expiresAt == 0 && transfer.receivedAt > 0)
    }
  }
}
