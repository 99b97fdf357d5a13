import Bytes
import Common
import Loop
import Radio

/// The streams of a hub's node, whose owner is the program at the other end of the socket.
///
/// Each side sends at most `AirWire.streamWindow` bytes of a stream that the other side has not acknowledged.
@LoopActor
final class HubStreams {
  /// Bit that is set in the numbers that the hub chooses, for streams of peers.
  private static let incoming: UInt32 = 1 << 31
  private static let limit = 64

  private final class Entry {
    let stream: any RadioStream
    /// Bytes from the program that the simulated stream has not accepted yet.
    var outgoing: [UInt8] = []
    /// Number of bytes that the program has not acknowledged.
    var unacknowledged = 0
    var isClosing = false

    init(_ stream: any RadioStream) { self.stream = stream }
  }

  private let send: @LoopActor (HubFrame) -> Void
  private var entries: [UInt32: Entry] = [:]
  private var attempts: [UInt32: Registration] = [:]
  private var listeners: [BluetoothUUID: Registration] = [:]
  private var last: UInt32 = 0

  init(send: @escaping @LoopActor (HubFrame) -> Void) { self.send = send }

  /// Closes all streams of the node, and ends its attempts and registrations.
  func close() {
    (listeners, attempts) = ([:], [:])
    for entry in entries.values { entry.stream.close() }
    entries = [:]
  }

  func listen(_ service: BluetoothUUID, _ isWanted: Bool, at radio: AirRadio) throws(WireError) {
    guard isWanted else {
      listeners[service] = nil
      return
    }
    guard listeners.count < Self.limit else { throw .tooLong(field: "profiles", limit: Self.limit) }
    do throws(RadioError) {
      listeners[service] = try radio.listen(on: StreamProfile(name: "", services: [service])) { [weak self] stream in
        self?.accept(stream, service)
      }
    } catch {
      throw .badValue("profile")
    }
  }

  private func accept(_ stream: any RadioStream, _ service: BluetoothUUID) {
    guard entries.count < Self.limit else { return stream.close() }
    repeat { last = (last &+ 1) & ~Self.incoming } while entries[last | Self.incoming] != nil
    let number = last | Self.incoming
    send(.streamOpened(stream: number, stream.address, service))
    begin(stream, number)
  }

  func connect(
    _ number: UInt32, to address: BluetoothAddress, _ services: [BluetoothUUID], at radio: AirRadio
  ) throws(WireError) {
    guard entries[number] == nil, attempts[number] == nil, number & Self.incoming == 0,
      (1...StreamProfile.serviceLimit).contains(services.count)
    else { throw .badValue("stream") }
    guard entries.count + attempts.count < 2 * Self.limit else {
      throw .tooLong(field: "streams", limit: 2 * Self.limit)
    }
    do throws(RadioError) {
      attempts[number] = try radio.connect(
        to: address, on: StreamProfile(name: "of this program", services: services)
      ) { [weak self] result in
        guard let self else { return }
        attempts[number] = nil
        switch result {
        case .success(let stream):
          send(.streamConnected(stream: number))
          begin(stream, number)
        case .failure(let error): send(.streamClosed(stream: number, reason: error.sentence))
        }
      }
    } catch {
      send(.streamClosed(stream: number, reason: error.sentence))
    }
  }

  private func begin(_ stream: any RadioStream, _ number: UInt32) {
    let entry = Entry(stream)
    entries[number] = entry
    stream.start { [weak self] in self?.handle($0, number) }
  }

  private func handle(_ event: RadioStreamEvent, _ number: UInt32) {
    guard let entry = entries[number] else { return }
    switch event {
    case .received(let bytes):
      for start in stride(from: 0, to: bytes.count, by: AirWire.valueLimit) {
        let piece = bytes[start..<min(bytes.count, start + AirWire.valueLimit)]
        send(.streamData(stream: number, Array(piece)))
      }
      entry.unacknowledged += bytes.count
      entry.stream.pauseReading(entry.unacknowledged >= AirWire.streamWindow)
    case .writable: push(entry, number)
    case .closed(let reason):
      entries[number] = nil
      if !entry.isClosing { send(.streamClosed(stream: number, reason: reason)) }
    }
  }

  /// Handles bytes of the program. A stream may have ended while they were in transit.
  func receive(_ bytes: [UInt8], for number: UInt32) throws(WireError) {
    guard let entry = entries[number], !entry.isClosing else { return }
    guard entry.outgoing.count + bytes.count <= AirWire.streamWindow else {
      throw .tooLong(field: "stream", limit: AirWire.streamWindow)
    }
    entry.outgoing += bytes
    push(entry, number)
  }

  private func push(_ entry: Entry, _ number: UInt32) {
    let count = entry.stream.send(entry.outgoing[...])
    entry.outgoing.removeFirst(count)
    if count > 0, !entry.isClosing { send(.streamTaken(stream: number, count: UInt32(count))) }
    guard entry.isClosing, entry.outgoing.isEmpty else { return }
    entries[number] = nil
    entry.stream.close()
  }

  func acknowledge(_ count: UInt32, of number: UInt32) {
    guard let entry = entries[number] else { return }
    entry.unacknowledged = max(0, entry.unacknowledged - Int(count))
    entry.stream.pauseReading(entry.unacknowledged >= AirWire.streamWindow)
  }

  func close(_ number: UInt32) {
    attempts[number] = nil
    guard let entry = entries[number] else { return }
    entry.isClosing = true
    push(entry, number)
  }
}
