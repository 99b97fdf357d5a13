import Bytes

/// A frame, put together from chunks in any order. Memory grows with what has arrived, not with what was announced.
///
/// Strict where the originals are lax (facts: tuvali.md section 5): a chunk counts only if its length is exactly the
/// expected one, its number exists and its CRC holds; what is dropped stays missing and will be in the next report.
public struct Assembler: Sendable {
  /// What became of a chunk.
  public enum Outcome: Hashable, Sendable {
    case stored
    case badCRC
    /// Equal to what was there, or in place of it.
    case duplicate
    /// The frame has no chunk of this number.
    case outOfRange
    /// Not the length that this chunk must have.
    case wrongLength
    /// Shorter than its header, or without payload.
    case tooShort
  }

  /// Bytes of the whole frame.
  public let size: Int
  public private(set) var layout: ChunkLayout
  private let firstSequence: Int
  /// Payloads in the order of their arrival.
  private var arrived: [UInt8] = []
  /// For each sequence: one more than the offset of its payload in `arrived`; 0 where it is missing.
  private var places: [UInt32] = []
  private var stored = 0
  /// Every payload so far arrived in its turn, so `arrived` is the beginning of the frame.
  private var isInOrder = true

  /// - Parameters:
  ///   - size: bytes of the frame.
  ///   - layout: our own view of the MTU. The wallet's may be smaller: the first of its chunks to arrive tells.
  ///   - firstSequence: the number of the first chunk, 0 or 1.
  public init(size: Int, layout: ChunkLayout, firstSequence: Int) {
    self.size = max(0, size)
    self.layout = layout
    self.firstSequence = firstSequence
  }

  /// Chunks of the whole frame.
  public var count: Int { layout.count(forFrame: size) }
  public var missing: Int { count - stored }
  public var isComplete: Bool { stored == count }
  /// Bytes of the frame that are there.
  public var receivedBytes: Int { arrived.count }

  /// The MTU has changed: chunks of `layout` are expected from now on. Without effect once a chunk is there, because the
  /// wallet has cut the frame by then.
  mutating func expect(_ layout: ChunkLayout) {
    guard stored == 0, layout.count(forFrame: size) <= Limits.chunks else { return }
    self.layout = layout
  }

  /// Takes one chunk, as `Chunker` writes it.
  public mutating func add(_ value: [UInt8]) -> Outcome {
    guard let chunk = try? Chunk(reading: value) else { return .tooShort }
    guard value.count <= layout.maxData else { return .wrongLength }
    guard chunk.isIntact else { return .badCRC }
    let index = Int(chunk.sequence) - firstSequence
    let payload = chunk.payload
    if stored == 0 { adoptLayout(shownBy: payload.count, at: index) }
    guard index >= 0, index < count else { return .outOfRange }
    guard payload.count == expectedLength(at: index) else { return .wrongLength }
    if index < places.count, places[index] != 0 {
      replace(at: Int(places[index]) - 1, with: payload)
      return .duplicate
    }
    append(payload, at: index)
    return .stored
  }

  /// The frame, once complete; nil before.
  public func frame() -> [UInt8]? {
    guard isComplete else { return nil }
    if isInOrder { return arrived }
    var frame: [UInt8] = []
    frame.reserveCapacity(size)
    for (index, place) in places.enumerated() {
      let start = Int(place) - 1
      frame += arrived[start..<start + expectedLength(at: index)]
    }
    return frame
  }

  /// The first `limit` sequence numbers that are missing, ascending.
  public func missingSequences(limit: Int) -> [Int] {
    var found: [Int] = []
    for index in 0..<count where index >= places.count || places[index] == 0 {
      guard found.count < limit else { break }
      found.append(index + firstSequence)
    }
    return found
  }

  /// A wallet with a smaller view of the MTU than ours cuts smaller chunks: a full one shows the size of all. One that
  /// may as well be the last of another view shows nothing, and stays missing.
  private mutating func adoptLayout(shownBy length: Int, at index: Int) {
    guard index >= 0, index >= count || length != expectedLength(at: index) else { return }
    let candidate = ChunkLayout(payload: length)
    guard candidate.isUsable, candidate.payload < layout.payload, candidate.count(forFrame: size) <= Limits.chunks,
      (index + 1) * length < size, !mayBeLast(length, at: index)
    else { return }
    layout = candidate
  }

  /// Whether the frame ends with a chunk of `length` bytes at `index`, for some number of bytes in those before it.
  private func mayBeLast(_ length: Int, at index: Int) -> Bool {
    guard index > 0, (size - length).isMultiple(of: index) else { return false }
    let payload = (size - length) / index
    return payload >= length && payload <= layout.payload
  }

  private func expectedLength(at index: Int) -> Int {
    min(layout.payload, size - index * layout.payload)
  }

  private mutating func append(_ payload: ArraySlice<UInt8>, at index: Int) {
    isInOrder = isInOrder && index == stored
    if index >= places.count {
      places.append(contentsOf: repeatElement(0, count: index + 1 - places.count))
    }
    places[index] = UInt32(arrived.count + 1)
    arrived += payload
    stored += 1
  }

  private mutating func replace(at start: Int, with payload: ArraySlice<UInt8>) {
    let range = start..<start + payload.count
    if arrived[range] != payload { arrived.replaceSubrange(range, with: payload) }
  }
}
