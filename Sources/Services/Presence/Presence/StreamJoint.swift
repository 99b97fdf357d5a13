import Loop
import Network

/// Two streams, each of which gets what the other one receives. Each direction ends on its own. A stream that cannot
/// take more makes the other one wait.
@LoopActor
final class StreamJoint {
  private struct Side {
    let stream: any JoinedStream
    /// Received by this side, and not accepted by the other one.
    var pending: ArraySlice<UInt8> = []
    var hasEnded = false
    var isClosed = false
  }

  private var sides: [Side]
  private var onEnd: (@LoopActor () -> Void)?
  /// Bytes that each side has received.
  private(set) var received: [UInt64] = [0, 0]

  /// - Parameter onEnd: called once, when both streams are closed.
  init(_ first: any JoinedStream, _ second: any JoinedStream, onEnd: @escaping @LoopActor () -> Void) {
    sides = [Side(stream: first), Side(stream: second)]
    self.onEnd = onEnd
  }

  /// Handles an event of a stream: 0 for the first, 1 for the second.
  func handle(_ event: SocketStreamEvent, of index: Int) {
    let other = 1 - index
    switch event {
    case .connected: break
    case .received(let bytes):
      received[index] += UInt64(bytes.count)
      sides[index].pending += bytes
      push(from: index)
    case .writable: push(from: other)
    case .ended:
      sides[index].hasEnded = true
      push(from: index)
    case .closed(nil):
      sides[index].isClosed = true
      if sides[other].isClosed { end() }
    // The bytes that are still buffered belong to a stream that was cut off.
    case .closed: end()
    }
  }

  /// Closes both streams.
  func close() { end() }

  private func push(from index: Int) {
    let other = 1 - index
    let pending = sides[index].pending
    if !pending.isEmpty {
      let count = sides[other].stream.send(pending)
      sides[index].pending = count == pending.count ? [] : pending.dropFirst(count)
    }
    let isWaiting = !sides[index].pending.isEmpty
    if !sides[index].hasEnded { sides[index].stream.pauseReading(isWaiting) }
    if sides[index].hasEnded, !isWaiting { sides[other].stream.finish() }
  }

  private func end() {
    let report = onEnd
    onEnd = nil
    for side in sides { side.stream.close() }
    report?()
  }
}
