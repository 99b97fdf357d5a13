import CZlib

/// Compression and decompression with zlib.
enum Zlib {
  /// The format around the deflated bytes, as zlib's window bits express it, with a window of 32 KiB.
  enum Format: Int32 {
    case raw = -15
    case zlib = 15
    case gzip = 31

    /// The frame with a window of 2^`bits` bytes.
    func windowBits(_ bits: Int32) -> Int32 {
      switch self {
      case .raw: -bits
      case .zlib: bits
      case .gzip: bits + 16
      }
    }
  }

  /// Deflates all bytes, with zlib's default parameters unless `effort` is given.
  static func deflate(
    _ bytes: some Collection<UInt8>, format: Format, effort: DeflateEffort = .usual
  ) throws(CompressionError) -> [UInt8] {
    let stream = Stream()
    defer { stream.free() }
    let status = deflateInit2_(
      stream.state, effort.level, Z_DEFLATED, format.windowBits(effort.windowBits), effort.memoryLevel,
      Z_DEFAULT_STRATEGY, ZLIB_VERSION, Stream.size)
    guard status == Z_OK else { throw .unavailable }
    defer { deflateEnd(stream.state) }
    return try run(stream, over: bytes, room: bytes.count / 2, limit: .max) { state, isLast in
      CZlib.deflate(state, isLast ? Z_FINISH : Z_NO_FLUSH)
    }
  }

  /// Inflates one stream, which must end where the bytes end, to at most `limit` bytes.
  static func inflate(
    _ bytes: some Collection<UInt8>, format: Format, limit: Int
  ) throws(CompressionError) -> [UInt8] {
    let stream = Stream()
    defer { stream.free() }
    guard inflateInit2_(stream.state, format.rawValue, ZLIB_VERSION, Stream.size) == Z_OK else { throw .unavailable }
    defer { inflateEnd(stream.state) }
    return try run(stream, over: bytes, room: bytes.count, limit: max(0, limit)) { state, _ in
      CZlib.inflate(state, Z_NO_FLUSH)
    }
  }

  /// Inflates one stream, which must end where the bytes end, to exactly `count` bytes. Allocates memory for `count`
  /// bytes at once.
  static func inflate(
    _ bytes: some Collection<UInt8>, format: Format, exactly count: Int
  ) throws(CompressionError) -> [UInt8] {
    let stream = Stream()
    defer { stream.free() }
    guard inflateInit2_(stream.state, format.rawValue, ZLIB_VERSION, Stream.size) == Z_OK else { throw .unavailable }
    defer { inflateEnd(stream.state) }
    // All output fits, so zlib may finish in one step; then it allocates no window.
    let output = try run(stream, over: bytes, room: max(0, count) / 2 + 1, limit: max(0, count)) { state, isLast in
      CZlib.inflate(state, isLast ? Z_FINISH : Z_NO_FLUSH)
    }
    guard output.count == count else { throw .wrongSize(expected: count, got: output.count) }
    return output
  }

  /// - Parameter room: expected size of the output, in bytes; the first buffer has twice that size.
  private static func run(
    _ stream: Stream, over bytes: some Collection<UInt8>, room: Int, limit: Int,
    step: (UnsafeMutablePointer<z_stream>, _ isLast: Bool) -> Int32
  ) throws(CompressionError) -> [UInt8] {
    // Typed errors do not pass through the standard library's closures.
    let result =
      bytes.withContiguousStorageIfAvailable { pump(stream, input: $0, room: room, limit: limit, step: step) }
      ?? Array(bytes).withUnsafeBufferPointer { pump(stream, input: $0, room: room, limit: limit, step: step) }
    return try result.get()
  }

  /// Runs `step` on the input until zlib reports the end of the stream. The output is written to the array that is
  /// returned; a full array is replaced by one of twice the size.
  private static func pump(
    _ stream: Stream, input: UnsafeBufferPointer<UInt8>, room: Int, limit: Int,
    step: (UnsafeMutablePointer<z_stream>, _ isLast: Bool) -> Int32
  ) -> Result<[UInt8], CompressionError> {
    let state = stream.state
    var unfed = input[...]
    var output: [UInt8] = []
    var room = max(smallestRoom, room)
    while true {
      // One byte past the limit fits, and shows that the limit is exceeded.
      room = min(room, limit < .max ? limit / 2 + 1 : room) * 2
      var status = Z_OK
      output = [UInt8](unsafeUninitializedCapacity: room) { bytes, count in
        count = bytes.initialize(fromContentsOf: output)
        while status == Z_OK, count < room {
          if state.pointee.avail_in == 0 {
            // zlib counts in 32 bits.
            let portion = unfed.prefix(Int(UInt32.max))
            unfed = unfed.dropFirst(portion.count)
            state.pointee.next_in = UnsafeMutablePointer(mutating: UnsafeBufferPointer(rebasing: portion).baseAddress)
            state.pointee.avail_in = UInt32(portion.count)
          }
          let free = min(room - count, Int(UInt32.max))
          state.pointee.next_out = bytes.baseAddress?.advanced(by: count)
          state.pointee.avail_out = UInt32(free)
          status = step(state, unfed.isEmpty)
          count += free - Int(state.pointee.avail_out)
        }
      }
      guard output.count <= limit else { return .failure(.tooLarge(limit: limit)) }
      switch status {
      case Z_OK: continue
      case Z_STREAM_END:
        let trailing = Int(state.pointee.avail_in) + unfed.count
        return trailing == 0 ? .success(output) : .failure(.trailing(trailing))
      case Z_BUF_ERROR: return .failure(.truncated)
      case Z_MEM_ERROR: return .failure(.unavailable)
      default: return .failure(.corrupt(state.pointee.msg.map { String(cString: $0) } ?? "status \(status)"))
      }
    }
  }

  private static let smallestRoom = 64
}

/// zlib's state, whose address must not change.
private struct Stream {
  static let size = Int32(MemoryLayout<z_stream>.size)

  let state = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)

  init() {
    state.initialize(to: z_stream())
  }

  func free() {
    state.deallocate()
  }
}
