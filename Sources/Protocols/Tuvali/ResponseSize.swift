import Bytes

/// The value of Response size: how many bytes the encrypted frame has. Facts: tuvali.md sections 0 and 3.
///
///     offset  size
///     0       4      the number, signed, big endian
///
/// or, in dialect 0.3,
///
///     offset  size
///     0       1...10 the number in ASCII decimal digits
public struct ResponseSize: Hashable, Sendable {
  /// Announced length of the frame in bytes; may be negative.
  public let frameBytes: Int

  private static let mostDigits = 10

  public init(_ frameBytes: Int) {
    self.frameBytes = frameBytes
  }

  /// Decodes a size. Bytes after the first four are ignored, as in Android; digits extend to the end of the value.
  ///
  /// Throws `truncated` for fewer than four bytes or no digit, `tooLong` for more than ten digits, and
  /// `badValue("digits")` for anything but digits.
  public init(reading reader: inout ByteReader, as encoding: Dialect.SizeEncoding) throws(WireError) {
    switch encoding {
    case .bigEndian:
      frameBytes = Int(Int32(bitPattern: try reader.u32be()))
    case .asciiDecimal:
      let digits = reader.rest()
      guard !digits.isEmpty else { throw .truncated(needed: 1, available: 0) }
      guard digits.count <= Self.mostDigits else { throw .tooLong(field: "digits", limit: Self.mostDigits) }
      guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
        throw .badValue("digits")
      }
      frameBytes = digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    }
  }

  /// Encodes the size; a big-endian one is limited to the range of 32 bits.
  public func write(to writer: inout ByteWriter, as encoding: Dialect.SizeEncoding) {
    switch encoding {
    case .bigEndian: writer.u32be(UInt32(bitPattern: Int32(clamping: frameBytes)))
    case .asciiDecimal: writer.append(String(frameBytes).utf8)
    }
  }

  /// Returns the length of the frame after validation.
  ///
  /// - Parameter limit: maximum accepted frame, in bytes.
  /// - Throws: TVV_TRA_001 for an impossible length, and for one above the limit.
  func checked(limit: Int) throws(TuvaliError) -> Int {
    guard frameBytes >= Limits.smallestFrame else {
      throw TuvaliError(
        .verifierSize, .protocolViolation, "The wallet announced \(frameBytes) bytes, less than the shortest frame.")
    }
    guard frameBytes <= limit else {
      throw TuvaliError(
        .verifierSize, .limitExceeded, "The wallet announced \(frameBytes) bytes; the limit is \(limit).")
    }
    return frameBytes
  }
}

extension ResponseSize {
  /// Decodes the size at the beginning of `bytes`.
  public init(reading bytes: [UInt8], as encoding: Dialect.SizeEncoding) throws(WireError) {
    var reader = ByteReader(bytes)
    try self.init(reading: &reader, as: encoding)
  }

  /// Returns the size as bytes of the given encoding.
  public func bytes(as encoding: Dialect.SizeEncoding) -> [UInt8] {
    var writer = ByteWriter()
    write(to: &writer, as: encoding)
    return writer.bytes
  }
}
