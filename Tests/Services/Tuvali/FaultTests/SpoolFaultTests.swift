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

/// Lasting faults: a disk that hangs, a spool that cannot be opened, files that cannot be read or erased.
@Suite("Faults of the verifier's spool", .serialized)
struct SpoolFaultTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A disk that hangs delays one wallet by 5 s and the next not at all", arguments: Seeds.usual)
  func hangs(seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(seed: seed)
      hall.restore()
      var credentials: [[UInt8]] = []
      try Trial.run("disk hangs", hall) { trial in
        let worker = try #require(cabinet.worker)
        worker.hangs = true
        for number in 0..<4 {
          let start = hall.time.now
          let (transfer, _) = try trial.send()
          trial.check(hall.time.run(until: { transfer.state == .received }, limit: .seconds(10)), "not received")
          let wait = start.duration(to: hall.time.now)
          trial.check((wait > .seconds(5)) == (number == 0) && wait < .seconds(7), "visit \(number) took \(wait)")
          trial.expectEnd(of: transfer, within: .seconds(32))
          trial.expectWaiting(within: .seconds(1))
        }
        trial.check(worker.underWay == 1, "\(worker.underWay) pieces of work hang")
        trial.check(hall.verifier.vault.trouble?.reason == .diskStalled, "no trouble")
        trial.check(trial.log.records.count { $0.id == .storeDegraded } == 1, "not one entry")
        // A verdict is not delayed, either.
        var answers = 0
        let transfers = hall.verifier.transfers.transfers
        for transfer in transfers.prefix(2) {
          _ = hall.verifier.decide(transfer, accepted: false, then: { answers += 1 })
        }
        trial.check(answers == 2, "\(answers) verdicts are answered")
        worker.hangs = false
        hall.time.advance(by: .seconds(1))
        trial.check(hall.verifier.vault.trouble == nil, "the disk answers, and nobody has noticed")
        trial.check(cabinet.files.count == 2 && hall.verifier.vault.kept == (2, 0), "on the disk: \(cabinet.files)")
        credentials = trial.credentials
      }
      cabinet.crash()
      Trial.run("disk hung, and restarted", cabinet.hall(seed: seed)) { trial in
        trial.hall.restore()
        let restored = trial.hall.verifier.transfers.transfers.compactMap(\.credential)
        let areWhole = Set(restored) == Set(credentials.suffix(2))
        trial.check(areWhole, "\(restored.count) are restored")
      }
    }
  }

  @Test("On a read-only disk a verdict frees the verifier's capacity, and the next wallet is served from memory")
  func readOnlyMakesRoom() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      cabinet.limits.maximumCount = 2
      let hall = cabinet.hall(keptTransfers: 2)
      try Trial.run("read-only, and full", hall) { trial in
        hall.restore()
        for _ in 0..<2 {
          let (transfer, _) = try trial.send()
          trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
        }
        cabinet.disk.fail { $0.operation.writes ? EROFS : nil }
        trial.check(hall.verifier.connectionURI.isEmpty && hall.verifier.state == .full, "there is room")
        let waiting = try #require(hall.verifier.transfers.transfers.first)
        trial.check(hall.verifier.decide(waiting, accepted: false), "no verdict")
        for _ in 0..<2 {
          let (served, _) = try trial.send()
          trial.check(hall.finish(served, limit: .seconds(60)), "it does not end")
          trial.check(served.state == .undecided && hall.incoming?.state == .received, "it is \(served.state)")
          let credential = trial.credentials.last
          trial.check(hall.incoming?.credential == credential, "it is not kept")
          // The disk stays faulty, and the capacity stays used; the next verdict frees some again.
          if let incoming = hall.incoming { _ = hall.verifier.decide(incoming, accepted: false) }
        }
        let (last, _) = try trial.send()
        trial.check(hall.finish(last, limit: .seconds(60)) && last.state == .undecided, "it is \(last.state)")
        cabinet.disk.fail(nil)
        hall.time.advance(by: .seconds(130))
        trial.check(cabinet.files.count == 2 && hall.verifier.vault.kept == (2, 0), "on the disk: \(cabinet.files)")
        trial.check(hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
      }
    }
  }

  @Test("A verdict is answered after 5 s if the disk hangs", arguments: [true, false])
  func verdictWaits(isAccepted: Bool) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall()
      try Trial.run("disk hangs at the verdict", hall) { trial in
        let (transfer, _) = try trial.send()
        trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
        cabinet.worker?.hangs = true
        var answeredAt: Instant?
        let start = hall.time.now
        let incoming = try #require(hall.incoming)
        _ = hall.verifier.decide(incoming, accepted: isAccepted, then: { answeredAt = hall.time.now })
        hall.time.advance(by: .seconds(20))
        trial.check(
          answeredAt.map { start.duration(to: $0) } == .seconds(5), "answered at \(String(describing: answeredAt))")
        trial.check(hall.verifier.vault.kept == (0, 1) && hall.verifier.vault.trouble != nil, "no trouble")
        // Stopping the service does not wait for ever.
        var isOver = false
        hall.verifier.vault.whenIdle(within: .seconds(2)) { isOver = true }
        hall.time.advance(by: .seconds(2))
        trial.check(isOver, "it does not stop")
        cabinet.worker?.hangs = false
        hall.time.advance(by: .seconds(1))
        trial.check(hall.verifier.vault.kept == (0, 0) && cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
      }
    }
  }

  @Test(
    "If the spool could not be opened, this is repeated with the next credential or after 60 s",
    arguments: [true, false], [ENOSPC, EIO, EROFS, EACCES])
  func openedLater(hasVisitor: Bool, errno: Int32) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      var credentials: [[UInt8]] = []
      try Trial.run("before", cabinet.hall()) { trial in
        let (transfer, _) = try trial.send(500)
        trial.check(trial.hall.finish(transfer, limit: .seconds(60)), "it does not end")
        credentials = trial.credentials
      }
      cabinet.crash()
      let hall = cabinet.hall()
      try Trial.run("no spool, \(errno)", hall) { trial in
        cabinet.disk.fail { _ in errno }
        hall.restore()
        trial.check(hall.verifier.vault.trouble?.reason == StoreError(errno: errno, "", "").reason, "no trouble")
        for _ in 0..<2 {
          let (transfer, _) = try trial.send()
          trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
          trial.check(hall.incoming?.state == .received, "it is not received")
        }
        trial.check(trial.log.records.count { $0.id == .storeDegraded } == 1, "not one entry")
        cabinet.disk.fail(nil)
        if hasVisitor {
          let (transfer, _) = try trial.send()
          trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
        } else {
          hall.time.advance(by: .seconds(61))
        }
        trial.check(hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
        let there = Set(hall.verifier.transfers.transfers.compactMap(\.credential))
        trial.check(there == Set(credentials + trial.credentials), "\(there.count) are here")
        trial.check(cabinet.files.count == there.count, "on the disk: \(cabinet.files)")
      }
    }
  }

  @Test(
    "Files sealed with another key are reported once, and no wallet is refused because of them"
  )
  func otherKey() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      cabinet.limits.maximumCount = 4
      let before = cabinet.hall(keptTransfers: 4)
      for seed in 1...4 as ClosedRange<UInt64> { _ = try before.visit(sampleCredential(300, seed: seed)) }
      cabinet.crash()
      cabinet.disk.move("/state/spool.key", to: "/state/old.key")
      let files = cabinet.files
      let hall = cabinet.hall(keptTransfers: 4)
      try Trial.run("another key", hall) { trial in
        var changes = 0
        hall.verifier.observe(changed: { changes += 1 }, received: { _ in })
        hall.restore()
        trial.check(hall.verifier.vault.trouble?.reason == .keyMissing && changes > 0, "no trouble")
        trial.check(hall.verifier.vault.trouble?.sentence.hasPrefix("4 cannot be read") == true, "how many?")
        trial.check(trial.log.records.count { $0.id == .storeDegraded } == 1, "not one entry")
        trial.check(trial.log.records.contains { $0.text.contains("created now") }, "not a word of the key")
        trial.check(
          trial.log.records.contains { $0.level == .warning && $0.text.contains("with a different key") },
          "no warning of the key")
        let (transfer, _) = try trial.send()
        trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
        trial.check(hall.incoming?.state == .received && cabinet.files.count == 5, "it is not kept")
        hall.time.advance(by: .seconds(600))
        trial.check(trial.log.records.count { $0.id == .storeDegraded } == 1, "said again and again")
        for file in files { cabinet.disk.move("/state/spool/\(file)", to: "/state/\(file)") }
        hall.time.advance(by: .seconds(61))
        trial.check(hall.verifier.vault.trouble == nil, "they are gone, and nobody has noticed")
      }
    }
  }

  @Test("Damaged spool files are reported until they expire, without a restart")
  func damaged() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let before = cabinet.hall()
      for seed in 1...2 as ClosedRange<UInt64> { _ = try before.visit(sampleCredential(300, seed: seed)) }
      cabinet.crash()
      let now = cabinet.seconds
      for file in cabinet.files {
        cabinet.disk.change("/state/spool/\(file)") {
          $0.bytes[80] ^= 1
          $0.modified = now
        }
      }
      let hall = cabinet.hall()
      Trial.run("damaged files", hall) { trial in
        hall.restore()
        trial.check(hall.verifier.vault.trouble?.reason == .damaged, "no trouble")
        trial.check(trial.log.records.count { $0.id == .storeDegraded } == 1, "not one entry")
        trial.check(cabinet.files.allSatisfy { $0.hasSuffix(".record.damaged") }, "on the disk: \(cabinet.files)")
        hall.time.advance(by: Cabinet.keepFor)
        trial.check(hall.verifier.vault.trouble?.reason == .damaged && cabinet.files.count == 2, "gone too early")
        hall.time.advance(by: .seconds(61))
        trial.check(hall.verifier.vault.trouble == nil && cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
        trial.check(hall.time.runUntilIdle(limit: .seconds(3600)), "it wakes up for nothing")
      }
    }
  }

  @Test("A credential that the disk failed to read appears when the disk works again")
  func unread() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = sampleCredential(300)
      _ = try cabinet.hall().visit(credential)
      cabinet.crash()
      let hall = cabinet.hall()
      Trial.run("disk does not read", hall) { trial in
        cabinet.disk.fail { $0.operation == .read && Cabinet.isUnjudged($0.name) ? EIO : nil }
        var told: [[UInt8]?] = []
        hall.verifier.observe(changed: {}, received: { told.append($0.credential) })
        hall.restore()
        trial.check(hall.verifier.vault.trouble?.reason == .diskFailed && hall.incoming == nil, "no trouble")
        hall.time.advance(by: .seconds(300))
        cabinet.disk.fail(nil)
        hall.time.advance(by: .seconds(61))
        trial.check(hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
        trial.check(hall.incoming?.credential == credential, "it is lost")
        trial.check(told == [credential], "programs are not told once: \(told.count)")
      }
    }
  }

  @Test("A credential that could not be erased is reported until it is erased")
  func unerased() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall()
      try Trial.run("nothing can be erased", hall) { trial in
        for _ in 0..<2 {
          let (transfer, _) = try trial.send()
          trial.check(hall.finish(transfer, limit: .seconds(60)), "it does not end")
        }
        var seen: [StoreError.Reason?] = []
        hall.verifier.observe(
          changed: { [weak hall] in seen.append(hall?.verifier.vault.trouble?.reason) }, received: { _ in })
        cabinet.disk.fail { $0.operation == .rename ? EIO : nil }
        var answers = 0
        for transfer in hall.verifier.transfers.transfers {
          _ = hall.verifier.decide(transfer, accepted: false, then: { answers += 1 })
        }
        hall.time.advance(by: .seconds(200))
        trial.check(answers == 2 && hall.verifier.vault.kept == (0, 2), "\(answers) answers")
        trial.check(hall.verifier.vault.trouble?.reason == .diskFailed && seen == [.diskFailed], "seen: \(seen)")
        trial.check(!hall.verifier.vault.troubleInShort.isEmpty, "no word for the status")
        trial.check(trial.log.records.count { $0.id == .storeDegraded } == 1, "not one entry")
        cabinet.disk.fail(nil)
        hall.time.advance(by: .seconds(61))
        trial.check(hall.verifier.vault.trouble == nil && seen.last == .some(nil), "seen: \(seen)")
        trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
      }
    }
  }
}
