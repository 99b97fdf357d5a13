import Common
import DBus
import Journal
import Loop
import Radio

/// Properties of the ATT bearers that depend on the versions at both ends.
struct Bearers: Hashable, Sendable {
  /// Whether our bluetoothd opens several ATT channels with a peer that supports them.
  var areSeveral = false
  /// Whether our bluetoothd loses received writes of more than `shortWrite` bytes.
  var losesLongWrites = false

  /// Maximum bytes of a write that bluetoothd before 5.69 accepts: one less than correct, including the attribute's
  /// handle.
  static let shortWrite = 509
}

/// The method for values that are streamed to a characteristic.
enum StreamWay {
  /// By D-Bus calls, as requests, for the remaining `left` first values of a link. At the second value a bluetoothd from 5.76 on requests a
  /// socket from its service, and corrupts other writes of the same client meanwhile.
  case firstRequests(left: Int)
  /// By a socket of this characteristic that bluetoothd reads: several times faster than calls.
  case socket(PacketSocket)
  /// By D-Bus calls, as commands, because bluetoothd gave no socket.
  case commands
  /// By D-Bus calls, as requests: with several channels bluetoothd loses commands while a channel opens or closes.
  case requests
}

/// Writes in a stream. Facts: bluez.md section 3.
extension CentralConnection {
  private static let firstRequests = 2

  /// Whether both ends support several ATT channels.
  var hasChannels: Bool { bearers.areSeveral && database?.takesChannels == true }

  /// Maximum bytes of a write to the peer. A BlueZ with several channels may also lose long writes: both apply before
  /// 5.69, and channels are rarely configured in later versions.
  var writeLimit: Int {
    bearers.losesLongWrites || database?.takesChannels == true ? Bearers.shortWrite : ATT.valueLimit
  }

  /// Sends a value through the characteristic's socket, if there is one, no earlier operation is pending, and the socket has capacity.
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
    // bluetoothd treats an empty packet as the end of the stream.
    guard !value.isEmpty else { return finishSoon(number, .written(id, error: .invalidLength)) }
    switch socket.send(value) {
    case .sent: finishSoon(number, .written(id, error: nil))
    case .tooLong: finishSoon(number, .written(id, error: .invalidLength))
    case .full:
      // A socket that bluetoothd closes never reports capacity; sending detects the end.
      let again: @LoopActor () -> Void = { [weak self, weak socket] in
        guard let self, let socket, state == .open else { return }
        (socket.onRoom, socket.onHangUp) = (nil, nil)
        send(value, id, at: path, by: socket, number)
      }
      (socket.onRoom, socket.onHangUp) = (again, again)
    case .closed:
      // bluetoothd closes a socket together with the peer's services, which may reappear.
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
