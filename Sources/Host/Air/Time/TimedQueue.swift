import Common
import Loop

/// Closures, ordered by due time and, within one instant, by insertion.
///
/// The queue is a binary heap of plain keys; the closures are in fixed slots beside it. Cancelling empties the slot and
/// leaves the key. When most keys have no closure, the heap is rebuilt.
struct TimedQueue {
  /// Identifies one scheduled closure, so that it can be cancelled.
  struct Ticket: Sendable {
    fileprivate var slot: Int
    fileprivate var sequence: UInt64
  }

  private struct Key: Comparable {
    var time: Int64
    var sequence: UInt64
    var slot: Int

    static func < (left: Key, right: Key) -> Bool {
      left.time != right.time ? left.time < right.time : left.sequence < right.sequence
    }
  }

  private struct Slot {
    var sequence: UInt64
    var body: (@LoopActor () -> Void)?
  }

  private var heap = Heap<Key>()
  private var slots: [Slot] = []
  private var free: [Int] = []
  private var sequence: UInt64 = 0
  private var cancelled = 0

  /// Number of closures that are neither executed nor cancelled.
  var count: Int { heap.count - cancelled }

  @discardableResult
  mutating func add(at time: Instant, _ body: @escaping @LoopActor () -> Void) -> Ticket {
    sequence += 1
    let slot: Int
    if let last = free.popLast() {
      slot = last
      slots[slot] = Slot(sequence: sequence, body: body)
    } else {
      slot = slots.count
      slots.append(Slot(sequence: sequence, body: body))
    }
    heap.insert(Key(time: time.nanoseconds, sequence: sequence, slot: slot))
    return Ticket(slot: slot, sequence: sequence)
  }

  /// Removes the closure of an entry.
  ///
  /// - Returns: the closure, which the caller releases after this call: an object that the closure owns may cancel
  ///   another entry of this queue.
  mutating func cancel(_ ticket: Ticket) -> (@LoopActor () -> Void)? {
    guard slots[ticket.slot].sequence == ticket.sequence, let body = slots[ticket.slot].body else { return nil }
    slots[ticket.slot].body = nil
    cancelled += 1
    if cancelled > 1024, cancelled > heap.count / 2 { rebuild() }
    return body
  }

  /// The due time of the first entry.
  mutating func firstTime() -> Instant? {
    while let top = heap.first {
      guard slots[top.slot].body == nil else { return Instant(nanoseconds: top.time) }
      cancelled -= 1
      removeTop()
    }
    return nil
  }

  /// Removes and returns the first entry if it is due at `time`.
  mutating func pop(dueAt time: Instant) -> (time: Instant, body: @LoopActor () -> Void)? {
    guard let first = firstTime(), first <= time, let top = heap.first, let body = slots[top.slot].body
    else { return nil }
    removeTop()
    return (first, body)
  }

  private mutating func removeTop() {
    guard let top = heap.popFirst() else { return }
    slots[top.slot] = Slot(sequence: 0, body: nil)
    free.append(top.slot)
  }

  private mutating func rebuild() {
    var dropped: [Int] = []
    heap.keep { [slots] key in
      let isPending = slots[key.slot].body != nil
      if !isPending { dropped.append(key.slot) }
      return isPending
    }
    for slot in dropped { slots[slot].sequence = 0 }
    free += dropped
    cancelled = 0
  }
}
