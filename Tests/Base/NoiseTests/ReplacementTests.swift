import Common
import Crypto
import Glibc
import Testing

@testable import Noise

@Suite("Replacement of Noise sessions")
struct ReplacementTests {
  @Test("A peer that lost its session keys gets a new session by a new handshake")
  func restarted() {
    var pair = Pair.proven()
    pair.restart(0)
    pair.begin(0)
    pair.settle()
    #expect(pair.counters(1).replaced == 1)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("A first handshake message during a session, even a forged one, does not affect the session")
  func firstMessageAlone() {
    var pair = Pair.proven()
    var random = SeededRandom(seed: 3)
    let forged = X25519.PrivateKey(randomFrom: &random).publicKey.bytes
    pair.handle(1, .handshake(pair.names[0], forged))
    #expect(pair.air.map(\.bytes.count) == [96])
    pair.air = []
    var canTalk = pair.canTalk()
    #expect(canTalk)
    pair.run(for: .seconds(20))
    #expect(pair.engines[1].halfOpen == 0)
    canTalk = pair.canTalk()
    #expect(canTalk)
    #expect(pair.counters(1).replaced == 0)
  }

  @Test(
    "Noise messages sealed with the old keys are opened until a message with the new keys arrives", arguments: [0, 1])
  func oldKeys(side: Int) {
    var pair = Pair.proven()
    let other = 1 - side
    // Five messages under the old keys are under way when the peer begins again, without having lost its state.
    for number: UInt8 in 1...5 { pair.say([number], from: side) }
    let late = pair.air
    pair.air = []
    pair.renew(by: side)
    #expect(pair.counters(other).replaced == 1)
    #expect(pair.record(other)?.former != nil)
    pair.air = [late[0], late[1]]
    pair.settle()
    #expect(pair.heard[other] == [[1], [2]])
    // The old keys open, but do not seal: new messages are sealed with the new keys.
    pair.say([9], from: other)
    pair.settle()
    #expect(pair.heard[side] == [[9]])
    #expect(pair.record(side)?.former == nil)
    #expect(pair.record(other)?.former != nil)
    pair.say([6], from: side)
    pair.settle()
    #expect(pair.heard[other] == [[1], [2], [6]])
    #expect(pair.record(other)?.former == nil)
    pair.air = [late[2]]
    pair.settle()
    #expect(pair.heard[other].count == 3)
    #expect(pair.counters(other)[.undecryptable] == 1)
  }

  @Test("A replay of a Noise message under the old keys is detected while the old keys are stored")
  func oldReplay() {
    var pair = Pair.proven()
    pair.say([1], from: 0)
    let message = pair.air[0]
    pair.settle()
    pair.renew(by: 0)
    pair.air = [message]
    pair.settle()
    #expect(pair.counters(1)[.replayed] == 1)
    #expect(pair.heard[1] == [[1]])
  }

  @Test("The keys that the peer last proved stay stored after two new sessions that the peer did not prove")
  func unprovenTwice() {
    var pair = Pair.proven()
    pair.say([1], from: 0)
    let late = pair.air
    pair.air = []
    pair.renew(by: 0)
    pair.pass(.seconds(60))
    pair.renew(by: 0)
    #expect(pair.counters(1).replaced == 2)
    pair.air = late
    pair.settle()
    #expect(pair.heard[1] == [[1]])
  }

  @Test("A peer may replace its Noise session once in 5 s")
  func onceInFiveSeconds() {
    var pair = Pair.proven()
    pair.restart(0)
    pair.begin(0)
    pair.settle()
    #expect(pair.counters(1).replaced == 1)
    pair.restart(0)
    pair.pass(.milliseconds(4999))
    pair.begin(0)
    pair.settle()
    #expect(pair.counters(1).replaced == 1)
    #expect(pair.counters(1)[.replacedLately] == 1)
    #expect(pair.engines[1].halfOpen == 0)
    pair.restart(0)
    pair.pass(.milliseconds(1))
    pair.begin(0)
    pair.settle()
    #expect(pair.counters(1).replaced == 2)
    let canTalk = pair.canTalk()
    #expect(canTalk)
  }

  @Test("Up to 4 messages that arrive before the third handshake message are stored, and opened after it")
  func early() {
    var pair = Pair()
    pair.begin(0)
    pair.deliver()
    pair.deliver()
    let third = pair.air.removeLast()
    for number: UInt8 in 1...6 { pair.say([number], from: 0) }
    pair.settle()
    #expect(pair.heard[1] == [])
    #expect(pair.counters(1)[.earlyLimit] == 2)
    pair.air = [third]
    pair.settle()
    #expect(pair.heard[1] == [[1], [2], [3], [4]])
    #expect(pair.counters(1)[.undecryptable] == 0)
  }

  @Test("The total size of stored early messages is limited")
  func earlyBytes() {
    var pair = Pair { $0.earlyBytes = 100 }
    pair.begin(0)
    pair.deliver()
    pair.deliver()
    let third = pair.air.removeLast()
    for _ in 0..<3 { pair.say([UInt8](repeating: 1, count: 30), from: 0) }
    pair.settle()
    #expect(pair.counters(1)[.earlyLimit] == 1)
    pair.air = [third]
    pair.settle()
    #expect(pair.heard[1].count == 2)
  }

  @Test("3 undecryptable messages in a row during a session begin a handshake, at most once a minute")
  func undecryptable() {
    var pair = Pair.proven()
    for _ in 0..<2 { pair.garble(to: 1) }
    pair.settle()
    #expect(pair.counters(1).recoveries == 0)
    pair.garble(to: 1)
    pair.settle()
    #expect(pair.counters(1).recoveries == 1)
    #expect(pair.counters(1)[.undecryptable] == 3)
    let canTalk = pair.canTalk()
    #expect(canTalk)
    for _ in 0..<9 { pair.garble(to: 1) }
    #expect(pair.counters(1).recoveries == 1)
    pair.pass(.milliseconds(59_999))
    pair.garble(to: 1)
    #expect(pair.counters(1).recoveries == 1)
    pair.pass(.milliseconds(1))
    pair.garble(to: 1)
    #expect(pair.counters(1).recoveries == 2)
  }

  @Test("A Noise message that is opened resets the count of undecryptable messages")
  func row() {
    var pair = Pair.proven()
    for _ in 0..<4 {
      pair.garble(to: 1)
      pair.garble(to: 1)
      pair.say([1], from: 0)
      pair.settle()
    }
    #expect(pair.counters(1)[.undecryptable] == 8)
    #expect(pair.counters(1).recoveries == 0)
  }

  @Test("The keys of an ended or replaced Noise session are erased from memory")
  func erased() throws {
    var pair = Pair.proven()
    let before = try #require(KeyMemory(pair, 1))
    #expect(before.isThere)
    pair.renew(by: 0)
    let after = try #require(KeyMemory(pair, 1))
    #expect(before.isThere)
    pair.say([1], from: 0)
    pair.settle()
    #expect(!before.isThere)
    #expect(after.isThere)
    pair.restart(1)
    #expect(!after.isThere)
    // The ephemeral state of a handshake is wiped, whether it was completed or not.
    pair.restart(0)
    pair.begin(0)
    let ephemeral = try #require(KeyMemory(ephemeralOf: pair, 0))
    #expect(ephemeral.isThere)
    pair.settle()
    #expect(!ephemeral.isThere)
  }
}

extension Pair {
  /// Delivers a message that no session has sealed.
  mutating func garble(to side: Int) {
    handle(side, .message(names[1 - side], [UInt8](repeating: 0, count: 40)))
  }
}

/// The addresses of a session's keys, and their bytes during its lifetime.
private struct KeyMemory {
  let address: UInt
  let bytes: [UInt8]

  init?(_ pair: Pair, _ side: Int) {
    guard let secret = pair.record(side)?.live?.transport.keys else { return nil }
    self.init(secret)
  }

  init?(ephemeralOf pair: Pair, _ side: Int) {
    guard let secret = pair.record(side)?.handshake?.handshake.ephemeral?.secret else { return nil }
    self.init(secret)
  }

  private init(_ secret: SecretBytes) {
    address = secret.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
    bytes = secret.withUnsafeBytes { Array($0) }
  }

  /// Whether the process still holds those bytes there; read through the kernel, because the memory may be unmapped.
  var isThere: Bool {
    let file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return false }
    defer { close(file) }
    var read = [UInt8](repeating: 0, count: bytes.count)
    let count = pread(file, &read, read.count, off_t(truncatingIfNeeded: address))
    return count == read.count && read == bytes
  }
}
