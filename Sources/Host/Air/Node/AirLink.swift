import Common
import Loop
import Radio

/// The central's handle on a link; dropping it cuts the link.
@LoopActor
final class AirLink: Link {
  let id: LinkID
  private let connection: AirConnection
  private let registration: Registration

  init(_ connection: AirConnection) {
    id = connection.clientID
    self.connection = connection
    registration = Registration { connection.close(reason: "Disconnected.", by: .client) }
  }

  func discover() { connection.submit(.discover) }

  func exchangeMTU(_ mtu: Int) { connection.submit(.exchangeMTU(mtu)) }

  func subscribe(to characteristic: CharacteristicID) { connection.submit(.subscribe(characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    connection.submit(kind == .request ? .request(value, characteristic) : .command(value, characteristic))
  }

  func disconnect() { registration.cancel() }
}
