import Common
import DBus
import Journal
import Loop
import Radio

/// What the versions at both ends make of writes.
struct Bearers: Hashable, Sendable {
  /// Whether our bluetoothd opens several ATT channels with a peer that takes them.
  var areSeveral = false
  /// Whether our bluetoothd is one that loses writes over `shortWrite` bytes that come to it.
  var losesLongWrites = false

  /// What a bluetoothd before 5.69 takes: one byte less than it should, and the attribute's handle counted in.
  static let shortWrite = 509
}

/// How values go that are streamed to a characteristic.
enum StreamWay {
  /// By calls, as requests: the first values of a link, so many more of which go that way. At the second that comes to it a
  /// bluetoothd from 5.76 on asks its service for a socket, and spoils whatever else the same client writes meanwhile.
  case firstRequests(left: Int)
  /// By a socket of that characteristic alone, which bluetoothd reads: several times faster than calls.
  case socket(PacketSocket)
  /// By calls, as commands: bluetoothd gave no socket.
  case commands
  /// By calls, as requests: with several channels bluetoothd loses commands while a channel opens or ends.
  case requests
}

/// Writes in a stream. Facts: bluez.md section 3.
extension CentralConnection {
  private static let firstRequests = 2

  /// Whether both ends have several ATT channels.
  var hasChannels: Bool { bearers.areSeveral && database?.takesChannels == true }

  /// A BlueZ that takes several channels is one that may lose long writes: both were so before 5.69, and hardly anybody
  /// configures channels later.
  var writeLimit: Int {
    bearers.losesLongWrites || database?.takesChannels == true ? Bearers.shortWrite : ATT.valueLimit
  }

  /// Gives a value to the socket of a characteristic, where it has one, nothing that was asked for before is still to be done,
  /// and there is room.
  func streamNow(_ value: [UInt8], to id: CharacteristicID) -> Bool {
    guard state == .open, window.isEmpty, !value.isEmpty, value.count <= ATT.valueLimit(mtu: mtu),
      let path = database?.paths[id], case .socket(let socket)? = streams[path]
    else { return false }
    return socket.send(value) == .sent
  }

  func stream(_ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, _ number: UInt64) {
    switch streams[path] {
    case .socket(let socket): send(value, id, at: path, by: socket, number)
    case .commands: write(value, id, at: path, "command", number)
    case .requests: write(value, id, at: path, "request", number)
    case .firstRequests(let left) where left > 0:
      streams[path] = .firstRequests(left: left - 1)
      write(value, id, at: path, "request", number)
    case .firstRequests: acquire(value, id, at: path, number)
    case nil where hasChannels:
      Log.shared.debug("Both ends open several channels: what must arrive is written with response", .link(self.id))
      streams[path] = .requests
      write(value, id, at: path, "request", number)
    case nil:
      streams[path] = .firstRequests(left: database?.takesRequests(id) == true ? Self.firstRequests : 0)
      stream(value, id, at: path, number)
    }
  }

  private func acquire(_ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, _ number: UInt64) {
    call(path, BlueZName.gattCharacteristic, "AcquireWrite", [.options([:])]) { (self, result) in
      if case .success(let values) = result, let end = values.first?.asDescriptor,
        let socket = try? PacketSocket(owning: end, buffer: self.backlog.bytes)
      {
        self.streams[path] = .socket(socket)
      } else {
        if case .failure(let error) = result {
          Log.shared.debug("AcquireWrite was answered with \(error)", .link(self.id))
        }
        self.streams[path] = .commands
      }
      self.stream(value, id, at: path, number)
    }
  }

  private func send(
    _ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, by socket: PacketSocket, _ number: UInt64
  ) {
    // bluetoothd takes an empty packet for the end.
    guard !value.isEmpty else { return finishSoon(number, .written(id, error: .invalidLength)) }
    switch socket.send(value) {
    case .sent: finishSoon(number, .written(id, error: nil))
    case .tooLong: finishSoon(number, .written(id, error: .invalidLength))
    case .full:
      // One that bluetoothd closes has no room any more: sending finds that out.
      let again: @LoopActor () -> Void = { [weak self, weak socket] in
        guard let self, let socket, state == .open else { return }
        (socket.onRoom, socket.onHangUp) = (nil, nil)
        send(value, id, at: path, by: socket, number)
      }
      (socket.onRoom, socket.onHangUp) = (again, again)
    case .closed:
      // bluetoothd ends a socket with the peer's services, which may come back.
      socket.close()
      streams[path] = .commands
      write(value, id, at: path, "command", number)
    }
  }

  func limitStreams(to backlog: Backlog) {
    for case .socket(let socket) in streams.values { socket.limit(to: backlog.bytes) }
  }

  func endStreams() {
    for case .socket(let socket) in streams.values { socket.close() }
    streams = [:]
  }
}
