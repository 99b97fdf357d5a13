import Crypto
import Testing

@testable import Noise

@Suite("Noise transport sessions")
struct TransportSessionTests {
  private static let keys = SecretBytes(copying: (0..<64).map { UInt8($0) })

  private static func pair(sealed: UInt32 = 0) throws -> (TransportSession, TransportSession) {
    (
      try TransportSession(keys: keys, isInitiator: true, sealed: sealed),
      try TransportSession(keys: keys, isInitiator: false, sealed: sealed)
    )
  }

  private static func nonce(of message: [UInt8]) -> [UInt8] { Array(message.prefix(4)) }

  @Test(
    "Each side of a Noise session opens messages that the peer sealed, and not those that it sealed itself",
    arguments: [0, 1, 512, 70_000])
  func directions(count: Int) throws {
    var (one, other) = try Self.pair()
    let text = [UInt8](repeating: 5, count: count)
    for _ in 0..<3 {
      let there = try one.seal(text)
      let back = try other.seal(text)
      #expect(there.count == count + TransportSession.overhead)
      #expect(there != back)
      #expect(throws: NoiseError.authenticationFailed) { try one.open(there) }
      #expect(try other.open(there) == text)
      #expect(try one.open(back) == text)
    }
    #expect(one.sealed == 3)
  }

  @Test("A sealed message begins with its nonce as 4 bytes in big endian, and no nonce is used twice")
  func nonces() throws {
    var (one, other) = try Self.pair(sealed: 0x0102_0304)
    let first = try one.seal([])
    let second = try one.seal([])
    #expect(Self.nonce(of: first) == [1, 2, 3, 4])
    #expect(Self.nonce(of: second) == [1, 2, 3, 5])
    let (tag, tagOfSecond): ([UInt8], [UInt8]) = (Array(first.suffix(16)), Array(second.suffix(16)))
    #expect(tag != tagOfSecond)
    #expect(try other.open(second) == [])
    #expect(try other.open(first) == [])
  }

  @Test("Sealing uses nonces up to 2^32 - 2, and then throws `exhausted`")
  func exhausted() throws {
    var (one, other) = try Self.pair(sealed: .max - 2)
    let (first, last) = (try one.seal([]), try one.seal([]))
    #expect(Self.nonce(of: first) == [0xFF, 0xFF, 0xFF, 0xFD])
    #expect(Self.nonce(of: last) == [0xFF, 0xFF, 0xFF, 0xFE])
    #expect(throws: NoiseError.exhausted) { try one.seal([]) }
    #expect(throws: NoiseError.exhausted) { try one.seal([]) }
    #expect(one.sealed == .max)
    _ = try other.seal([])
  }

  @Test("A message is opened only once, and a late message only within a window of 1,024 nonces")
  func replay() throws {
    var (one, other) = try Self.pair()
    let messages = try (0..<1100).map { try one.seal([UInt8($0 % 251)]) }
    #expect(try other.open(messages[5]) == [5])
    #expect(throws: NoiseError.replayed) { try other.open(messages[5]) }
    _ = try other.open(messages[1099])
    #expect(throws: NoiseError.tooOld) { try other.open(messages[75]) }
    #expect(try other.open(messages[76]) == [76])
    #expect(throws: NoiseError.replayed) { try other.open(messages[76]) }
  }

  @Test("A message whose nonce jumps by 2^31 is refused, and does not change the session")
  func jump() throws {
    var (_, other) = try Self.pair()
    var far = try Self.pair(sealed: 1 << 31).0
    var near = try Self.pair(sealed: 1 << 31 - 1).0
    let message = try far.seal([1])
    #expect(throws: NoiseError.nonceJump) { try other.open(message) }
    #expect(try other.open(near.seal([2])) == [2])
    #expect(try other.open(message) == [1])
  }

  @Test("A message with a wrong authentication tag does not move the replay window")
  func forgedNonce() throws {
    var (one, other) = try Self.pair()
    let message = try one.seal([1])
    for first: UInt8 in [0, 1, 0x7F] {
      var forged = message
      forged[0] = first
      forged[2] = 0xFF
      #expect(throws: NoiseError.authenticationFailed) { try other.open(forged) }
    }
    #expect(try other.open(message) == [1])
    var again = message
    again[6] ^= 1
    // A changed copy of a received message is reported as a forgery, not as a replay.
    #expect(throws: NoiseError.authenticationFailed) { try other.open(again) }
  }

  @Test("A changed or truncated Noise message is refused, and the unchanged message is opened afterwards")
  func altered() throws {
    var (one, other) = try Self.pair()
    let message = try one.seal([1, 2, 3])
    for index in message.indices {
      var altered = message
      altered[index] ^= 0x40
      #expect(throws: NoiseError.authenticationFailed) { try other.open(altered) }
      let short = Array(message.prefix(index))
      let error: NoiseError = index < 20 ? .badLength : .authenticationFailed
      #expect(throws: error) { try other.open(short) }
    }
    #expect(try other.open(message) == [1, 2, 3])
  }
}
