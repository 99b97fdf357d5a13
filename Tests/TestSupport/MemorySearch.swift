import Glibc

/// Searches the memory of another process for secrets, as a debugger of that user would: all writable mappings,
/// and read-only ones without a file behind them.
///
/// Memory that a process hides (`PR_SET_DUMPABLE`) is visible to root, and to the owner of the user namespace in
/// which the process was started: `prefix` starts it in one.
public struct MemorySearch {
  public struct NotReadable: Error, CustomStringConvertible {
    public let description: String
  }

  /// Minimum number of consecutive bytes of a secret that count as an occurrence, because shorter ones could match by
  /// chance.
  public static let part = 16

  /// The words that start a program whose memory is to be searched.
  public static let prefix: [String] = geteuid() == 0 ? [] : ["unshare", "--user", "--map-current-user"]

  private static let word = MemoryLayout<UInt64>.size
  private static let slotBits: UInt64 = 18

  private let secrets: [(name: String, bytes: [UInt8])]
  /// Eight bytes of a secret, with the secret's index and the offset in it.
  private var places: [UInt64: (secret: Int, offset: Int)] = [:]
  /// For each hash slot, whether some eight bytes belong to it: most words of the memory are skipped by this.
  private var isTaken = [Bool](repeating: false, count: 1 << slotBits)

  /// - Parameter secrets: secrets with their names, of at least `part` bytes each.
  public init(_ secrets: [(name: String, bytes: [UInt8])]) {
    self.secrets = secrets
    for (index, secret) in secrets.enumerated() {
      secret.bytes.withUnsafeBytes { bytes in
        for offset in 0...max(0, bytes.count - Self.part) + Self.word {
          let word = bytes.loadUnaligned(fromByteOffset: min(offset, bytes.count - Self.word), as: UInt64.self)
          places[word] = (index, min(offset, bytes.count - Self.word))
          isTaken[Self.slot(word)] = true
        }
      }
    }
  }

  /// Number of occurrences of parts of secrets in the memory of a process, by the name of the secret and the kind of
  /// memory.
  public func occurrences(in process: pid_t) throws -> [String: Int] {
    var found: [String: Int] = [:]
    var searched = 0
    for region in try Self.regions(of: process) {
      let bytes = Self.read(region.range, of: process)
      searched += bytes.count
      for name in places(in: bytes) { found["\(name) in \(region.name)", default: 0] += 1 }
    }
    guard searched > 0 else { throw NotReadable(description: "nothing of the memory of \(process) can be read") }
    return found
  }

  /// The names of the secrets of which a part occurs in the bytes, once per occurrence.
  public func places(in bytes: [UInt8]) -> [String] {
    bytes.withUnsafeBytes { bytes in
      var found: [String] = []
      var end = 0
      // Any sixteen bytes contain eight that begin at a multiple of eight.
      for offset in stride(from: 0, through: bytes.count - Self.word, by: Self.word) {
        let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
        guard word != 0, isTaken[Self.slot(word)], offset >= end, let place = places[word] else { continue }
        let secret = secrets[place.secret]
        var (first, last) = (0, Self.word)
        while place.offset + first > 0, offset + first > 0,
          secret.bytes[place.offset + first - 1] == bytes[offset + first - 1]
        {
          first -= 1
        }
        while place.offset + last < secret.bytes.count, offset + last < bytes.count,
          secret.bytes[place.offset + last] == bytes[offset + last]
        {
          last += 1
        }
        guard last - first >= Self.part else { continue }
        found.append(secret.name)
        end = offset + last
      }
      return found
    }
  }

  private static func slot(_ word: UInt64) -> Int {
    Int(truncatingIfNeeded: (word &* 0x9E37_79B9_7F4A_7C15) &>> (64 - slotBits))
  }

  // MARK: The memory of a process

  private struct Region {
    let range: Range<UInt>
    /// `[heap]`, a path, or `anonymous`.
    let name: String
  }

  private static func regions(of process: pid_t) throws -> [Region] {
    guard let file = fopen("/proc/\(process)/maps", "r") else {
      throw NotReadable(description: "the maps of \(process) cannot be read")
    }
    defer { fclose(file) }
    var regions: [Region] = []
    var line = [CChar](repeating: 0, count: 4096)
    while fgets(&line, Int32(line.count), file) != nil {
      let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      let words = text.split(whereSeparator: \.isWhitespace).map(String.init)
      let ends = words.first?.split(separator: "-").compactMap { UInt($0, radix: 16) } ?? []
      guard words.count >= 5, ends.count == 2, words[1].hasPrefix("r") else { continue }
      let name = words.count > 5 ? words[5] : "anonymous"
      guard words[1].hasPrefix("rw") || name == "anonymous" else { continue }
      regions.append(Region(range: ends[0]..<ends[1], name: name))
    }
    return regions
  }

  /// The readable bytes of the range.
  private static func read(_ range: Range<UInt>, of process: pid_t) -> [UInt8] {
    typealias Read =
      @convention(c) (
        pid_t, UnsafePointer<iovec>, UInt, UnsafePointer<iovec>, UInt, UInt
      ) -> Int
    // Swift's importer does not offer the function.
    guard let symbol = dlsym(nil, "process_vm_readv") else { return [] }
    let read = unsafeBitCast(symbol, to: Read.self)
    return [UInt8](unsafeUninitializedCapacity: range.count) { bytes, count in
      var here = iovec(iov_base: bytes.baseAddress, iov_len: range.count)
      var there = iovec(iov_base: UnsafeMutableRawPointer(bitPattern: range.lowerBound), iov_len: range.count)
      count = max(0, read(process, &here, 1, &there, 1, 0))
    }
  }
}
