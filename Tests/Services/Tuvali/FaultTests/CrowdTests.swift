import Air
import Common
import Hall
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// Simultaneous wallets, and wallets one after the other.
@Suite("Many wallets at one verifier", .serialized)
struct CrowdTests {
  init() { EventLoop.shared.runInBackground() }

  private struct Weak {
    weak var object: AnyObject?
  }

  @Test("After 200 wallets the verifier has no more state than after 20", arguments: Seeds.few)
  func twoHundredVisitors(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("visitors", Hall(seed: seed, conditions: Trial.quick)) { trial in
        var seen: [Weak] = []
        var invitations: Set<String> = []
        for number in 1...200 {
          let isNew = invitations.insert(trial.hall.verifier.connectionURI).inserted
          trial.check(isNew || number % 4 == 1, "a key came twice, at visitor \(number)")
          let wallet = trial.hall.addWallet()
          let credential = sampleCredential(400, seed: UInt64(number))
          let transfer = try wallet.send(trial.hall.verifier.connectionURI, credential)
          // Every fourth wallet vanishes during its transfer; the next one may have to read the same code.
          if number % 4 == 0 {
            trial.hall.time.run(until: { trial.hall.verifier.state == .serving }, limit: .seconds(2))
            for link in trial.hall.air.links { trial.hall.air.cut(link) }
          }
          trial.check(trial.hall.finish(transfer, limit: .seconds(10)), "visitor \(number) does not end")
          trial.check(transfer.state == (number % 4 == 0 ? .failed : .accepted), "visitor \(number): \(transfer.state)")
          seen.append(Weak(object: trial.hall.incoming))
          trial.check(trial.hall.verifier.held == .init(), "after visitor \(number): \(trial.hall.verifier.held)")
        }
        trial.expectNothingLeft()
        trial.check(trial.hall.verifier.transfers.transfers.count <= 16, "the list has no end")
        trial.check(seen.count { $0.object != nil } <= 16, "\(seen.count { $0.object != nil }) transfers live")
        trial.check(trial.hall.verifier.counters.visits == 200, "\(trial.hall.verifier.counters)")
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "2, 3 or 10 wallets that connect at any packet of a transfer do not disturb it",
    arguments: [1, 2, 9], Seeds.few)
  func bargingIn(others: Int, seed: UInt64) async throws {
    try await LoopActor.run {
      // Packet 0 is the first wallet's Identify; a wallet that is faster becomes the first.
      for number in 1... {
        let hall = Hall(
          seed: seed, conditions: Trial.quick,
          configure: {
            $0.visitors = 16
            $0.waitingLinks = 16
          })
        var hasBarged = false
        try Trial.run("\(others) more at packet \(number)", hall) { trial in
          let (transfer, _) = try trial.send()
          let wallet = hall.walletRadios[0].address
          let phones = (0..<others).map { _ in Phone(in: hall) }
          // Slow enough for the others to connect before the first wallet's Identify arrives.
          var slow = AirConditions(latency: .milliseconds(60), maximumMTU: 185)
          let striker = Striker(at: number, where: { _ in true }) { _ in
            hasBarged = true
            hall.time.soon { for phone in phones { Self.barge(in: phone) } }
            return .deliver
          }
          slow.filter = striker.judge
          hall.air.setConditions(slow, between: wallet, and: hall.kioskRadio.address)
          // The first wallet counts when it uses the verifier's service: before, it is any peer.
          hall.time.run(until: { hall.verifier.held.links == 1 }, limit: .seconds(2))
          for phone in phones { phone.connect() }
          let ended = hall.time.run(until: { !transfer.isLive }, limit: .seconds(20))
          trial.check(ended, "the first does not end")
          trial.check(
            transfer.state == .accepted && hall.hasReceived(trial.credentials[0]),
            "the first is \(transfer.state): \(transfer.error?.sentence ?? "")")
          if hasBarged {
            trial.check(hall.verifier.counters.visits == others + 1, "\(hall.verifier.counters.visits) were served")
          }
          for phone in phones { phone.leave() }
          trial.expectWaiting(within: .seconds(11))
          try trial.expectOrdinaryVisit()
        }
        guard hasBarged else { return #expect(number > 8) }
      }
    }
  }

  /// Makes all requests by which a second wallet could disturb the first one's transfer.
  @LoopActor
  private static func barge(in phone: Phone) {
    phone.write([1], to: .transferReportRequest, as: .command)
    phone.write([0, 0, 0, 17], to: .responseSize, as: .command)
    phone.write([0, 1, 0, 0, 7], to: .submitResponse, as: .command)
    let identify = try? Phone.identify(to: phone.hall.verifier.connectionURI, seed: phone.radio.address.value)
    phone.write(identify?.value ?? [], to: .identify)
    phone.write([0, 0, 0, 17], to: .responseSize)
  }

  @Test(
    "500 connections with random writes or none leave no state in the verifier",
    arguments: Seeds.few)
  func flood(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("flood", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let hall = trial.hall
        var dice = Dice(seed)
        var phones: [Phone] = []
        for number in 0..<500 {
          let phone = Phone(in: hall)
          phones.append(phone)
          phone.connect(mtu: [nil, 23, 67, 185, 517][dice.below(5)], subscribing: dice.below(2) == 0)
          if number.isMultiple(of: 2) {
            for characteristic in Characteristic.allCases {
              let kind: WriteKind = dice.below(2) == 0 ? .request : .command
              phone.write(dice.bytes(dice.below(60)), to: characteristic, as: kind)
            }
          }
          hall.time.advance(by: .milliseconds(dice.below(300)))
          if dice.below(3) == 0 { phone.leave() }
          // Eight waiting wallets, four sessions, and some that are disconnecting.
          trial.check(hall.verifier.held.links <= 16, "\(hall.verifier.held.links) links at a time")
        }
        let counters = hall.verifier.counters
        trial.check(
          counters.silentLinks > 20 && counters.refused > 20 && counters.ignoredWrites > 100,
          "hardly anybody came: \(counters)")
        // Peers that were taken for wallets are silent now.
        trial.expectWaiting(within: .seconds(61))
        hall.time.advance(by: .seconds(6))
        trial.check(!phones.contains { $0.isConnected }, "somebody is still connected")
        trial.check(hall.verifier.transfers.transfers.count <= 16, "the list has no end")
        let minutes = Int(hall.time.now.nanoseconds / 60_000_000_000) + 1
        trial.check(trial.log.records.count <= minutes * 65 * 6 * 2, "\(trial.log.records.count) lines in the journal")
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("A verifier that stops while it refuses wallets closes their links, too", arguments: Seeds.usual)
  func stoppedWhileRefusing(seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Hall(seed: seed, conditions: Trial.quick, configure: { $0.visitors = 1 })
      try Trial.run("stopped while refusing", hall) { trial in
        let (first, second) = (Phone(in: hall), Phone(in: hall))
        second.connect()
        hall.time.advance(by: .milliseconds(200))
        try first.identify()
        first.write(ResponseSize(1000).bytes(as: .bigEndian), to: .responseSize)
        trial.check(
          hall.time.run(until: { hall.incoming?.state == .transferring }, limit: .seconds(1)), "not served")
        Self.barge(in: second)
        let isRefused = hall.time.run(
          until: { hall.verifier.transfers.transfers.contains { $0.state == .failed } }, limit: .seconds(1))
        trial.check(isRefused, "not refused")
        hall.verifier.stop()
        trial.check(hall.verifier.held == .init(), "stopped, it holds \(hall.verifier.held)")
        hall.time.advance(by: .milliseconds(50))
        trial.check(!first.isConnected && !second.isConnected, "somebody is still connected")
        hall.time.advance(by: .milliseconds(10))
        _ = hall.verifier.start()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("Eight connections that send nothing block other wallets for at most 10 s", arguments: Seeds.usual)
  func eightSilentOnes(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("eight silent ones", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let phones = (0..<8).map { _ in Phone(in: trial.hall) }
        for phone in phones { phone.connect() }
        trial.check(
          trial.hall.time.run(until: { !phones.contains { !$0.isConnected } }, limit: .seconds(1)), "not all are in")
        let (late, _) = try trial.send()
        trial.expectEnd(of: late, within: .seconds(2))
        trial.check(late.state == .failed, "the ninth got in")
        trial.expectWaiting(within: .seconds(10))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("Releasing a verifier and its wallets frees all their objects", arguments: Seeds.usual)
  func freed(seed: UInt64) async throws {
    try await LoopActor.run {
      var kept: [Weak] = []
      try Trial.run("let go", Hall(seed: seed, conditions: Trial.quick)) { trial in
        try trial.expectOrdinaryVisit()
        let (transfer, wallet) = try trial.send()
        trial.hall.time.run(until: { transfer.state == .transferring }, limit: .seconds(5))
        let objects: [AnyObject?] = [trial, trial.hall, trial.hall.verifier, wallet, transfer, trial.hall.incoming]
        kept = objects.map { Weak(object: $0) }
      }
      #expect(kept.count == 6)
      #expect(kept.compactMap { $0.object.map { "\(type(of: $0))" } } == [])
    }
  }

  @Test("Forty failing wallets do not evict a received credential", arguments: Seeds.few)
  func failuresPushNothingOut(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("failing crowd", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let (first, _) = try trial.send()
        trial.check(trial.hall.finish(first), "the first does not end")
        let received = try #require(trial.hall.incoming)
        for _ in 0..<40 {
          let phone = Phone(in: trial.hall)
          phone.connect(mtu: 23)
          trial.hall.time.advance(by: .seconds(1))
        }
        trial.check(trial.hall.verifier.counters.failed == 40, "they did not fail")
        trial.check(trial.hall.verifier.transfers.transfers.contains { $0 === received }, "it is gone")
        try trial.expectOrdinaryVisit()
      }
    }
  }
}
