import Bytes

/// The meaning of a frame of the multiplexer for its channel. The initiator is the side that opened the channel.
enum FrameType: UInt8, CaseIterable, Hashable, Sendable {
  case open = 0
  case dataFromReceiver = 1
  case dataFromInitiator = 2
  case endFromReceiver = 3
  case endFromInitiator = 4
  case destroyFromReceiver = 5
  case destroyFromInitiator = 6
}

/// A frame of the multiplexer.
///
///     head    1 to 5  varint: channel << 3 | type
///     length  1 to 5  varint: the bytes of the data
///     data    length
///
/// A varint has seven bits in each byte, the least significant ones first; the highest bit is set in all bytes but
/// the last. Facts: thali.md section 6.
struct MultiplexerFrame: Hashable, Sendable {
  let channel: UInt32
  let type: FrameType
  let data: [UInt8]

  init(_ type: FrameType, channel: UInt32, data: some Collection<UInt8> = []) {
    (self.type, self.channel, self.data) = (type, channel, Array(data))
  }

  func write(to writer: inout ByteWriter) {
    Self.varint(UInt64(channel) << 3 | UInt64(type.rawValue), to: &writer)
    Self.varint(UInt64(data.count), to: &writer)
    writer.append(data)
  }

  var bytes: [UInt8] {
    var writer = ByteWriter(capacity: data.count + 2 * Limits.varintBytes)
    write(to: &writer)
    return writer.bytes
  }

  private static func varint(_ value: UInt64, to writer: inout ByteWriter) {
    var rest = value
    while rest >= 0x80 {
      writer.u8(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    writer.u8(UInt8(truncatingIfNeeded: rest))
  }
}

/// Reads frames from a byte stream that may be split anywhere. Data is passed on as it arrives, so that no frame is
/// stored as a whole.
struct MultiplexerFrameReader: Sendable {
  /// A part of the decoded sequence of frames.
  enum Piece: Hashable, Sendable {
    /// A frame of this type begins.
    case begin(FrameType, channel: UInt32)
    /// The next bytes of the frame's data.
    case data(ArraySlice<UInt8>)
    /// The frame is complete.
    case end
    /// A frame of type 7, which has no meaning, begins; its data and its end follow.
    case beginUnknown
  }

  /// Reason why the bytes of the link can no longer be decoded.
  enum Failure: Error, Hashable, Sendable {
    /// A varint has more than five bytes, or a channel more than 32 bits.
    case badVarint
    /// A frame has more than 1 MiB of data.
    case tooLong
  }

  private enum State: Sendable {
    case head(Varint)
    case length(head: UInt64, Varint)
    case data(remaining: Int)
    case failed(Failure)
  }

  private struct Varint: Sendable {
    private var value: UInt64 = 0
    private var count = 0

    /// Handles the next byte of a varint. Nil means that more bytes follow.
    mutating func take(_ byte: UInt8) throws(Failure) -> UInt64? {
      value |= UInt64(byte & 0x7F) << (7 * UInt64(count))
      count += 1
      if byte & 0x80 == 0 { return value }
      guard count < Limits.varintBytes else { throw .badVarint }
      return nil
    }
  }

  private var state = State.head(Varint())

  /// Decodes the next bytes of the stream, and passes every piece to `handOn`, in order.
  ///
  /// - Throws: `badVarint`, `tooLong`; every later call throws the same error. Pieces before the failure were passed
  ///   on.
  mutating func read(_ bytes: ArraySlice<UInt8>, _ handOn: (Piece) -> Void) throws(Failure) {
    var unread = bytes
    while !unread.isEmpty {
      switch state {
      case .failed(let failure): throw failure
      case .data(let remaining):
        let data = unread.prefix(remaining)
        unread = unread.dropFirst(data.count)
        handOn(.data(data))
        finish(remaining - data.count, handOn)
      case .head(var varint):
        let value = try take(unread.removeFirst(), &varint)
        state = value.map { .length(head: $0, Varint()) } ?? .head(varint)
      case .length(let head, var varint):
        guard let value = try take(unread.removeFirst(), &varint) else {
          state = .length(head: head, varint)
          continue
        }
        guard value <= UInt64(Limits.frameBytes) else { throw fail(.tooLong) }
        guard let channel = UInt32(exactly: head >> 3) else { throw fail(.badVarint) }
        handOn(FrameType(rawValue: UInt8(head & 7)).map { .begin($0, channel: channel) } ?? .beginUnknown)
        finish(Int(value), handOn)
      }
    }
  }

  private mutating func take(_ byte: UInt8, _ varint: inout Varint) throws(Failure) -> UInt64? {
    do throws(Failure) {
      return try varint.take(byte)
    } catch {
      throw fail(error)
    }
  }

  private mutating func finish(_ remaining: Int, _ handOn: (Piece) -> Void) {
    guard remaining == 0 else {
      state = .data(remaining: remaining)
      return
    }
    state = .head(Varint())
    handOn(.end)
  }

  private mutating func fail(_ failure: Failure) -> Failure {
    state = .failed(failure)
    return failure
  }
}
