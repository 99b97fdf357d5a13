import Common
import Glibc
import Hall
import Journal
import Loop
import Store
import TestSupport
import Testing
import Transfers

@testable import Verifier

/// Faults of the disk that stores credentials until their verdict.
@Suite("Disk faults during credential transfers", .serialized)
struct DiskFaultTests {
  private static let failures: [Int32] = [ENOSPC, EIO, EROFS]

  init() { EventLoop.shared.runInBackground() }

  @Test(
    "A disk call that fails does not make a transfer fail, and is logged once",
    arguments: failures, Extent.of([1], all: Seeds.few))
  func anyCall(errno: Int32, seed: UInt64) async throws {
    try await LoopActor.run {
      for isLasting in [false, true] {
        var number = 0
        var hasStruck = true
        while hasStruck {
          number += 1
          let cabinet = Cabinet()
          let hall = cabinet.hall(seed: seed)
          hall.restore()
          let struck = strike(cabinet.disk, errno, after: number, isLasting: isLasting)
          let kind = isLasting ? "and all after it" : "alone"
          try Trial.run("disk call \(number) \(kind) fails with \(errno)", hall) { trial in
            hall.judge = { _ in true }
            let (transfer, _) = try trial.send()
            trial.check(hall.finish(transfer, limit: .seconds(5)), "the visit does not end")
            trial.check(transfer.state == .accepted && hall.hasReceived(trial.credentials[0]), "\(transfer.state)")
            trial.expectWaiting(within: .seconds(1))
            hall.time.advance(by: .seconds(300))
            hasStruck = struck.withLock { $0 }
            expectWords(trial, errno)
            cabinet.disk.fail(nil)
            hall.time.advance(by: .seconds(61))
            try trial.expectOrdinaryVisit()
            trial.check(hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
            trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
          }
        }
        #expect(number > (isLasting ? 12 : 15), "only \(number) calls")
      }
    }
  }

  @Test(
    "Credentials received during a disk fault are stored after it and survive a restart",
    arguments: failures, Seeds.usual)
  func putAwayLater(errno: Int32, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      var credentials: [[UInt8]] = []
      try Trial.run("disk fails with \(errno)", cabinet.hall(seed: seed)) { trial in
        _ = strike(cabinet.disk, errno, after: 1, isLasting: true)
        for number in 1...3 {
          let (transfer, _) = try trial.send()
          trial.check(trial.hall.finish(transfer, limit: .seconds(60)), "visit \(number) does not end")
          trial.check(trial.hall.incoming?.state == .received, "visit \(number): not received")
        }
        trial.check(cabinet.files.isEmpty && trial.hall.verifier.vault.kept.waiting == 3, "not in memory alone")
        expectWords(trial, errno)
        // One of the credentials is judged before the disk recovers.
        trial.check(
          trial.hall.verifier.decide(trial.hall.verifier.transfers.transfers[1], accepted: true), "no verdict")
        cabinet.disk.fail(nil)
        let (transfer, _) = try trial.send()
        trial.check(trial.hall.finish(transfer, limit: .seconds(60)), "the last visit does not end")
        trial.check(trial.hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
        trial.check(cabinet.files.count == 3, "on the disk: \(cabinet.files)")
        credentials = trial.credentials
      }
      cabinet.crash()
      try Trial.run("disk failed with \(errno), and restarted", cabinet.hall(seed: seed)) { trial in
        trial.hall.restore()
        let restored = Set(trial.hall.verifier.transfers.transfers.compactMap(\.credential))
        let areWhole = restored == Set([credentials[0], credentials[2], credentials[3]])
        trial.check(areWhole, "\(restored.count) are restored")
        trial.hall.judge = { _ in true }
        try trial.expectOrdinaryVisit()
        trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
      }
    }
  }

  @Test(
    "After a disk fault at the acceptance and a crash the credential exists once",
    arguments: failures, Extent.of([1], all: Seeds.few))
  func accepted(errno: Int32, seed: UInt64) async throws {
    try await LoopActor.run {
      for (isLasting, hangsFirst) in [(false, false), (true, false), (true, true)] {
        var number = 0
        var hasStruck = true
        while hasStruck {
          number += 1
          let cabinet = Cabinet()
          var credential: [UInt8] = []
          let fault = "disk call \(number) \(isLasting ? "and all after it" : "alone") fails with \(errno)"
          try Trial.run(fault, cabinet.hall(seed: seed, decision: .accept)) { trial in
            let hall = trial.hall
            hall.takes = false
            hall.restore()
            let struck = strike(cabinet.disk, errno, after: number, isLasting: isLasting)
            // Where the disk answers late, the credential is accepted before it is written.
            cabinet.worker?.hangs = hangsFirst
            let (transfer, _) = try trial.send()
            trial.check(hall.finish(transfer, limit: .seconds(10)) && transfer.state == .accepted, "\(transfer.state)")
            cabinet.worker?.hangs = false
            hall.time.advance(by: .seconds(150))
            hasStruck = struck.withLock { $0 }
            cabinet.disk.fail(nil)
            hall.time.advance(by: .seconds(61))
            trial.check(hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
            trial.check(cabinet.files.map(Cabinet.isAccepted) == [true], "on the disk: \(cabinet.files)")
            credential = trial.credentials[0]
          }
          cabinet.crash()
          Trial.run("\(fault), and restarted", cabinet.hall(seed: seed, decision: .client)) { trial in
            trial.hall.restore()
            let transfers = trial.hall.verifier.transfers.transfers
            trial.check(transfers.map(\.state) == [.accepted], "\(transfers.map(\.state))")
            trial.check(transfers.first?.credential == credential, "it is lost")
            _ = strike(cabinet.disk, errno, after: number, isLasting: isLasting)
            if let first = transfers.first { trial.hall.verifier.taken(first) }
            trial.hall.time.advance(by: .seconds(1))
            cabinet.disk.fail(nil)
            trial.hall.time.advance(by: .seconds(61))
            trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
          }
          cabinet.crash()
          Trial.run("\(fault), and restarted twice", cabinet.hall(seed: seed)) { trial in
            trial.hall.restore()
            trial.check(trial.hall.incoming == nil, "it is here again")
          }
        }
        #expect(number > 10, "only \(number) calls")
      }
    }
  }

  /// Makes a call of the disk fail, or that call and all later ones.
  ///
  /// - Returns: whether a call has failed.
  private func strike(_ disk: SimulatedDisk, _ errno: Int32, after count: Int, isLasting: Bool) -> Locked<Bool> {
    let first = disk.calls + count
    let struck = Locked(false)
    disk.fail { call in
      guard call.number == first || isLasting && call.number > first else { return nil }
      struck.withLock { $0 = true }
      return errno
    }
    return struck
  }

  /// Expects that the journal and the state name the fault once.
  @LoopActor
  private func expectWords(_ trial: Trial, _ errno: Int32) {
    let vault = trial.hall.verifier.vault
    let entries = trial.log.records.filter { $0.id == .storeDegraded }
    trial.check(entries.count <= 1, "\(entries.count) entries: \(entries.map(\.text))")
    if vault.trouble != nil || vault.kept.erasing > 0 { trial.check(entries.count == 1, "the journal is silent") }
    let name = StoreError(errno: errno, "", "").reason
    trial.check(vault.trouble.map { $0.reason == name } ?? true, "it is called \(vault.trouble?.code ?? "")")
  }
}
