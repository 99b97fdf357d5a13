import Air
import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

@Suite("Several credential transfers at a time")
struct SeveralVisitorsTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Each of four simultaneous wallets has its own key, transfer and counts")
  func together() async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: AirConditions(latency: .milliseconds(20), maximumMTU: 185), decision: .client)
      let credentials = (1...4).map { sampleCredential(5000 * $0, seed: UInt64($0)) }
      var codes: [String] = []
      var outgoing: [Transfer] = []
      for (number, credential) in credentials.enumerated() {
        codes.append(hall.verifier.connectionURI)
        outgoing.append(try hall.addWallet().send(hall.verifier.connectionURI, credential))
        let isServed = hall.time.run(until: { hall.verifier.visitors == number + 1 }, limit: .seconds(2))
        #expect(isServed)
      }
      #expect(Set(codes).count == 4 && !codes.contains(hall.verifier.connectionURI))
      #expect(hall.verifier.state == .serving && hall.verifier.held.visits == 4)
      hall.time.run(
        until: { hall.verifier.transfers.transfers.allSatisfy { $0.credential != nil } }, limit: .seconds(10))
      let incoming = hall.verifier.transfers.transfers
      #expect(incoming.count == 4 && incoming.allSatisfy { $0.state == .received })
      let areRight = incoming.map(\.credential) == credentials
      #expect(areRight)
      #expect(Set(incoming.map(\.figures.bytesExpected)).count == 4)
      // Each wallet receives its own verdict.
      for (number, transfer) in incoming.enumerated() {
        let isJudged = hall.verifier.decide(transfer, accepted: number.isMultiple(of: 2))
        #expect(isJudged)
      }
      hall.time.run(until: { outgoing.allSatisfy { !$0.isLive } }, limit: .seconds(5))
      #expect(outgoing.map(\.state) == [.accepted, .rejected, .accepted, .rejected])
    }
  }

  @Test("Disconnecting one of three wallets makes only its transfer fail, and the others complete")
  func dismissed() async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: AirConditions(latency: .milliseconds(20), maximumMTU: 185))
      var outgoing: [Transfer] = []
      for number in 1...3 {
        outgoing.append(try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(100_000)))
        let isServed = hall.time.run(until: { hall.verifier.visitors == number }, limit: .seconds(2))
        #expect(isServed)
      }
      let incoming = hall.verifier.transfers.transfers
      try #require(incoming.count == 3 && incoming.allSatisfy(\.isLive))
      let hasLink = hall.verifier.disconnect(incoming[1])
      #expect(hasLink)
      hall.time.run(until: { hall.verifier.visitors == 2 }, limit: .seconds(2))
      #expect(outgoing.map(\.isLive) == [true, false, true])
      hall.time.run(until: { outgoing.allSatisfy { !$0.isLive } }, limit: .seconds(60))
      #expect(outgoing.map(\.state) == [.accepted, .failed, .accepted])
    }
  }

  @Test("Without a powered radio there is no QR code, and the radio's loss and return are signalled")
  func radioDown() async {
    await LoopActor.run {
      let hall = Hall()
      var seen: [Bool] = []
      hall.verifier.observe(
        changed: { [weak hall] in seen.append(hall?.verifier.connectionURI.isEmpty ?? true) }, received: { _ in })
      hall.kioskRadio.power = false
      hall.time.advance(by: .seconds(1))
      #expect(hall.verifier.connectionURI.isEmpty && seen.last == true)
      hall.kioskRadio.power = true
      hall.time.advance(by: .seconds(1))
      #expect(!hall.verifier.connectionURI.isEmpty && seen.last == false)
      hall.verifier.stop()
      #expect(hall.verifier.connectionURI.isEmpty)
    }
  }
}
