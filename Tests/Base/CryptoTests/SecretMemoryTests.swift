import Glibc
import Testing

@testable import Crypto

/// The kernel's flags of the memory that holds secrets.
@Suite("Memory of secrets")
struct SecretMemoryTests {
  @Test("The memory page of a secret is read-only, excluded from core dumps, and between inaccessible pages")
  func pages() throws {
    let secret = SecretBytes(random: 32)
    let address = secret.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
    let page = UInt(getpagesize())
    #expect(try Self.permissions(of: address)?.hasPrefix("r--") == true)
    #expect(try Self.permissions(of: address + page)?.hasPrefix("---") == true)
    let ending = secret.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) + UInt($0.count) }
    // The bytes end at the end of their page, so that an overrun faults at once.
    #expect(ending % page == 0)
    #expect(try Self.flags(of: address).contains("dd"))
    withExtendedLifetime(secret) {}
  }

  @Test("A wiped array contains only zero bytes", arguments: [0, 1, 32, 5000])
  func wiped(count: Int) {
    var bytes = [UInt8](repeating: 0xA5, count: count)
    bytes.withUnsafeMutableBytes { buffer in
      #expect(buffer.allSatisfy { $0 == 0xA5 })
    }
    bytes.wipe()
    #expect(bytes.count == count && bytes.allSatisfy { $0 == 0 })
  }

  // MARK: What the kernel says

  /// Reads a file in /proc, whose size is unknown before it is read.
  private static func text(_ path: String) throws -> String {
    let file = Glibc.open(path, O_RDONLY | O_CLOEXEC)
    try #require(file >= 0)
    defer { close(file) }
    var bytes: [UInt8] = []
    var portion = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = read(file, &portion, portion.count)
      guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
      bytes += portion.prefix(count)
    }
  }

  private static func permissions(of address: UInt) throws -> String? {
    try regions().first { $0.range.contains(address) }?.permissions
  }

  private static func regions() throws -> [(range: Range<UInt>, permissions: String)] {
    try text("/proc/self/maps").split(separator: "\n").compactMap { line in
      let words = line.split(separator: " ", maxSplits: 2)
      guard words.count == 3 else { return nil }
      let ends = words[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
      return ends.count == 2 ? (ends[0]..<ends[1], String(words[1])) : nil
    }
  }

  /// The kernel's flags of the region that contains the address.
  private static func flags(of address: UInt) throws -> [Substring] {
    var isThere = false
    for line in try text("/proc/self/smaps").split(separator: "\n") {
      let ends = line.split(separator: " ")[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
      if ends.count == 2 { isThere = (ends[0]..<ends[1]).contains(address) }
      if isThere, line.hasPrefix("VmFlags:") { return line.split(separator: " ") }
    }
    return []
  }
}
