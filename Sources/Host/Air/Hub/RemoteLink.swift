import Common
import Loop
import Radio

/// The state of a connection that a program requested.
@LoopActor
final class RemoteConnection {
  /// The link's identity in this process.
  let id: LinkID
  let target: BluetoothAddress
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  /// Whether the link existed before the request.
  let isShared: Bool
  private(set) var isConnected = false

  init(
    _ id: LinkID, _ target: BluetoothAddress, isShared: Bool, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) {
    self.id = id
    self.target = target
    self.isShared = isShared
    self.handler = handler
  }

  /// Whether events may still follow.
  var isOpen: Bool { handler != nil }

  func happened(_ event: LinkEvent) {
    let handler = handler
    switch event {
    case .connected: isConnected = true
    case .disconnected: self.handler = nil
    default: break
    }
    handler?(event)
  }

  func end(_ reason: String) {
    happened(.disconnected(reason: reason))
  }
}

/// The handle of a connection through the hub. `disconnect` ends the link. Releasing the handle cancels an attempt, but does not affect an
/// existing link.
@LoopActor
final class RemoteLink: Link {
  let id: LinkID
  private let air: RemoteAir
  private let number: UInt32
  private let connection: RemoteConnection
  private let registration: Registration

  init(air: RemoteAir, number: UInt32, _ connection: RemoteConnection) {
    id = connection.id
    self.air = air
    self.number = number
    self.connection = connection
    registration = Registration {
      guard connection.isOpen, !connection.isConnected else { return }
      if connection.isShared { air.forget(number) } else { air.send(.disconnect(connection: number)) }
    }
  }

  func discover() { send(.discover(connection: number)) }

  func exchangeMTU(_ mtu: Int) { send(.exchangeMTU(connection: number, UInt16(clamping: mtu))) }

  func subscribe(to characteristic: CharacteristicID) { send(.subscribe(connection: number, characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    send(.write(connection: number, kind, characteristic, value))
  }

  /// Ends the link or cancels the attempt. A link that this connection was to share stays up for its other users.
  func disconnect() {
    if connection.isShared, !connection.isConnected {
      air.forget(number)
    } else {
      send(.disconnect(connection: number))
    }
  }

  private func send(_ frame: NodeFrame) {
    if connection.isOpen { air.send(frame) }
  }
}
