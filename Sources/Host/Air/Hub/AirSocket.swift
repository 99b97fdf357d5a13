import Bytes
import Common
import Glibc
import Loop

/// The object that uses a socket; the socket references it weakly.
@LoopActor
protocol AirSocketOwner: AnyObject {
  /// Handles the body of a frame. An error ends the connection.
  func receive(_ reader: inout ByteReader) throws(WireError)

  /// Reports the end of the connection, except by a call of `close`. This method is never called from within `send`.
  ///
  /// - Parameter reason: a clause about the other end.
  func ended(_ reason: String)

  /// Handles that all bytes were sent after the socket had been blocked.
  func drained()
}

/// One end of a connection between a node and the hub. It sends and receives frames in batches.
@LoopActor
final class AirSocket {
  /// Maximum bytes that wait for the other end. Beyond it the connection ends.
  static let unsentLimit = 16 << 20
  /// The reason that is reported when the other end has closed the connection, which is not an error.
  static let hasGone = "it closed its connection"
  /// Maximum bytes that are read in one loop iteration.
  private static let readBudget = 256 << 10
  private static let readSize = 64 << 10

  private let loop = EventLoop.shared
  private let descriptor: Int32
  private weak var owner: (any AirSocketOwner)?
  private let watch: Watch
  /// Registration whose end first ends the watch, and then closes the descriptor.
  private let ending: Registration
  private var isOpen = true
  private var isFlushing = false
  private var incoming: [UInt8] = []
  /// The buffer for reads. It is reused, because freed memory is overwritten first. Only the loop's thread uses it.
  private nonisolated(unsafe) let room: UnsafeMutableRawBufferPointer
  private var outgoing: [UInt8] = []
  private var sent = 0

  /// A registered watch of the descriptor. The loop accepts one watch per descriptor, which is replaced when its events
  /// change.
  @LoopActor
  private final class Watch {
    var events: Readiness = []
    var registration: Registration?
  }

  /// - Parameter descriptor: a connected, non-blocking socket, which this object closes.
  init(_ descriptor: Int32, owner: any AirSocketOwner) {
    let watch = Watch()
    self.descriptor = descriptor
    self.owner = owner
    self.watch = watch
    room = .allocate(byteCount: Self.readSize, alignment: 8)
    ending = Registration {
      watch.registration = nil
      Glibc.close(descriptor)
    }
    rewatch()
  }

  deinit {
    room.deallocate()
  }

  /// Whether reading is paused: data from the other end waits in the kernel.
  var isPaused = false {
    didSet {
      guard isPaused != oldValue, isOpen else { return }
      rewatch()
      if !isPaused { loop.soon { [weak self] in self?.takeFrames() } }
    }
  }

  /// Whether the kernel's send buffer is full.
  private var isBlocked = false {
    didSet {
      if isBlocked != oldValue { rewatch() }
    }
  }

  private func rewatch() {
    var events: Readiness = isPaused ? [] : .readable
    if isBlocked { events.insert(.writable) }
    guard isOpen, events != watch.events else { return }
    watch.events = events
    watch.registration = nil
    guard !events.isEmpty else { return }
    watch.registration = loop.watch(descriptor, for: events) { [weak self] ready in self?.becameReady(ready) }
  }

  private func becameReady(_ ready: Readiness) {
    if ready.contains(.writable) {
      flush()
      owner?.drained()
    }
    // Reading detects an end or an error.
    if isOpen, !isPaused, ready != .writable { read() }
  }

  /// Number of bytes that are not sent yet.
  var unsent: Int { outgoing.count - sent }

  func close() {
    isOpen = false
    ending.cancel()
  }

  private func end(_ reason: String) {
    guard isOpen else { return }
    close()
    owner?.ended(reason)
  }

  // MARK: Sending

  /// Sends a frame, together with all frames of this loop iteration.
  func send(_ write: (inout ByteWriter) -> Void) {
    guard isOpen, let frame = AirWire.frame(write) else { return }
    outgoing += frame
    guard !isFlushing, !isBlocked else { return }
    isFlushing = true
    loop.soon { [weak self] in
      self?.isFlushing = false
      self?.flush()
    }
  }

  /// Sends waiting bytes, immediately if possible.
  func flush() {
    guard isOpen else { return }
    while sent < outgoing.count {
      let count = outgoing.withUnsafeBytes { bytes in
        Glibc.send(descriptor, bytes.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count >= 0 {
        sent += count
      } else if errno == EAGAIN {
        break
      } else if errno != EINTR {
        return end(String(cString: strerror(errno)))
      }
    }
    if unsent > Self.unsentLimit { return end("it does not read the data sent to it") }
    if sent == outgoing.count {
      outgoing.removeAll(keepingCapacity: outgoing.capacity <= 1 << 20)
      sent = 0
    } else if sent > 1 << 20 {
      outgoing.removeFirst(sent)
      sent = 0
    }
    isBlocked = unsent > 0
  }

  // MARK: Receiving

  private func read() {
    var budget = Self.readBudget
    var reason: String?
    while reason == nil, budget > 0 {
      let count = Glibc.read(descriptor, room.baseAddress, room.count)
      if count > 0 {
        incoming += UnsafeRawBufferPointer(room)[..<count]
        budget -= count
        if count < Self.readSize { break }
      } else if count == 0 {
        reason = Self.hasGone
      } else if errno == EAGAIN {
        break
      } else if errno != EINTR {
        reason = String(cString: strerror(errno))
      }
    }
    takeFrames()
    if let reason { end(reason) }
  }

  private func takeFrames() {
    let bytes = incoming
    incoming = []
    var start = 0
    do throws(WireError) {
      while isOpen, !isPaused, let frame = try frame(in: bytes, at: start) {
        start = frame.endIndex
        var reader = ByteReader(frame)
        try owner?.receive(&reader)
      }
    } catch {
      return end("it sent a malformed frame (\(error))")
    }
    incoming = start == 0 ? bytes : Array(bytes[start...])
  }

  private func frame(in bytes: [UInt8], at start: Int) throws(WireError) -> ArraySlice<UInt8>? {
    guard bytes.count - start >= 4 else { return nil }
    var head = ByteReader(bytes[start..<start + 4])
    let length = Int(try head.u32le())
    guard length <= AirWire.frameLimit else { throw .tooLong(field: "frame", limit: AirWire.frameLimit) }
    guard bytes.count - start - 4 >= length else { return nil }
    return bytes[start + 4..<start + 4 + length]
  }
}
