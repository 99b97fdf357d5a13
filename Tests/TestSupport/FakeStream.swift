import LocalSockets
import Loop

/// A connection in virtual time.
@LoopActor
public final class FakeStream: StreamConnection {
  private let clock: HandClock
  public var onEvent: @LoopActor (StreamEvent) -> Void = { _ in }
  public var isReading = true {
    didSet { if isReading { deliver() } }
  }
  /// Called with the bytes that the owner of the connection sends.
  public var onOutput: @LoopActor ([UInt8]) -> Void = { _ in }
  /// Whether the peer reads, so that output is passed to `onOutput`.
  public var takesOutput = true
  public private(set) var isClosed = false
  /// Whether the owner sent something after it had closed the connection.
  public private(set) var wasMisused = false
  public private(set) var unsent: [[UInt8]] = []
  private var input: [[UInt8]] = []
  /// Octets of the peer that the owner has not read.
  public var unread: Int { input.reduce(0) { $0 + $1.count } }

  public init(_ clock: HandClock) { self.clock = clock }

  public func send(_ bytes: [UInt8]) {
    if isClosed { wasMisused = true }
    unsent.append(bytes)
    write()
  }

  public func close() {
    isClosed = true
    onEvent = { _ in }
  }

  /// Delivers bytes of the peer to the owner.
  public func arrive(_ bytes: [UInt8]) {
    input.append(bytes)
    deliver()
  }

  /// Ends the connection as the peer.
  public func hangUp() { clock.soon { self.onEvent(.ended) } }

  private func deliver() {
    clock.soon {
      guard self.isReading, !self.isClosed, !self.input.isEmpty else { return }
      self.onEvent(.received(self.input.removeFirst()))
      self.deliver()
    }
  }

  /// Passes the waiting output to `onOutput`, one portion after the other.
  public func write() {
    clock.soon {
      guard self.takesOutput, !self.unsent.isEmpty else { return }
      let bytes = self.unsent.removeFirst()
      self.onOutput(bytes)
      self.onEvent(.written(bytes.count))
      self.write()
    }
  }
}
