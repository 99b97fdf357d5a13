import CSodium
import Common

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
