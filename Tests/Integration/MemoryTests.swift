import Crypto
import Loop
import TestSupport
import Testing

@Suite("Memory of a verifier over many transfers")
struct MemoryTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "After 240 transfers the process has the same memory and file descriptors as after the first 60",
    .enabled(if: !Sanitizer.isOn, "what is freed is kept back to be watched"))
  @LoopActor
  func manyVisitors() async throws {
    let counter = try await Counter("client")
    defer { counter.close() }
    var random = SeededRandom(seed: 300)
    for round in 0..<60 { try await Self.visit(round, counter, &random) }
    let before = try counter.size()
    for round in 60..<240 { try await Self.visit(round, counter, &random) }
    let after = try counter.size()
    // A leak of 3 KiB per client would exceed this.
    #expect(after.anonymousKiB <= before.anonymousKiB + 512, "\(before) and then \(after)")
    #expect(after.descriptors <= before.descriptors, "\(before) and then \(after)")
  }

  /// Credentials of 1 to 64 KiB. One client of four disconnects during the transfer, and one program that requests
  /// everything exits before the replies.
  @LoopActor
  private static func visit(_ round: Int, _ counter: Counter, _ random: inout SeededRandom) async throws {
    let length = 512 << (round % 7)
    let credential = random.bytes(length).map { String($0 | 0x10, radix: 16) }.joined()
    guard round % 4 != 1 else { return try await counter.loseVisitor(credential) }
    try await counter.deliver(credential)
    if round % 4 == 3 { try await counter.callAndVanish() }
    #expect(try await counter.take(asFile: round % 4 == 2) == [credential])
    let answer = try await counter.judge(round % 8 == 0 ? "Reject" : "Accept")
    _ = try await answer.next()
  }
}
