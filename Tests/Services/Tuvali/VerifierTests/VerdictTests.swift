import Air
import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

@Suite("Delivery of verdicts to phones")
struct VerdictTests {
  init() { EventLoop.shared.runInBackground() }

  /// A hall where a phone waits for the verdict on its credential.
  @LoopActor
  private static func waiting(_ cabinet: Cabinet? = nil) throws -> (hall: Hall, outgoing: Transfer, incoming: Transfer)
  {
    let hall = cabinet?.hall() ?? Hall(decision: .client)
    let outgoing = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(500))
    let isReceived = hall.time.run(until: { outgoing.state == .received }, limit: .seconds(5))
    #expect(isReceived)
    return (hall, outgoing, try #require(hall.incoming))
  }

  @Test("A verdict that the radio accepted for a connected phone is reported as sent", arguments: [true, false])
  func sent(accepted: Bool) async throws {
    try await LoopActor.run {
      let (hall, outgoing, incoming) = try Self.waiting()
      #expect(incoming.verdictDelivery == VerdictDelivery.none)
      var shown: [String] = []
      incoming.onChange { shown.append("\($0.state) \($0.verdictDelivery)") }
      let isJudged = hall.verifier.decide(incoming, accepted: accepted)
      #expect(isJudged && incoming.verdictDelivery == .sent && incoming.verdictDeadline == 0)
      // The state and the delivery of a verdict change in one signal.
      #expect(shown.first == "\(accepted ? "accepted" : "rejected") sent")
      hall.time.run(until: { !outgoing.isLive }, limit: .seconds(5))
      #expect(outgoing.state == (accepted ? .accepted : .rejected))
    }
  }

  @Test("A verdict given after the link was lost is reported as not delivered", arguments: [true, false])
  func linkLost(accepted: Bool) async throws {
    try await LoopActor.run {
      let (hall, _, incoming) = try Self.waiting()
      for link in hall.air.links { hall.air.cut(link) }
      hall.time.advance(by: .seconds(1))
      #expect(!incoming.isLive && incoming.verdictDeadline == 0)
      let isJudged = hall.verifier.decide(incoming, accepted: accepted)
      #expect(isJudged && incoming.verdictDelivery == .peerGone)
    }
  }

  @Test("A verdict for a phone that was asked to disconnect is reported as not delivered")
  func askedToLeave() async throws {
    try await LoopActor.run {
      let (hall, outgoing, incoming) = try Self.waiting()
      let hasLink = hall.verifier.disconnect(incoming)
      // The link is still up: the phone has half a second to leave by itself.
      #expect(hasLink && incoming.isLive)
      let isJudged = hall.verifier.decide(incoming, accepted: true)
      #expect(isJudged && incoming.verdictDelivery == .peerGone)
      hall.time.run(until: { !outgoing.isLive }, limit: .seconds(5))
      #expect(outgoing.state == .undecided)
    }
  }

  @Test("A verdict given while the adapter is off is reported as not delivered")
  func adapterOff() async throws {
    try await LoopActor.run {
      let (hall, _, incoming) = try Self.waiting()
      hall.kioskRadio.power = false
      let isJudged = hall.verifier.decide(incoming, accepted: true)
      #expect(isJudged && incoming.verdictDelivery == .peerGone)
    }
  }

  @Test("With Decision=accept the verdict is reported as sent")
  func automatic() async throws {
    try await LoopActor.run {
      let hall = Hall()
      _ = try hall.visit(sampleCredential(500))
      #expect(hall.incoming?.state == .accepted && hall.incoming?.verdictDelivery == .sent)
    }
  }

  @Test(
    "The verdict deadline is when the phone is asked to disconnect, and is adjusted to the wall clock")
  func deadline() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let (hall, outgoing, incoming) = try Self.waiting(cabinet)
      let left = incoming.verdictDeadline - cabinet.milliseconds
      #expect((29_000...30_000).contains(left))
      cabinet.setClock(by: -3600)
      #expect(abs(incoming.verdictDeadline - cabinet.milliseconds - left) <= 1)
      hall.time.advance(by: .milliseconds(left - 2))
      #expect(outgoing.isLive && incoming.verdictDeadline > 0)
      hall.time.run(until: { !incoming.isLive }, limit: .seconds(2))
      #expect(incoming.state == .received && incoming.verdictDeadline == 0)
    }
  }

  @Test("A credential of an earlier run has no verdict deadline, and its verdict is not delivered")
  func earlierRun() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      _ = try Self.waiting(cabinet)
      cabinet.crash()
      let hall = cabinet.hall()
      hall.restore()
      let incoming = try #require(hall.incoming)
      #expect(incoming.state == .received && incoming.verdictDeadline == 0)
      let isJudged = hall.verifier.decide(incoming, accepted: false)
      #expect(isJudged && incoming.verdictDelivery == .peerGone)
    }
  }
}

private typealias VerdictDelivery = Transfer.VerdictDelivery
