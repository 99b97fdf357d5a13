import Glibc
import Testing

@testable import Crypto

/// Reads this process's memory from outside, also at addresses that are no longer mapped.
@Suite("Remains of secrets in memory")
struct SecretRemainsTests {
  @Test("The bytes of a released secret are no longer at their memory address", arguments: [16, 32, 5000])
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

  @Test("Making a secret from a random generator leaves no copy of its bytes in memory", arguments: [256, 5000])
  func drawn(count: Int) throws {
    let pattern = Self.pattern(count)
    var random = HoldingRandom(pattern: pattern)
    let secret = SecretBytes(count: count, randomFrom: &random)
    let isRight = secret.withUnsafeBytes { $0.elementsEqual(pattern) }
    #expect(isRight)
    let address = try #require(random.address)
    let rest = withExtendedLifetime(random) { [UInt8](UnsafeRawBufferPointer(start: address, count: count)) }
    let isWiped = rest.allSatisfy { $0 == 0 }
    #expect(isWiped)
  }

  /// Fills memory with a pattern, and prevents that this memory is freed. Whether `free` overwrites memory is not
  /// tested here.
  private struct HoldingRandom: RandomSource {
    let pattern: [UInt8]
    var address: UnsafeRawPointer?
    /// The unowned reference prevents that the memory is freed, while the array stays the only owner of its bytes.
    unowned var memory: AnyObject?

    mutating func fill(_ bytes: inout [UInt8]) {
      for index in bytes.indices { bytes[index] = pattern[index] }
      address = bytes.withUnsafeBytes { $0.baseAddress }
      memory = unsafeBitCast(bytes, to: AnyObject.self)
    }
  }

  /// This process's memory, read through the kernel.
  private final class Memory {
    private let file: Int32
    private var room: [UInt8]

    init(room count: Int) throws {
      file = Glibc.open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
      room = [UInt8](repeating: 0, count: count)
      try #require(file >= 0)
    }

    deinit { close(file) }

    /// The bytes at an address; nil where nothing is mapped.
    func read(at address: UInt, _ count: Int) -> [UInt8]? {
      let read = room.withUnsafeMutableBytes {
        pread(file, $0.baseAddress, count, off_t(truncatingIfNeeded: address))
      }
      return read == count ? Array(room.prefix(count)) : nil
    }
  }

  /// Bytes that do not occur elsewhere by chance.
  private static func pattern(_ count: Int) -> [UInt8] {
    var random = SeededRandom(seed: 0x5EC2E7)
    return random.bytes(count)
  }
}
