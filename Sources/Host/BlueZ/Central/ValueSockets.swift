import Common
import DBus
import Loop
import Radio

/// The sockets by which the values of peers come, one for each characteristic, however many connections listen to it. A value
/// by a socket costs a fifth of one by a signal, and no other program on the bus hears it. Facts: bluez.md sections 3 and 11.
@LoopActor
final class ValueSockets {
  /// Values of one characteristic that are taken before the loop has its turn.
  private static let valuesATurn = 16
  /// Values that are taken from a socket whose link has ended: more than bluetoothd can have left there.
  private static let lastValues = 512

  private let counters: BlueZCounters
  private var sockets: [ObjectPath: PacketSocket] = [:]
  /// Called with each value.
  var onValue: (@LoopActor (ObjectPath, [UInt8]) -> Void)?
  /// Called when bluetoothd has ended a socket, and all that came by it was told.
  var onEnd: (@LoopActor (ObjectPath) -> Void)?

  init(_ counters: BlueZCounters) { self.counters = counters }

  /// The characteristics that have one.
  var paths: [ObjectPath] { sockets.keys.sorted { $0.string < $1.string } }

  func holds(_ path: ObjectPath) -> Bool { sockets[path] != nil }

  /// Takes values from bluetoothd's socket for a characteristic.
  func hold(_ socket: PacketSocket, for path: ObjectPath) {
    sockets.updateValue(socket, forKey: path)?.close()
    socket.onReadable = { [weak self] in self?.take(Self.valuesATurn, path) }
    socket.onHangUp = { [weak self] in
      guard let self else { return }
      take(Self.lastValues, path)
      close(path)
      onEnd?(path)
    }
  }

  /// Tells what has come and was not told yet: the link is ending.
  func takeLast(_ path: ObjectPath) { take(Self.lastValues, path) }

  /// Wants no more values of a characteristic; bluetoothd then takes the subscription back.
  func close(_ path: ObjectPath) { sockets.removeValue(forKey: path)?.close() }

  private func take(_ most: Int, _ path: ObjectPath) {
    for _ in 0..<most {
      // Whoever is told may close it.
      guard let socket = sockets[path] else { return }
      switch socket.receive(limit: ATT.valueLimit) {
      case .packet(let value): onValue?(path, value)
      case .tooLong: counters.malformed += 1
      case .nothing, .closed: return
      }
    }
  }
}
