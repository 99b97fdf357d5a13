import Common

/// Event queue ordered by time, then by node, then by cause and its order. The order therefore does not depend on the
/// partition into shards.
struct FieldQueue {
  struct Key: Comparable {
    /// Nanoseconds since the start.
    var time: Int64
    /// Order among events of one node and time: see `FieldEvent.order`.
    var order: UInt64
    var node: Int32
    /// Index of the event in its storage; negative for a timer.
    var slot: Int32

    @inline(__always)
    static func < (one: Key, other: Key) -> Bool {
      if one.time != other.time { return one.time < other.time }
      if one.node != other.node { return one.node < other.node }
      return one.order < other.order
    }
  }

  private var heap = Heap<Key>()
  private var events: [FieldEvent?] = []
  private var free: [Int32] = []

  var count: Int { heap.count }
  var firstTime: Int64? { heap.first?.time }

  mutating func addTimer(at time: Int64, of node: Int32) {
    heap.insert(Key(time: time, order: 0, node: node, slot: -1))
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
    heap.insert(Key(time: event.time, order: event.order, node: event.node, slot: slot))
  }

  /// Removes and returns the first entry if it is before `end`. A timer has no event.
  mutating func popFirst(before end: Int64) -> (key: Key, event: FieldEvent?)? {
    guard let first = heap.first, first.time < end else { return nil }
    heap.popFirst()
    guard first.slot >= 0 else { return (first, nil) }
    let event = events[Int(first.slot)]
    events[Int(first.slot)] = nil
    free.append(first.slot)
    return (first, event)
  }
}

/// An event of the simulation that one node handles.
struct FieldEvent: Sendable {
  let time: Int64
  let node: Int32
  let order: UInt64
  let what: What

  enum What: Sendable {
    /// A frame arrives at the node on this link.
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

  /// Order value of an event that the field caused. These events precede those of nodes at equal time.
  static func fieldOrder(_ number: Int) -> UInt64 { 1 + UInt64(number) }
  /// Order value of an event that a node caused. These events follow those of the field, in the order of node and
  /// number.
  static func nodeOrder(_ node: Int32, _ number: UInt32) -> UInt64 {
    1 << 62 | UInt64(node) << 32 | UInt64(number)
  }
}

/// Unique number of a link, never reused.
typealias LinkNumber = UInt64
