import Bytes

/// Puts a frame together from chunks in any order. Memory grows with what has arrived; of what was announced only addresses
/// are taken, with the first chunk.
///
/// The assembler is strict where the originals are lax (facts: tuvali.md section 5): a chunk counts only if its length is
/// exactly the expected one, its number exists and its CRC is right. A chunk that is dropped stays missing, and the next
/// report names it.
public struct Assembler: Sendable {
  /// What became of a chunk.
  public enum Outcome: Hashable, Sendable {
    case stored
    /// The checksum is not that of the payload.
    case badCRC
    /// The chunk had come before; the newer one takes its place.
    case duplicate
    /// The frame has no chunk of this number.
    case outOfRange
    /// The chunk has not the length that it must have.
    case wrongLength
    /// The chunk is shorter than its header, or has no payload.
    case tooShort
  }

  /// Bytes of the whole frame.
  public let size: Int
  /// How the wallet cuts the frame, as far as it is known.
  public private(set) var layout: ChunkLayout
  private let firstSequence: Int
  /// The payloads, in the order of their arrival.
  private var arrived: [UInt8] = []
  /// For each chunk of the frame, one more than the offset of its payload in `arrived`; 0 if the chunk is missing.
  private var places: [UInt32] = []
  private var stored = 0
  /// Whether every payload so far arrived in its turn, so that `arrived` is the beginning of the frame.
  private var isInOrder = true

  /// - Parameters:
  ///   - size: bytes of the frame.
  ///   - layout: our own view of the MTU. The wallet's may be smaller; its first chunk to arrive shows that.
  ///   - firstSequence: the number of the first chunk, 0 or 1.
  public init(size: Int, layout: ChunkLayout, firstSequence: Int) {
    self.size = max(0, size)
    self.layout = layout
    self.firstSequence = firstSequence
  }

  /// Chunks of the whole frame.
  public var count: Int { layout.count(forFrame: size) }
  /// Chunks that have not arrived.
  public var missing: Int { count - stored }
  public var isComplete: Bool { stored == count }
  /// Bytes of the frame that have arrived.
  public var receivedBytes: Int { arrived.count }

  /// Expects chunks of `layout` from now on, because the MTU has changed. This has no effect after the first chunk: by then
  /// the wallet has cut the frame.
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

  /// Takes on the layout of a wallet that has a smaller view of the MTU than ours and cuts smaller chunks. A full chunk
  /// shows the size of all; a chunk that may as well be the last of another layout shows nothing, and stays missing.
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
    if stored == 0 { reserve() }
    // As a slice it would be kept alive for the time, chunk for chunk.
    payload.withUnsafeBufferPointer { arrived.append(contentsOf: $0) }
    stored += 1
  }

  /// Reserves addresses for the frame, so that it need not move as it grows. The kernel gives memory for what is written.
  private mutating func reserve() {
    arrived.reserveCapacity(size)
    places.reserveCapacity(count)
  }

  private mutating func replace(at start: Int, with payload: ArraySlice<UInt8>) {
    let range = start..<start + payload.count
    if arrived[range] != payload { arrived.replaceSubrange(range, with: payload) }
  }
}
