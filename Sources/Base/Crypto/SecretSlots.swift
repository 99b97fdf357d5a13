import CSodium
import Common

/// Locked memory in slots of 64 bytes, for the many keys that a handshake makes and drops. A secret with pages of its own
/// costs several system calls, half as much as a key agreement; a slot costs none.
///
/// The slots lie side by side between the guard pages of one block. They are locked, kept out of dumps, and overwritten
/// when they come back. Unlike a secret's own pages, they can be written all the time.
enum SecretSlots {
  static let slotSize = 64
  private static let slotsAtOnce = 256

  /// Addresses of slots that are free; blocks are never given back, so there are as many as were ever in use at a time.
  private static let free = Locked<[UInt]>([])

  /// A slot, full of zeros.
  static func take() -> UnsafeMutableRawPointer {
    let address = free.withLock { free in
      if free.isEmpty { free = block() }
      return free.removeLast()
    }
    guard let slot = UnsafeMutableRawPointer(bitPattern: address) else { preconditionFailure("a slot without memory") }
    return slot
  }

  /// Overwrites the slot; whoever took it must not touch it again.
  static func giveBack(_ slot: UnsafeMutableRawPointer) {
    sodium_memzero(slot, slotSize)
    free.withLock { $0.append(UInt(bitPattern: slot)) }
  }

  private static func block() -> [UInt] {
    Sodium.start()
    guard let block = sodium_malloc(slotsAtOnce * slotSize) else { preconditionFailure("no memory for secrets") }
    sodium_memzero(block, slotsAtOnce * slotSize)
    return (0..<slotsAtOnce).map { UInt(bitPattern: block) + UInt($0 * slotSize) }
  }
}
