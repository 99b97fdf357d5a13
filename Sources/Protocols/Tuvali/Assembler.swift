import Bytes

/// Reassembles a frame from chunks in any order. Memory grows with the received chunks; for the announced size only
/// address space is reserved, at the first chunk.
///
/// The assembler is stricter than the originals (facts: tuvali.md section 5): a chunk counts only if its length, its
/// number and its CRC are right. A dropped chunk stays missing, and the next report names it.
public struct Assembler: Sendable {
  /// Result of adding a chunk.
  public enum Outcome: Hashable, Sendable {
    case stored
    /// The checksum does not match the payload.
    case badCRC
    /// The chunk was stored before; the newer payload replaces it.
    case duplicate
    /// The frame has no chunk of this number.
    case outOfRange
    /// The chunk does not have the required length.
    case wrongLength
    /// The chunk is shorter than its header, or has no payload.
    case tooShort
  }

  /// Length of the frame, in bytes.
  public let size: Int
  /// Layout of the wallet's chunks, as far as it is known.
  public private(set) var layout: ChunkLayout
  private let firstSequence: Int
  /// Payloads of the received chunks, one after the other in the order of their arrival.
  private var arrived: [UInt8] = []
  /// Per chunk of the frame, the offset of its payload in `arrived` plus one; 0 if the chunk is missing.
  private var places: [UInt32] = []
  private var stored = 0
  /// Whether all payloads arrived in sequence, so that `arrived` is the beginning of the frame.
  private var isInOrder = true

  /// - Parameters:
  ///   - size: length of the frame, in bytes.
  ///   - layout: layout that follows from the verifier's MTU. The wallet's chunks may be smaller, which its first chunk
  ///     shows.
  ///   - firstSequence: number of the first chunk, 0 or 1.
  public init(size: Int, layout: ChunkLayout, firstSequence: Int) {
    self.size = max(0, size)
    self.layout = layout
    self.firstSequence = firstSequence
  }

  /// Number of chunks of the frame.
  public var count: Int { layout.count(forFrame: size) }
  /// Number of the frame's chunks that have not arrived.
  public var missing: Int { count - stored }
  public var isComplete: Bool { stored == count }
  /// Number of received bytes of the frame.
  public var receivedBytes: Int { arrived.count }

  /// Expects chunks of `layout` after a change of the MTU. It has no effect after the first chunk, because the wallet
  /// has then already split the frame.
  mutating func expect(_ layout: ChunkLayout) {
    guard stored == 0, layout.count(forFrame: size) <= Limits.chunks else { return }
    self.layout = layout
  }

  /// Adds one chunk, as written by `Chunker`.
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

  /// Returns the frame; nil until it is complete.
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

  /// Returns the first `limit` missing sequence numbers, in ascending order.
  public func missingSequences(limit: Int) -> [Int] {
    var found: [Int] = []
    for index in 0..<count where index >= places.count || places[index] == 0 {
      guard found.count < limit else { break }
      found.append(index + firstSequence)
    }
    return found
  }

  /// Adopts the layout of a wallet with a smaller MTU, which cuts smaller chunks. A full chunk shows the size of all. A
  /// chunk that may be the last one of another layout does not decide, and stays missing.
  private mutating func adoptLayout(shownBy length: Int, at index: Int) {
    guard index >= 0, index >= count || length != expectedLength(at: index) else { return }
    let candidate = ChunkLayout(payload: length)
    guard candidate.isUsable, candidate.payload < layout.payload, candidate.count(forFrame: size) <= Limits.chunks,
      (index + 1) * length < size, !mayBeLast(length, at: index)
    else { return }
    layout = candidate
  }

  /// Whether the frame could end with a chunk of `length` bytes at `index`, for some length of the chunks before it.
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
    // Appending the slice itself would retain it and cost more per chunk.
    payload.withUnsafeBufferPointer { arrived.append(contentsOf: $0) }
    stored += 1
  }

  /// Reserves address space for the frame, to avoid moving it. The kernel allocates memory only for what is written.
  private mutating func reserve() {
    arrived.reserveCapacity(size)
    places.reserveCapacity(count)
  }

  private mutating func replace(at start: Int, with payload: ArraySlice<UInt8>) {
    let range = start..<start + payload.count
    if arrived[range] != payload { arrived.replaceSubrange(range, with: payload) }
  }
}
