import CWslay
import Crypto

/// A portion of a frame.
struct FramePortion {
  let isFinal: Bool
  /// The three reserved bits.
  let reserved: UInt8
  let opcode: UInt8
  let isMasked: Bool
  /// Length of the whole payload, in octets.
  let length: UInt64
  let payload: [UInt8]
}

/// The frames of one connection, by wslay's frame functions: they read and write octets by callbacks, here from and to
/// arrays.
///
/// `@unchecked Sendable`: `WebSocketFraming`, which is used by one thread at a time, owns the handle.
final class FrameCodec: @unchecked Sendable {
  struct Malformed: Error {}

  private var context: wslay_frame_context_ptr?
  fileprivate var input: [UInt8] = []
  fileprivate var position = 0
  fileprivate var output: [UInt8] = []
  fileprivate var random: any RandomSource

  init(random: any RandomSource) {
    self.random = random
    var callbacks = wslay_frame_callbacks(
      send_callback: takeOutput, recv_callback: giveInput, genmask_callback: makeMask)
    wslay_frame_context_init(&context, &callbacks, Unmanaged.passUnretained(self).toOpaque())
  }

  deinit {
    if let context { wslay_frame_context_free(context) }
  }

  /// Stores octets from the peer, which `next` reads.
  func take(_ bytes: some Collection<UInt8>) {
    if position == input.count {
      input = Array(bytes)
      position = 0
    } else {
      input.removeFirst(position)
      input += bytes
      position = 0
    }
  }

  /// The next portion of a frame; nil if more octets are needed.
  func next() throws(Malformed) -> FramePortion? {
    var frame = wslay_frame_iocb()
    let count = wslay_frame_recv(context, &frame)
    guard count >= 0 else {
      if count == ssize_t(WSLAY_ERR_WANT_READ.rawValue) { return nil }
      throw Malformed()
    }
    let payload = Array(UnsafeBufferPointer(start: frame.data, count: frame.data_length))
    return FramePortion(
      isFinal: frame.fin != 0, reserved: frame.rsv, opcode: frame.opcode, isMasked: frame.mask != 0,
      length: frame.payload_length, payload: payload)
  }

  /// Makes a whole frame.
  func frame(_ opcode: UInt8, _ payload: [UInt8], isMasked: Bool) -> [UInt8] {
    output = []
    payload.withUnsafeBufferPointer { payload in
      var frame = wslay_frame_iocb()
      frame.fin = 1
      frame.opcode = opcode
      frame.payload_length = UInt64(payload.count)
      frame.mask = isMasked ? 1 : 0
      frame.data = payload.baseAddress
      frame.data_length = payload.count
      // The callback takes everything, so one call writes the whole frame.
      wslay_frame_send(context, &frame)
    }
    return output
  }
}

private func codec(_ pointer: UnsafeMutableRawPointer?) -> FrameCodec? {
  pointer.map { Unmanaged<FrameCodec>.fromOpaque($0).takeUnretainedValue() }
}

private func takeOutput(
  _ bytes: UnsafePointer<UInt8>?, _ count: Int, _: Int32, _ user: UnsafeMutableRawPointer?
) -> ssize_t {
  codec(user)?.output.append(contentsOf: UnsafeBufferPointer(start: bytes, count: count))
  return count
}

private func giveInput(
  _ buffer: UnsafeMutablePointer<UInt8>?, _ count: Int, _: Int32, _ user: UnsafeMutableRawPointer?
) -> ssize_t {
  guard let codec = codec(user), let buffer else { return -1 }
  let portion = codec.input[codec.position...].prefix(count)
  // -1 and not 0: 0 would be the end of the connection. The library then asks again in the next call.
  guard !portion.isEmpty else { return -1 }
  _ = UnsafeMutableBufferPointer(start: buffer, count: count).update(fromContentsOf: portion)
  codec.position += portion.count
  return portion.count
}

private func makeMask(_ buffer: UnsafeMutablePointer<UInt8>?, _ count: Int, _ user: UnsafeMutableRawPointer?) -> Int32 {
  guard let codec = codec(user), let buffer else { return -1 }
  let mask = codec.random.bytes(count)
  _ = UnsafeMutableBufferPointer(start: buffer, count: count).update(fromContentsOf: mask)
  return 0
}
