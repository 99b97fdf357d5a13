/// Event queue ordered by time, then by node, then by cause and its order. The order therefore does not depend on the
/// partition into shards.
struct FieldQueue {
  struct Key {
    /// Nanoseconds since the start.
    var time: Int64
    /// Order among events of one node and time: see `FieldEvent.order`.
    var order: UInt64
    var node: Int32
    /// Index of the event in its storage; negative for a timer.
    var slot: Int32

    @inline(__always)
    func isBefore(_ other: Key) -> Bool {
      if time != other.time { return time < other.time }
      if node != other.node { return node < other.node }
      return order < other.order
    }
  }

  private var heap: [Key] = []
  private var events: [FieldEvent?] = []
  private var free: [Int32] = []

  var count: Int { heap.count }
  var firstTime: Int64? { heap.first?.time }

  mutating func addTimer(at time: Int64, of node: Int32) {
    push(Key(time: time, order: 0, node: node, slot: -1))
  }

  mutating func add(_ event: FieldEvent) {
    let slot: Int32
    if let last = free.popLast() {
      slot = last
      events[Int(slot)] = event
    } else {
      slot = Int32(events.count)
      events.append(event)
    }
    push(Key(time: event.time, order: event.order, node: event.node, slot: slot))
  }

  /// Removes and returns the first entry if it is before `end`. A timer has no event.
  mutating func popFirst(before end: Int64) -> (key: Key, event: FieldEvent?)? {
    guard let first = heap.first, first.time < end, let last = heap.popLast() else { return nil }
    if !heap.isEmpty {
      heap[0] = last
      siftDown()
    }
    guard first.slot >= 0 else { return (first, nil) }
    let event = events[Int(first.slot)]
    events[Int(first.slot)] = nil
    free.append(first.slot)
    return (first, event)
  }

  private mutating func push(_ key: Key) {
    heap.append(key)
    var index = heap.count - 1
    heap.withUnsafeMutableBufferPointer { heap in
      while index > 0 {
        let parent = (index - 1) / 2
        guard key.isBefore(heap[parent]) else { break }
        heap[index] = heap[parent]
        index = parent
      }
      heap[index] = key
    }
  }

  private mutating func siftDown() {
    heap.withUnsafeMutableBufferPointer { heap in
      var index = 0
      let key = heap[0]
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
}

/// Event at a node.
struct FieldEvent: Sendable {
  let time: Int64
  let node: Int32
  let order: UInt64
  let what: What

  enum What: Sendable {
    /// A frame arrives.
    case frame([UInt8], on: LinkNumber)
    /// The other end has cut the link.
    case hungUp(LinkNumber)
    /// The link can take the next frame.
    case room(LinkNumber)
    case open(LinkNumber, to: Int32, isOurs: Bool)
    case close(LinkNumber)
    case arrive
    case leave
    /// The node sends the public message with this number.
    case say(Int)
    /// The node sends the private message with this number to that node.
    case tell(Int, to: Int32)
    case flood
  }

  /// Order of an event of the field: such events come first, in the order of their decisions.
  static func fieldOrder(_ number: Int) -> UInt64 { 1 + UInt64(number) }
  /// Order of an event that a node caused: such events follow those of the field, by node and number.
  static func nodeOrder(_ node: Int32, _ number: UInt32) -> UInt64 {
    1 << 62 | UInt64(node) << 32 | UInt64(number)
  }
}

/// Unique number of a link, never reused.
typealias LinkNumber = UInt64
