import DBus
import Loop
import Network
import Radio

/// A stream over a socket of the kernel.
@LoopActor
final class SocketRadioStream: RadioStream {
  /// How long the last bytes of a stream that was closed may take.
  private static let lingerTime = Duration.seconds(5)

  let address: BluetoothAddress
  private let socket: SocketStream
  private let scheduler: any Scheduler
  private var handler: (@LoopActor (RadioStreamEvent) -> Void)?
  private var linger: Registration?
  /// Called once, when the socket is closed.
  var onEnd: @LoopActor () -> Void = {}

  init(_ socket: SocketStream, _ address: BluetoothAddress, on scheduler: any Scheduler) {
    (self.socket, self.address, self.scheduler) = (socket, address, scheduler)
  }

  func start(_ handler: @escaping @LoopActor (RadioStreamEvent) -> Void) {
    self.handler = handler
    socket.start { [weak self] event in
      switch event {
      case .connected: break
      case .received(let bytes): self?.handler?(.received(bytes))
      case .writable: self?.handler?(.writable)
      // Reading is paused, and bytes still wait. The end comes behind them.
      case .hungUp: break
      // RFCOMM ends both directions together.
      case .ended: self?.lose("The peer closed the stream.")
      case .closed(let error): self?.lose(error?.sentence ?? "The peer closed the stream.")
      }
    }
  }

  func send(_ bytes: ArraySlice<UInt8>) -> Int { socket.send(bytes) }

  func pauseReading(_ isPaused: Bool) { socket.pauseReading(isPaused) }

  func close() {
    handler = nil
    guard !socket.isDrained else { return takeDown() }
    // The kernel ends RFCOMM when the sending side is shut down, after the bytes that were written.
    socket.finish()
    linger = scheduler.schedule(after: Self.lingerTime) { self.takeDown() }
  }

  /// Ends the stream, and reports it.
  func lose(_ reason: String) {
    let report = handler
    handler = nil
    takeDown()
    report?(.closed(reason: reason))
  }

  private func takeDown() {
    linger = nil
    socket.close()
    let report = onEnd
    onEnd = {}
    report()
  }
}

/// The open RFCOMM streams of both directions, with the devices at their other ends.
@LoopActor
final class OpenStreams {
  private var streams: [ObjectIdentifier: (device: ObjectPath, stream: SocketRadioStream)] = [:]

  func add(_ stream: SocketRadioStream, of device: ObjectPath) {
    let id = ObjectIdentifier(stream)
    streams[id] = (device, stream)
    stream.onEnd = { [weak self] in self?.streams[id] = nil }
  }

  /// Whether a device has open streams.
  func isUsed(by device: ObjectPath) -> Bool { streams.values.contains { $0.device == device } }

  /// Ends the streams of a device; nil: of all devices.
  func lose(of device: ObjectPath? = nil, _ reason: String) {
    for entry in streams.values where device == nil || entry.device == device { entry.stream.lose(reason) }
  }
}
