import Common
import Loop

/// Closures, ordered by due time and, within one instant, by insertion.
///
/// The queue is a binary heap of plain keys; the closures are in fixed slots beside it. Cancelling empties the slot and
/// leaves the key. When most keys have no closure, the heap is rebuilt.
struct TimedQueue {
  /// Identifies an entry for `cancel`.
  struct Ticket: Sendable {
    fileprivate var slot: Int
    fileprivate var sequence: UInt64
  }

  private struct Key {
    var time: Int64
    var sequence: UInt64
    var slot: Int

    func isBefore(_ other: Key) -> Bool {
      time != other.time ? time < other.time : sequence < other.sequence
    }
  }

  private struct Slot {
    var sequence: UInt64
    var body: (@LoopActor () -> Void)?
  }

  private var heap: [Key] = []
  private var slots: [Slot] = []
  private var free: [Int] = []
  private var sequence: UInt64 = 0
  private var cancelled = 0

  /// Number of pending entries.
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
    heap.append(Key(time: time.nanoseconds, sequence: sequence, slot: slot))
    siftUp(heap.count - 1)
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
    guard let top = heap.first, let last = heap.popLast() else { return }
    slots[top.slot] = Slot(sequence: 0, body: nil)
    free.append(top.slot)
    if !heap.isEmpty {
      heap[0] = last
      siftDown(0)
    }
  }

  private mutating func rebuild() {
    let all = heap
    heap.removeAll(keepingCapacity: true)
    for key in all {
      if slots[key.slot].body == nil {
        slots[key.slot].sequence = 0
        free.append(key.slot)
      } else {
        heap.append(key)
      }
    }
    cancelled = 0
    for index in stride(from: heap.count / 2, through: 0, by: -1) { siftDown(index) }
  }

  private mutating func siftUp(_ start: Int) {
    var index = start
    let key = heap[index]
    while index > 0 {
      let parent = (index - 1) / 2
      guard key.isBefore(heap[parent]) else { break }
      heap[index] = heap[parent]
      index = parent
    }
    heap[index] = key
  }

  private mutating func siftDown(_ start: Int) {
    guard start < heap.count else { return }
    var index = start
    let key = heap[index]
    while true {
      var child = 2 * index + 1
      guard child < heap.count else { break }
      if child + 1 < heap.count, heap[child + 1].isBefore(heap[child]) { child += 1 }
      guard heap[child].isBefore(key) else { break }
      heap[index] = heap[child]
      index = child
    }
    heap[index] = key
  }
}
