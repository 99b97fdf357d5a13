import CSodium
import Common

/// Secret bytes. They are in locked memory between guard pages, overwritten when the last owner drops them, and never
/// printed.
///
/// The bytes are written in `init`, and are read-only from then on. A secret with its own pages has them
/// write-protected; the address of a slot (`SecretSlots`) is known to this object only.
public final class SecretBytes: @unchecked Sendable {
  // The memory does not belong to one thread: nothing writes it after `init`, and `deinit` runs when no owner exists.
  private let memory: UnsafeMutableRawPointer
  private let isSlot: Bool

  /// Number of bytes of the secret.
  public let count: Int

  /// Allocates `count` bytes. `fill` must write every one of them; throws the error of `fill`.
  public init<Failure: Error>(
    count: Int, fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Void
  ) throws(Failure) {
    precondition(count >= 0, "a negative count")
    Sodium.start()
    guard let memory = sodium_malloc(count) else { preconditionFailure("out of memory for secrets") }
    self.memory = memory
    self.count = count
    isSlot = false
    try fill(UnsafeMutableRawBufferPointer(start: memory, count: count))
    sodium_mprotect_readonly(memory)
  }

  /// Copies the bytes. The caller is responsible for the original.
  public convenience init(copying bytes: some Collection<UInt8>) {
    self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
  }

  /// Draws `count` bytes from the operating system's generator.
  public convenience init(random count: Int) {
    self.init(count: count, filledBy: { randombytes_buf($0, count) })
  }

  /// Makes a secret of `count` bytes that are drawn from `random`.
  public convenience init(count: Int, randomFrom random: inout some RandomSource) {
    var bytes = random.bytes(count)
    defer { bytes.wipe() }
    self.init(copying: bytes)
  }

  /// Allocates at most 64 bytes in a slot. `body` must write every one of them.
  init(slot count: Int, filledBy body: (UnsafeMutablePointer<UInt8>) -> Void) {
    precondition((0...SecretSlots.slotSize).contains(count), "the secret does not fit into a slot")
    memory = SecretSlots.take()
    self.count = count
    isSlot = true
    body(memory.assumingMemoryBound(to: UInt8.self))
  }

  /// Draws at most 64 bytes from `random` into a slot.
  convenience init(slot count: Int, randomFrom random: inout some RandomSource) {
    var bytes = random.bytes(count)
    defer { bytes.wipe() }
    self.init(slot: count, filledBy: { $0.update(from: bytes, count: count) })
  }

  /// Allocates `count` bytes that a C function writes.
  convenience init(count: Int, filledBy body: (UnsafeMutablePointer<UInt8>) -> Void) {
    self.init(count: count) { bytes in
      if let address = bytes.bindMemory(to: UInt8.self).baseAddress { body(address) }
    }
  }

  deinit {
    if isSlot { SecretSlots.giveBack(memory) } else { sodium_free(memory) }
  }

  /// Passes the bytes to `body`. The pointer must not be used after `body` returns; a copy must be secret as well.
  public func withUnsafeBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try body(UnsafeRawBufferPointer(start: memory, count: count))
  }

  /// Copies at most 64 bytes for one exchange, into a slot of shared pages (`SecretSlots`).
  ///
  /// Throws `badLength` if the range is longer than 64 or is not inside the secret.
  public func shortLivedCopy(of range: Range<Int>) throws(CryptoError) -> SecretBytes {
    guard range.lowerBound >= 0, range.upperBound <= count, range.count <= SecretSlots.slotSize else {
      throw .badLength("part of a secret", expected: min(count, SecretSlots.slotSize), got: range.count)
    }
    return withPointer { bytes, _ in
      SecretBytes(
        slot: range.count, filledBy: { $0.update(from: bytes + range.lowerBound, count: range.count) })
    }
  }

  /// Whether both contain equal bytes. The duration depends only on their counts.
  public func equals(_ other: SecretBytes) -> Bool {
    count == other.count && sodium_memcmp(memory, other.memory, count) == 0
  }

  /// Passes the bytes to a C function.
  func withPointer<Result>(_ body: (UnsafePointer<UInt8>, Int) -> Result) -> Result {
    body(UnsafePointer(memory.assumingMemoryBound(to: UInt8.self)), count)
  }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "<secret>" }
  public var debugDescription: String { "<secret>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Locked memory in slots of 64 bytes, for the many short-lived keys of a handshake. A secret with its own pages needs
/// several system calls, which take half as long as a key agreement; a slot needs none.
///
/// The slots are adjacent, between the guard pages of one block. They are locked, excluded from core dumps, and
/// overwritten when they are returned. Unlike a secret's own pages, they are always writable.
enum SecretSlots {
  static let slotSize = 64
  private static let slotsAtOnce = 256

  /// Addresses of free slots. Blocks are never deallocated, so the number of slots is the maximum that was in use at
  /// one time.
  private static let free = Locked<[UInt]>([])

  /// Returns a slot that is filled with zeros.
  static func take() -> UnsafeMutableRawPointer {
    let address = free.withLock { free in
      if free.isEmpty { free = block() }
      return free.removeLast()
    }
    guard let slot = UnsafeMutableRawPointer(bitPattern: address) else { preconditionFailure("a slot without memory") }
    return slot
  }

  /// Overwrites and frees the slot; the caller must not use it again.
  static func giveBack(_ slot: UnsafeMutableRawPointer) {
    sodium_memzero(slot, slotSize)
    free.withLock { $0.append(UInt(bitPattern: slot)) }
  }

  private static func block() -> [UInt] {
    Sodium.start()
    guard let block = sodium_malloc(slotsAtOnce * slotSize) else { preconditionFailure("out of memory for secrets") }
    sodium_memzero(block, slotsAtOnce * slotSize)
    return (0..<slotsAtOnce).map { UInt(bitPattern: block) + UInt($0 * slotSize) }
  }
}

/// Locked memory, which the kernel never swaps out. It contains keys.
public enum LockedMemory {
  /// Whether the kernel locks memory for this process. `SecretBytes` works without locked memory, but its pages may
  /// reach the disk.
  public static func isAvailable() -> Bool {
    Sodium.start()
    guard let page = sodium_malloc(32) else { return false }
    defer { sodium_free(page) }
    return sodium_mlock(page, 32) == 0
  }
}
