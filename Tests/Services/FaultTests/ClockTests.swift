import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers

@testable import Verifier

/// The wall clock may be set at any time: by a person, or by the network when the machine has found it.
@Suite("A wall clock that is set neither loses a credential nor keeps it for ever", .serialized)
struct ClockTests {
  private static let hour: Int64 = 3600
  private static let year: Int64 = 365 * 24 * 3600
  private static let jumps = [hour, -hour, year, -year]

  init() { EventLoop.shared.runInBackground() }

  @Test(
    "Set at any event of a visit, it changes nothing: the credential waits its time, over a restart too",
    arguments: jumps, Seeds.few)
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
          // 200 seconds before its time is over.
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

  @Test("Set while a credential waits, a minute before the service dies", arguments: jumps, Seeds.usual)
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

  @Test(
    "Set back while the service was down, it makes nothing immortal, however often that restarts",
    arguments: [-hour, -year], Seeds.usual)
  func backWhileDown(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = try Self.receive(in: cabinet, seed) { _ in }
      cabinet.crash()
      cabinet.setClock(by: jump)
      // From now on it has its whole time once more; each run is 900 s of it.
      for run in 1...9 {
        try Trial.run("clock set back by \(-jump) s, start \(run)", cabinet.hall(seed: seed)) { trial in
          trial.hall.verifier.restore()
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
    "Set forward while the service was down, it takes from a credential's time what it was set by, with a word",
    arguments: [hour, year], Seeds.usual)
  func forwardWhileDown(jump: Int64, seed: UInt64) async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let credential = try Self.receive(in: cabinet, seed) { _ in }
      cabinet.crash()
      cabinet.setClock(by: jump)
      try Trial.run("clock set forward by \(jump) s", cabinet.hall(seed: seed)) { trial in
        trial.hall.verifier.restore()
        if jump > Self.hour {
          trial.check(trial.hall.incoming == nil && cabinet.files.isEmpty, "it is still here")
        } else {
          trial.hall.time.advance(by: Cabinet.keepFor - .seconds(Self.hour + 60))
          trial.check(trial.hall.incoming?.credential == credential, "it is lost")
          trial.hall.time.advance(by: .seconds(61))
          trial.check(trial.hall.incoming?.credential == nil && cabinet.files.isEmpty, "it is still here")
        }
        trial.check(trial.log.complaints(of: "Verifier").count { $0.text.contains("too long") } == 1, "no word of it")
        try Self.expectOrdinaryVisit(trial)
      }
    }
  }

  @Test("Set while nobody is there and nothing waits, it changes nothing", arguments: jumps, Seeds.usual)
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

  /// A visit whose credential nobody judges, and what happens then.
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

  /// It is restored, waits for 100 seconds at least, and for 300 at most.
  @LoopActor
  private static func expectRest(of credential: [UInt8], in trial: Trial, _ cabinet: Cabinet) throws {
    trial.hall.verifier.restore()
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
