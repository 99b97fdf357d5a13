import Common
import Crypto
import Loop
import TestSupport
import Testing

@Suite("SIGKILL of the verifier service")
struct KillTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "After SIGKILL at 50 random moments each confirmed credential exists exactly once",
    arguments: ["client", "accept"])
  @LoopActor
  func atRandomMoments(decision: String) async throws {
    var random = SeededRandom(seed: 50)
    let counter = try await Counter(decision)
    defer { counter.close() }
    // One transfer measures the number of packets, and the pause before each.
    let whole = Self.credential(0, &random)
    let sample = try await counter.visit(whole, killAt: nil)
    #expect(sample.toldSuccess && sample.pauses.count > 8)
    #expect(try await counter.restartAndTake() == [whole])
    var told = 0
    for round in 1...50 {
      let credential = Self.credential(round, &random)
      // The moments cover a complete transfer and the time after it, on any machine.
      let packet = Int.random(in: 1...sample.pauses.count * 3 / 2, using: &random)
      let longest = sample.pauses.dropFirst(packet).first ?? sample.pauses.max() ?? .zero
      let moment = Counter.Moment(packet: packet, pause: longest * Double.random(in: 0...1, using: &random))
      let toldSuccess = try await counter.visit(credential, killAt: moment).toldSuccess
      let kept = try await counter.restartAndTake()
      let copies = kept.filter { $0 == credential }.count
      #expect(copies <= 1 && kept.count == copies, "round \(round)")
      if toldSuccess { #expect(copies == 1, "round \(round): lost, killed after \(moment)") }
      told += toldSuccess ? 1 : 0
    }
    #expect((5...45).contains(told), "the moments are no longer spread over the visit: \(told) of 50")
  }

  @Test(
    "After SIGKILL around the time of a verdict, a credential with a verdict is not offered again",
    arguments: ["Accept", "Reject"])
  @LoopActor
  func aroundVerdict(verdict: String) async throws {
    var random = SeededRandom(seed: 20)
    let counter = try await Counter("client")
    defer { counter.close() }
    var answered = 0
    for round in 1...20 {
      let credential = Self.credential(round, &random)
      try await counter.deliver(credential)
      // In odd rounds the service is killed when the reply arrives, in even rounds at a random moment.
      let moment = round.isMultiple(of: 2) ? Duration.microseconds(Int(random.bytes(1)[0]) * 20) : nil
      let wasAnswered = try await counter.judge(verdict, takes: true, killAfter: moment)
      let kept = try await counter.restartAndTake()
      #expect(kept.isEmpty || kept == [credential] && !wasAnswered, "round \(round): back after \(verdict)")
      answered += wasAnswered ? 1 : 0
    }
    #expect(answered >= 10)
  }

  @Test("A credential that was accepted and not yet fetched is restored as accepted after SIGKILL")
  @LoopActor
  func acceptedUntaken() async throws {
    var random = SeededRandom(seed: 30)
    let counter = try await Counter("client")
    defer { counter.close() }
    let credential = Self.credential(1, &random)
    try await counter.deliver(credential)
    #expect(try await counter.judge("Accept", takes: false, killAfter: nil))
    try await counter.start()
    #expect(try await counter.transfers().map(\.state) == ["accepted"])
    #expect(try await counter.take() == [credential])
  }

  private static func credential(_ round: Int, _ random: inout SeededRandom) -> String {
    let text = random.bytes(2000).map { String($0, radix: 16) }.joined()
    return "{\"round\":\(round),\"text\":\"\(text)\"}"
  }
}
