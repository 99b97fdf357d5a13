import Glibc
import Testing

@testable import Crypto

/// Looks at this process's memory as another program could, also where nothing is mapped any more.
@Suite("What is left of a secret in memory")
struct SecretRemainsTests {
  @Test("When its last owner drops a secret, its bytes are not where they were", arguments: [16, 32, 5000])
  func dropped(count: Int) throws {
    let pattern = Self.pattern(count)
    var secret: SecretBytes? = SecretBytes(copying: pattern)
    let address = secret?.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } ?? 0
    let memory = try Memory(room: count)
    let before = memory.read(at: address, count)
    #expect(before == pattern)
    secret = nil
    let after = memory.read(at: address, count)
    #expect(after != pattern)
  }

  @Test("Where a secret was drawn from a generator, no copy of it is left", arguments: [256, 5000])
  func drawn(count: Int) throws {
    // Whatever else has the bytes is there before, and stays: it cannot lie where the copy was.
    let pattern = Self.pattern(count)
    var random = NotingRandom(pattern: pattern)
    let memory = try Memory(room: count)
    let secret = SecretBytes(count: count, randomFrom: &random)
    let rest = memory.read(at: random.address, count)
    #expect(random.address != 0)
    // The allocator writes into the first bytes of what was freed.
    #expect(rest?.dropFirst(64) != pattern.dropFirst(64))
    let isRight = secret.withUnsafeBytes { $0.elementsEqual(pattern) }
    #expect(isRight)
  }

  /// Gives a pattern out, and notes where it was put.
  private struct NotingRandom: RandomSource {
    let pattern: [UInt8]
    var address: UInt = 0

    mutating func fill(_ bytes: inout [UInt8]) {
      for index in bytes.indices { bytes[index] = pattern[index] }
      address = bytes.withUnsafeMutableBytes { UInt(bitPattern: $0.baseAddress) }
    }
  }

  /// The kernel's view of this process's memory.
  private final class Memory {
    private let file: Int32
    private var room: [UInt8]

    init(room count: Int) throws {
      file = Glibc.open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
      room = [UInt8](repeating: 0, count: count)
      try #require(file >= 0)
    }

    deinit { close(file) }

    /// What is at an address; nil where nothing is mapped.
    func read(at address: UInt, _ count: Int) -> [UInt8]? {
      let read = room.withUnsafeMutableBytes {
        pread(file, $0.baseAddress, count, off_t(truncatingIfNeeded: address))
      }
      return read == count ? Array(room.prefix(count)) : nil
    }
  }

  /// Bytes that are nowhere else by accident.
  private static func pattern(_ count: Int) -> [UInt8] {
    var random = SeededRandom(seed: 0x5EC2E7)
    return random.bytes(count)
  }
}
