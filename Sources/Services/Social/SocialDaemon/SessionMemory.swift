import ASN

/// The memory of the sessions of programs for blobs and requests, in bytes. Each session has a limit, and all sessions
/// together have one.
struct SessionMemory: Sendable {
  /// Maximum memory of one session, in bytes.
  static let share = 32 << 20
  /// Maximum memory of all sessions together, in bytes.
  static let total = 128 << 20

  private(set) var used = 0

  /// Reserves memory for a session that uses `own` bytes; false if that would exceed a limit.
  mutating func take(_ bytes: Int, own: Int) -> Bool {
    guard own + bytes <= Self.share, used + bytes <= Self.total else { return false }
    used += bytes
    return true
  }

  mutating func giveBack(_ bytes: Int) { used -= bytes }
}

/// The blobs that have arrived in a session and that its program has not fetched. New blobs displace the oldest.
struct ArrivedBlobs: Sendable {
  /// Maximum blobs that wait for one session.
  static let limit = 64

  private var blobs: [Blob] = []
  private(set) var bytes = 0

  /// Adds a blob if there is memory for it, and drops the oldest ones if necessary.
  ///
  /// - Parameter other: bytes that the session uses for its requests.
  /// - Returns: whether the blob was added.
  mutating func add(_ blob: Blob, other: Int, _ memory: inout SessionMemory) -> Bool {
    while blobs.count >= Self.limit { removeFirst(&memory) }
    while !memory.take(blob.bytes.count, own: other + bytes) {
      guard !blobs.isEmpty else { return false }
      removeFirst(&memory)
    }
    blobs.append(blob)
    bytes += blob.bytes.count
    return true
  }

  func blob(_ sum: String) -> Blob? { blobs.first { $0.sum.hex == sum } }

  mutating func remove(_ sum: Sum, _ memory: inout SessionMemory) {
    guard let index = blobs.firstIndex(where: { $0.sum == sum }) else { return }
    drop(blobs.remove(at: index), &memory)
  }

  mutating func removeAll(_ memory: inout SessionMemory) {
    while !blobs.isEmpty { removeFirst(&memory) }
  }

  private mutating func removeFirst(_ memory: inout SessionMemory) { drop(blobs.removeFirst(), &memory) }

  private mutating func drop(_ blob: Blob, _ memory: inout SessionMemory) {
    bytes -= blob.bytes.count
    memory.giveBack(blob.bytes.count)
  }
}
