import CSodium

/// Bytes that must not leak. They are locked between guard pages, overwritten when the last owner drops them, and never
/// printed.
///
/// The bytes are written while the value is made, and are read-only from then on: those with pages of their own by the
/// pages' protection, those in a slot (`SecretSlots`) because nothing else has the address.
public final class SecretBytes: @unchecked Sendable {
  // No thread owns the memory: nothing writes it after `init`, and `deinit` runs when no owner exists.
  private let memory: UnsafeMutableRawPointer
  private let isSlot: Bool

  /// How many bytes there are.
  public let count: Int

  /// Makes `count` bytes. `fill` must write every one of them; throws what `fill` throws.
  public init<Failure: Error>(
    count: Int, fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Void
  ) throws(Failure) {
    precondition(count >= 0, "a negative count")
    Sodium.start()
    guard let memory = sodium_malloc(count) else { preconditionFailure("no memory for secrets") }
    self.memory = memory
    self.count = count
    isSlot = false
    try fill(UnsafeMutableRawBufferPointer(start: memory, count: count))
    sodium_mprotect_readonly(memory)
  }

  /// Makes a copy of the bytes. The caller is responsible for the original.
  public convenience init(copying bytes: some Collection<UInt8>) {
    self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
  }

  /// Draws `count` bytes from the operating system's generator.
  public convenience init(random count: Int) {
    self.init(count: count, filledBy: { randombytes_buf($0, count) })
  }

  /// Draws `count` bytes from `random`.
  public convenience init(count: Int, randomFrom random: inout some RandomSource) {
    var bytes = random.bytes(count)
    defer { bytes.wipe() }
    self.init(copying: bytes)
  }

  /// Makes at most 64 bytes in a slot. `body` must write every one of them.
  init(slot count: Int, filledBy body: (UnsafeMutablePointer<UInt8>) -> Void) {
    precondition((0...SecretSlots.slotSize).contains(count), "more than a slot holds")
    memory = SecretSlots.take()
    self.count = count
    isSlot = true
    body(memory.assumingMemoryBound(to: UInt8.self))
  }

  /// Draws at most 64 bytes from `random`, into a slot.
  convenience init(slot count: Int, randomFrom random: inout some RandomSource) {
    var bytes = random.bytes(count)
    defer { bytes.wipe() }
    self.init(slot: count, filledBy: { $0.update(from: bytes, count: count) })
  }

  /// Makes `count` bytes that a C function writes.
  convenience init(count: Int, filledBy body: (UnsafeMutablePointer<UInt8>) -> Void) {
    self.init(count: count) { bytes in
      if let address = bytes.bindMemory(to: UInt8.self).baseAddress { body(address) }
    }
  }

  deinit {
    if isSlot { SecretSlots.giveBack(memory) } else { sodium_free(memory) }
  }

  /// Lends the bytes to `body`. The pointer must not outlive `body`; a copy must be kept secret as well.
  public func withUnsafeBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try body(UnsafeRawBufferPointer(start: memory, count: count))
  }

  /// A copy of at most 64 of the bytes for one exchange, in a slot of shared pages (`SecretSlots`).
  ///
  /// Throws `badLength` if the range is longer than 64 or does not lie inside the secret.
  public func shortLivedCopy(of range: Range<Int>) throws(CryptoError) -> SecretBytes {
    guard range.lowerBound >= 0, range.upperBound <= count, range.count <= SecretSlots.slotSize else {
      throw .badLength("part of a secret", expected: min(count, SecretSlots.slotSize), got: range.count)
    }
    return withPointer { bytes, _ in
      SecretBytes(
        slot: range.count, filledBy: { $0.update(from: bytes + range.lowerBound, count: range.count) })
    }
  }

  /// Whether both hold the same bytes. The duration depends on their counts alone.
  public func equals(_ other: SecretBytes) -> Bool {
    count == other.count && sodium_memcmp(memory, other.memory, count) == 0
  }

  /// Lends the bytes to a C function.
  func withPointer<Result>(_ body: (UnsafePointer<UInt8>, Int) -> Result) -> Result {
    body(UnsafePointer(memory.assumingMemoryBound(to: UInt8.self)), count)
  }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "<secret>" }
  public var debugDescription: String { "<secret>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
