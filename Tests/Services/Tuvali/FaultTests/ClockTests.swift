import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers

@testable import Verifier

/// The wall clock may be set at any time: by a person, or by NTP.
@Suite("Changes of the wall clock at a verifier", .serialized)
struct ClockTests {
  private static let hour: Int64 = 3600
  private static let year: Int64 = 365 * 24 * 3600
  private static let jumps = [hour, -hour, year, -year]

  init() { EventLoop.shared.runInBackground() }

  @Test(
    "Setting the clock after any event of a transfer changes no credential's expiry",
    arguments: jumps, Extent.of([1], all: Seeds.few))
  func anyEvent(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      var trials = 0
      var isOver = false
      while !isOver {
        let cabinet = Cabinet()
        let fault = "clock set by \(jump) s after event \(trials + 1)"
        var credential: [UInt8] = []
        try Trial.run(fault, cabinet.hall(seed: seed)) { trial in
          let (transfer, _) = try trial.send()
          for _ in 0...trials where transfer.isLive { trial.hall.time.runNext() }
          isOver = !transfer.isLive
          cabinet.setClock(by: jump)
          trial.expectEnd(of: transfer, within: .seconds(32))
          trial.expectWaiting(within: .seconds(1))
          trial.check(transfer.state == .undecided, "the wallet's end is \(transfer.state)")
          trial.expectComplaints()
          // 200 seconds before the expiry.
          trial.hall.time.advance(by: Cabinet.keepFor - .seconds(230))
          let incoming = try #require(trial.hall.incoming)
          trial.check(incoming.state == .received && incoming.credential != nil, "it is \(incoming.state)")
          credential = trial.credentials[0]
        }
        cabinet.crash()
        try Trial.run("\(fault), and restarted", cabinet.hall(seed: seed)) { trial in
          try Self.expectRest(of: credential, in: trial, cabinet)
        }
        trials += 1
      }
      #expect(trials > 15, "only \(trials) places")
    }
  }

  @Test(
    "Setting the clock 60 s before a crash, while a credential waits, does not change its expiry", arguments: jumps,
    Seeds.usual)
  func whileWaiting(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = try Self.receive(in: cabinet, seed) { trial in
        trial.hall.time.advance(by: .seconds(1000))
        cabinet.setClock(by: jump)
        trial.hall.time.advance(by: .seconds(61))
        trial.check(trial.log.records.contains { $0.text.contains("wall clock was set") }, "the journal is silent")
        trial.hall.time.advance(by: Cabinet.keepFor - .seconds(1291))
      }
      cabinet.crash()
      try Trial.run("clock set by \(jump) s while waiting", cabinet.hall(seed: seed)) { trial in
        try Self.expectRest(of: credential, in: trial, cabinet)
      }
    }
  }

  @Test("Setting the clock 1 s before a crash does not change a credential's expiry", arguments: jumps, Seeds.usual)
  func rightBefore(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = try Self.receive(in: cabinet, seed) { trial in
        trial.hall.time.advance(by: Cabinet.keepFor - .seconds(250))
        cabinet.setClock(by: jump)
        trial.hall.time.advance(by: .seconds(1))
      }
      cabinet.crash()
      try Trial.run("clock set by \(jump) s right before the end", cabinet.hall(seed: seed)) { trial in
        try Self.expectRest(of: credential, in: trial, cabinet)
      }
    }
  }

  @Test(
    "A verifier that starts with an old date loses no credential",
    arguments: [year, 40 * year], Seeds.few)
  func oldDateAtStart(by years: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      for isTold in [true, false] {
        let cabinet = Cabinet()
        let first = try Self.receive(in: cabinet, seed) { $0.hall.time.advance(by: .seconds(1000)) }
        cabinet.crash()
        cabinet.setClock(by: -years)
        let fault = "started \(years) s too early, \(isTold ? "told" : "not told") the date"
        var second: [UInt8] = []
        try Trial.run(fault, cabinet.hall(seed: seed)) { trial in
          trial.hall.restore()
          trial.check(trial.hall.incoming?.credential == first, "it is lost at the start")
          let (transfer, _) = try trial.send(500)
          trial.check(trial.hall.finish(transfer), "it does not end")
          second = trial.credentials[0]
          if isTold {
            cabinet.setClock(by: years)
            trial.hall.time.advance(by: .seconds(1))
          }
        }
        cabinet.crash()
        if !isTold { cabinet.setClock(by: years) }
        try Trial.run("\(fault), and restarted", cabinet.hall(seed: seed)) { trial in
          trial.hall.restore()
          let here = trial.hall.verifier.transfers.transfers.compactMap(\.credential)
          trial.check(here.contains(first), "the one from before is lost")
          // A wrong but plausible clock that was never set cannot be recognized.
          trial.check(here.contains(second) || !isTold && years == Self.year, "the one from meanwhile is lost")
          trial.hall.time.advance(by: Cabinet.keepFor - .seconds(900))
          let isOld = !trial.hall.verifier.transfers.transfers.contains { $0.credential == first }
          trial.check(isOld, "its time before the start is forgotten")
          trial.hall.time.advance(by: .seconds(901))
          trial.check(cabinet.files.isEmpty, "it is still on the disk")
          try Self.expectOrdinaryVisit(trial)
        }
      }
    }
  }

  @Test(
    "Changing the dates of spool files is logged once, however often the disk refuses", arguments: jumps)
  func toldOnce(jump: Int64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      _ = try Self.receive(in: cabinet, 1) { trial in
        cabinet.disk.fail { $0.operation.writes ? 30 : nil }
        cabinet.setClock(by: jump)
        trial.hall.time.advance(by: .seconds(600))
        var notices: Int { trial.log.records.count { $0.text.contains("wall clock was set") } }
        trial.check(notices == 0, "it is said before it is so")
        trial.check(trial.log.records.count { $0.id == .storeDegraded } == 1, "it is not said once what is wrong")
        trial.check(trial.hall.verifier.vault.trouble?.reason == .readOnly, "no trouble")
        cabinet.disk.fail(nil)
        trial.hall.time.advance(by: .seconds(600))
        trial.check(notices == 1, "it is said \(notices) times")
        trial.check(trial.hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
      }
    }
  }

  @Test(
    "A clock set back while the service was down does not extend a credential's expiry without limit",
    arguments: [-hour, -year], Seeds.usual)
  func backWhileDown(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = try Self.receive(in: cabinet, seed) { _ in }
      cabinet.crash()
      cabinet.setClock(by: jump)
      // From now on the full time to keep applies again; each run uses 900 s of it.
      for run in 1...9 {
        try Trial.run("clock set back by \(-jump) s, start \(run)", cabinet.hall(seed: seed)) { trial in
          trial.hall.restore()
          let isHere = trial.hall.incoming?.credential == credential
          trial.check(isHere == (run <= 8), "it is \(isHere ? "still" : "no longer") here")
          trial.hall.time.advance(by: .seconds(901))
          trial.check(cabinet.files.isEmpty == (run >= 8), "\(cabinet.files.count) files")
          if run == 9 { try Self.expectOrdinaryVisit(trial) }
        }
        cabinet.crash()
      }
    }
  }

  @Test(
    "A clock set forward while the service was down shortens a credential's expiry by the same time",
    arguments: [hour, year], Seeds.usual)
  func forwardWhileDown(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = try Self.receive(in: cabinet, seed) { _ in }
      cabinet.crash()
      cabinet.setClock(by: jump)
      try Trial.run("clock set forward by \(jump) s", cabinet.hall(seed: seed)) { trial in
        trial.hall.restore()
        if jump > Self.hour {
          trial.check(trial.hall.incoming == nil && cabinet.files.isEmpty, "it is still here")
        } else {
          trial.hall.time.advance(by: Cabinet.keepFor - .seconds(Self.hour + 60))
          trial.check(trial.hall.incoming?.credential == credential, "it is lost")
          trial.hall.time.advance(by: .seconds(61))
          trial.check(trial.hall.incoming?.credential == nil && cabinet.files.isEmpty, "it is still here")
        }
        trial.check(
          trial.log.complaints(of: "Verifier").count { $0.text.contains("longer than KeepFor=") } == 1, "no word of it")
        try Self.expectOrdinaryVisit(trial)
      }
    }
  }

  @Test("A clock set far forward while the disk refuses new file dates erases no stored credential")
  func aheadOfHeld() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      _ = try Self.receive(in: cabinet, 1) { _ in }
      cabinet.crash()
      // A file under another key is inspected every minute.
      cabinet.disk.move("/state/spool.key", to: "/state/old.key")
      let other = cabinet.files
      var held = ""
      let credential = try Self.receive(in: cabinet, 2) { trial in
        held = cabinet.files.first { !other.contains($0) } ?? ""
        trial.check(cabinet.files.count == 2, "on the disk: \(cabinet.files)")
        cabinet.disk.fail { $0.operation == .create ? 30 : nil }
        cabinet.setClock(by: Self.year)
        trial.hall.time.advance(by: .seconds(300))
        trial.check(cabinet.files == [held], "on the disk: \(cabinet.files)")
        trial.check(trial.hall.incoming?.state == .received, "it is \(String(describing: trial.hall.incoming?.state))")
        cabinet.disk.fail(nil)
        trial.hall.time.advance(by: .seconds(61))
        trial.check(cabinet.files == [held], "on the disk: \(cabinet.files)")
      }
      cabinet.crash()
      Trial.run("clock set far forth, and restarted", cabinet.hall(seed: 3)) { trial in
        trial.hall.restore()
        trial.check(trial.hall.incoming?.credential == credential, "it is lost")
      }
    }
  }

  @Test(
    "With a clock that is not set, expiry counts running time, of which a power loss loses at most 10 min")
  func neverSet() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let dated = try Self.receive(in: cabinet, 1) { _ in }
      cabinet.crash()
      cabinet.setClock(by: -cabinet.seconds)
      var undated: [UInt8] = []
      try Trial.run("received in 1970", cabinet.hall(seed: 2)) { trial in
        trial.hall.restore()
        let (transfer, _) = try trial.send(500)
        trial.check(trial.hall.finish(transfer), "it does not end")
        undated = trial.credentials[0]
        trial.hall.time.advance(by: .seconds(1900))
      }
      // The kiosk is switched off every night. Each day has 1900 s, of which 1800 are recorded.
      for day in 1...3 {
        cabinet.crash()
        let names = cabinet.files
        Trial.run("still in 1970, day \(day)", cabinet.hall(seed: 2)) { trial in
          trial.hall.restore()
          let here = Set(trial.hall.verifier.transfers.transfers.compactMap(\.credential))
          trial.check(here == [dated, undated], "\(here.count) are here")
          trial.hall.time.advance(by: .seconds(day < 3 ? 1900 : 1799))
          trial.check(cabinet.files == names, "on the disk: \(cabinet.files)")
          trial.check(!trial.log.records.contains { $0.text.contains("were corrected") }, "files are dated")
          guard day == 3 else { return }
          trial.hall.time.advance(by: .seconds(121))
          trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
        }
      }
    }
  }

  @Test("Stopping the service loses no running time on a machine whose clock is not set")
  func neverSetAndStopped() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      cabinet.setClock(by: -cabinet.seconds)
      let credential = try Self.receive(in: cabinet, 1) { trial in
        trial.hall.time.advance(by: .seconds(1000))
        trial.hall.verifier.vault.whenIdle(within: .seconds(2), then: {})
        trial.hall.time.advance(by: .seconds(1))
      }
      for _ in 0..<20 {
        cabinet.crash()
        Trial.run("an hour's fraction in 1970", cabinet.hall(seed: 2)) { trial in
          trial.hall.restore()
          trial.hall.time.advance(by: .seconds(299))
          trial.hall.verifier.vault.whenIdle(within: .seconds(2), then: {})
          trial.hall.time.advance(by: .seconds(1))
        }
      }
      // 1000 s, 20 times 300 s, and 30 s of the session.
      cabinet.crash()
      Trial.run("the last of its time", cabinet.hall(seed: 2)) { trial in
        trial.hall.restore()
        trial.check(trial.hall.incoming?.credential == credential, "it is lost")
        trial.hall.time.advance(by: .seconds(100))
        trial.check(!cabinet.files.isEmpty, "it is gone too early")
        trial.hall.time.advance(by: .seconds(150))
        trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
      }
      cabinet.crash()
      Trial.run("after its time", cabinet.hall(seed: 2)) { trial in
        trial.hall.restore()
        trial.check(trial.hall.incoming == nil, "it is here again")
      }
    }
  }

  @Test("A credential that expired by running time is erased at the start and never shown")
  func tooOldAtStart() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      cabinet.setClock(by: -cabinet.seconds)
      _ = try Self.receive(in: cabinet, 1) { trial in
        trial.hall.time.advance(by: .seconds(1201))
      }
      cabinet.crash()
      try Trial.run("a shorter time to keep", cabinet.hall(seed: 2, keepFor: .seconds(600))) { trial in
        trial.hall.restore()
        trial.check(trial.hall.incoming == nil, "it is here")
        trial.hall.time.advance(by: .seconds(1))
        trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
        trial.check(
          trial.log.complaints(of: "Verifier").count { $0.text.contains("longer than KeepFor=") } == 1, "no word of it")
        try Self.expectOrdinaryVisit(trial)
      }
    }
  }

  @Test("Setting the clock while no credential waits changes nothing", arguments: jumps, Seeds.usual)
  func atRest(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      try Trial.run("clock set by \(jump) s at rest", cabinet.hall(seed: seed)) { trial in
        try Self.expectOrdinaryVisit(trial)
        cabinet.setClock(by: jump)
        try Self.expectOrdinaryVisit(trial)
        trial.check(!trial.log.records.contains { $0.level >= .warning }, "there is a warning")
      }
    }
  }

  /// A transfer whose credential is not judged, and its expiry.
  @LoopActor
  private static func receive(
    in cabinet: Cabinet, _ seed: UInt64, then: (Trial) throws -> Void
  ) throws -> [UInt8] {
    var credential: [UInt8] = []
    try Trial.run("before the clock is set", cabinet.hall(seed: seed)) { trial in
      let (transfer, _) = try trial.send()
      trial.check(trial.hall.finish(transfer), "it does not end")
      credential = trial.credentials[0]
      try then(trial)
    }
    return credential
  }

  /// The credential is restored, and stored for 100 to 300 s more.
  @LoopActor
  private static func expectRest(of credential: [UInt8], in trial: Trial, _ cabinet: Cabinet) throws {
    trial.hall.restore()
    let transfer = trial.hall.incoming
    trial.check(transfer?.credential == credential, "it is lost")
    trial.hall.time.advance(by: .seconds(100))
    trial.check(transfer?.state == .received, "its time was cut short")
    trial.hall.time.advance(by: .seconds(200))
    trial.check(transfer?.state == .undecided && transfer?.credential == nil, "its time is not over")
    trial.check(cabinet.files.isEmpty, "it is still on the disk")
    try expectOrdinaryVisit(trial)
  }

  @LoopActor
  private static func expectOrdinaryVisit(_ trial: Trial) throws {
    trial.hall.judge = { _ in true }
    try trial.expectOrdinaryVisit()
  }
}
