import Glibc
import Testing

@testable import Crypto

@Suite("Secrets in slots")
struct SecretSlotsTests {
  private static func address(_ secret: SecretBytes) -> UInt {
    secret.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
  }

  /// The bytes at an address that stays mapped.
  private static func bytes(at address: UInt, _ count: Int) -> [UInt8] {
    guard let pointer = UnsafeRawPointer(bitPattern: address) else { return [] }
    return Array(UnsafeRawBufferPointer(start: pointer, count: count))
  }

  @Test("1,000 secrets in shared memory have different slots and stay unchanged")
  func apart() {
    let secrets = (0..<1000).map { number in
      SecretBytes(slot: 64, filledBy: { $0.update(repeating: UInt8(truncatingIfNeeded: number), count: 64) })
    }
    #expect(Set(secrets.map(Self.address)).count == 1000)
    for (number, secret) in secrets.enumerated() {
      let isRight = secret.withUnsafeBytes { $0.allSatisfy { $0 == UInt8(truncatingIfNeeded: number) } }
      #expect(isRight)
    }
  }

  @Test("The memory slot of a released secret is erased", arguments: [32, 64])
  func dropped(count: Int) {
    // 1,000 slots are taken, so that this slot is not reused during the check.
    let spare = (0..<1000).map { _ in SecretBytes(slot: 1, filledBy: { $0.pointee = 0 }) }
    var secret: SecretBytes? = SecretBytes(slot: count, filledBy: { $0.update(repeating: 0xA5, count: count) })
    let address = secret.map(Self.address) ?? 0
    let before = Self.bytes(at: address, count)
    #expect(before == [UInt8](repeating: 0xA5, count: count))
    secret = nil
    let after = Self.bytes(at: address, count)
    #expect(after != before)
    withExtendedLifetime(spare) {}
  }

  @Test("An ephemeral key in a shared memory slot gives the correct shared secret, and is not printed")
  func ephemeral() throws {
    var random = SeededRandom(seed: 7)
    let ephemeral = X25519.PrivateKey(ephemeralFrom: &random)
    var again = SeededRandom(seed: 7)
    let key = X25519.PrivateKey(randomFrom: &again)
    #expect(ephemeral.publicKey == key.publicKey)
    #expect(ephemeral.secret.equals(key.secret))
    #expect("\(ephemeral)" == "<secret>")
  }
}
