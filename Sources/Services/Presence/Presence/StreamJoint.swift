import Loop
import Network

/// Joins two streams: the bytes that one receives are sent on the other. Each direction ends on its own. A stream
/// without buffer space pauses the reading of the other.
@LoopActor
final class StreamJoint {
  private struct Side {
    let stream: any JoinedStream
    /// Bytes that this side received and the other side has not accepted.
    var pending: ArraySlice<UInt8> = []
    var hasEnded = false
    var isClosed = false
    /// Whether the stream has hung up, so that bytes for it are dropped.
    var isGone = false
  }

  /// Maximum time until one side ends after the other has hung up and all its bytes were passed on.
  private static let hangUpTime = Duration.seconds(10)
  /// Number of times that the hang-up time is extended while the last bytes are not accepted: 2 min in total.
  private static let hangUpRounds = 12

  private let scheduler: any Scheduler
  private var timer: Registration?
  private var rounds = 0
  private var sides: [Side]
  private var onEnd: (@LoopActor () -> Void)?
  /// Number of bytes received by the first and by the second stream.
  private(set) var received: [UInt64] = [0, 0]

  /// Joins two streams.
  ///
  /// - Parameter onEnd: called once, when both streams are closed.
  init(
    _ first: any JoinedStream, _ second: any JoinedStream, on scheduler: any Scheduler,
    onEnd: @escaping @LoopActor () -> Void
  ) {
    self.scheduler = scheduler
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
    case .hungUp:
      sides[index].isGone = true
      push(from: other)
      awaitEnd(after: index)
    case .closed(nil):
      sides[index].isClosed = true
      if sides[other].isClosed { end() }
    // The stream was cut off, so the buffered bytes are not passed on.
    case .closed: end()
    }
  }

  /// Closes both streams.
  func close() { end() }

  private func push(from index: Int) {
    let other = 1 - index
    let pending = sides[index].pending
    if sides[other].isGone {
      sides[index].pending = []
    } else if !pending.isEmpty {
      let count = sides[other].stream.send(pending)
      sides[index].pending = count == pending.count ? [] : pending.dropFirst(count)
    }
    let isWaiting = !sides[index].pending.isEmpty
    if !sides[index].hasEnded { sides[index].stream.pauseReading(isWaiting) }
    if sides[index].hasEnded, !isWaiting { sides[other].stream.finish() }
  }

  /// Ends the streams when all bytes from a side that has hung up were passed on.
  private func awaitEnd(after index: Int) {
    timer = scheduler.schedule(after: Self.hangUpTime) { [weak self] in
      guard let self, onEnd != nil else { return }
      rounds += 1
      let hasPassed = sides[index].hasEnded && sides[index].pending.isEmpty && sides[1 - index].stream.isDrained
      if hasPassed || rounds >= Self.hangUpRounds { end() } else { awaitEnd(after: index) }
    }
  }

  private func end() {
    let report = onEnd
    (onEnd, timer) = (nil, nil)
    for side in sides { side.stream.close() }
    report?()
  }
}
