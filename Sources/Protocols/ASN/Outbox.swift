import Common

/// The PDUs that a session has to send, in order. They are sealed segment by segment as the transport accepts them, so
/// that a blob for many sessions is in memory once.
struct Outbox: Sendable {
  /// The next thing that the session sends or does.
  enum Step: Sendable {
    /// A sealed segment, with the sum of a pushed blob if the segment is the last of this blob.
    case segment([UInt8], completes: Sum?)
    /// All PDUs queued before the change of the key are sealed.
    case keyChange
  }

  private enum Item: Sendable {
    /// A PDU, with the sum of the blob if the PDU is a pushed blob.
    case pdu([UInt8], Sum?)
    case keyChange
  }

  private var items = Fifo<Item>()
  /// Number of octets of the first PDU that are already sealed.
  private var position = 0
  /// Octets of the PDUs that only this session sends. A PDU counts until it is completely sealed.
  private(set) var own = 0
  /// Octets of the pushed blobs, whose memory other sessions may share.
  private(set) var shared = 0
  /// Number of segments that the remaining PDUs need.
  private(set) var segments = 0

  var isEmpty: Bool { items.isEmpty }

  /// Adds a PDU.
  ///
  /// - Parameter pushed: the sum of a blob that other sessions may share.
  mutating func append(_ pdu: [UInt8], pushed: Sum? = nil) {
    items.append(.pdu(pdu, pushed))
    if pushed == nil { own += pdu.count } else { shared += pdu.count }
    segments += BoxChannel.segments(pdu.count)
  }

  /// Queues a change of the key: PDUs that are added later are sealed under the new key.
  mutating func appendKeyChange() { items.append(.keyChange) }

  /// Seals the next segment; nil if the outbox is empty or there is no key.
  ///
  /// Throws `exhausted` if the key has no counter left.
  mutating func next(_ channel: inout BoxChannel?) throws(SegmentError) -> Step? {
    guard let item = items.first else { return nil }
    guard case .pdu(let pdu, let pushed) = item else {
      items.popFirst()
      return .keyChange
    }
    let end = min(position + Limits.segmentPlaintext, pdu.count)
    guard let segment = try channel?.seal(pdu[position..<end], isContinued: end < pdu.count) else { return nil }
    segments -= 1
    position = end
    guard end == pdu.count else { return .segment(segment, completes: nil) }
    removeFirst(pdu, pushed)
    return .segment(segment, completes: pushed)
  }

  private mutating func removeFirst(_ pdu: [UInt8], _ pushed: Sum?) {
    items.popFirst()
    position = 0
    if pushed == nil { own -= pdu.count } else { shared -= pdu.count }
  }

  /// Drops all PDUs, and returns the sums of the pushed blobs among them.
  mutating func removeAll() -> [Sum] {
    var sums: [Sum] = []
    while let item = items.popFirst() {
      if case .pdu(_, let sum?) = item { sums.append(sum) }
    }
    self = Outbox()
    return sums
  }
}
