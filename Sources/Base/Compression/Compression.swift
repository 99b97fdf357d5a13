import CZlib

/// Compression in the plain deflate format (RFC 1951), without header or checksum.
public enum RawDeflate {
  /// Compresses the bytes to one deflate stream. Equal bytes and effort give equal streams with the same release of
  /// zlib; another release may give another stream.
  public static func compress(
    _ bytes: some Collection<UInt8>, effort: DeflateEffort = .usual
  ) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .raw, effort: effort)
  }

  /// Inflates one stream.
  ///
  /// The output buffer grows with the inflated data and ends one byte past `limit`. Throws `tooLarge` beyond `limit`,
  /// and `trailing` if anything follows the stream.
  public static func decompress(_ bytes: some Collection<UInt8>, limit: Int) throws(CompressionError) -> [UInt8] {
    try Zlib.inflate(bytes, format: .raw, limit: limit)
  }

  /// Inflates one stream of exactly `count` bytes.
  ///
  /// Memory for `count` bytes is allocated at once: compare `count` with a limit before. Throws `tooLarge` if the
  /// stream contains more, `wrongSize` if it contains fewer, and `trailing` if anything follows it.
  public static func decompress(_ bytes: some Collection<UInt8>, exactly count: Int) throws(CompressionError) -> [UInt8]
  {
    try Zlib.inflate(bytes, format: .raw, exactly: count)
  }
}

/// Compression in the zlib format (RFC 1950): two bytes of header, a deflate stream, and a checksum.
public enum ZlibDeflate {
  /// Compresses the bytes to one stream.
  public static func compress(
    _ bytes: some Collection<UInt8>, effort: DeflateEffort = .usual
  ) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .zlib, effort: effort)
  }

  /// Inflates one stream of exactly `count` bytes, and verifies its checksum.
  ///
  /// Memory for `count` bytes is allocated at once: compare `count` with a limit before. Throws `tooLarge` if the
  /// stream contains more, `wrongSize` if it contains fewer, and `trailing` if anything follows it.
  public static func decompress(_ bytes: some Collection<UInt8>, exactly count: Int) throws(CompressionError) -> [UInt8]
  {
    try Zlib.inflate(bytes, format: .zlib, exactly: count)
  }
}

/// Compression in the gzip format (RFC 1952), one member.
public enum Gzip {
  /// One member that contains the bytes. It has no name and no time, so equal bytes have equal members.
  public static func compress(_ bytes: some Collection<UInt8>) throws(CompressionError) -> [UInt8] {
    try Zlib.deflate(bytes, format: .gzip)
  }

  /// Inflates one member, and verifies its checksum and length.
  ///
  /// The output buffer grows with the inflated data, regardless of the size that the member declares, and ends one byte
  /// past `limit`. Throws `tooLarge` beyond `limit`, and `trailing` if anything follows the member, even a second
  /// member.
  public static func decompress(_ bytes: some Collection<UInt8>, limit: Int) throws(CompressionError) -> [UInt8] {
    try Zlib.inflate(bytes, format: .gzip, limit: limit)
  }
}

/// Parameters of zlib's compressor. A protocol that signs compressed bytes specifies all three, because each changes
/// the bytes.
public struct DeflateEffort: Hashable, Sendable {
  /// Compression level: 0 stores, 1 is fastest, 9 is smallest; -1 is zlib's default, 6.
  public let level: Int32
  /// Base-2 logarithm of the window size in bytes: 9 to 15.
  public let windowBits: Int32
  /// Memory for the compressor's state: 1 to 9.
  public let memoryLevel: Int32

  /// Values outside zlib's ranges are limited to the nearest valid value.
  public init(level: Int, windowBits: Int = 15, memoryLevel: Int = 8) {
    self.level = Int32(clamping: min(9, max(-1, level)))
    self.windowBits = Int32(clamping: min(15, max(9, windowBits)))
    self.memoryLevel = Int32(clamping: min(9, max(1, memoryLevel)))
  }

  /// The parameters that zlib uses by default.
  public static let usual = DeflateEffort(level: -1)
}

/// The reason why bytes could not be compressed or inflated.
public enum CompressionError: Error, Hashable, Sendable {
  /// The bytes are not a compressed stream; the associated value is zlib's reason.
  case corrupt(String)
  /// The bytes end before the stream does.
  case truncated
  /// The inflated bytes would be more than `limit`.
  case tooLarge(limit: Int)
  /// The number of inflated bytes is less than the number that was announced.
  case wrongSize(expected: Int, got: Int)
  /// Bytes follow the end of the stream; the associated value is their number.
  case trailing(Int)
  /// zlib could not allocate memory.
  case unavailable
}

extension CompressionError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .corrupt(let reason): "the compressed data is corrupt: \(reason)"
    case .truncated: "the compressed data is truncated"
    case .tooLarge(let limit): "inflates to more than \(limit) bytes"
    case .wrongSize(let expected, let got): "inflates to \(got) bytes instead of \(expected)"
    case .trailing(let count): "\(count) bytes follow the compressed data"
    case .unavailable: "zlib is not available"
    }
  }
}

/// Compresses and inflates with zlib, in the formats that the callers choose.
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

  /// - Parameter room: expected size of the output, in bytes. The first buffer has twice that size.
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

/// Owner of zlib's state, whose address must not change while zlib uses it.
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
