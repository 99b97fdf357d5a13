import Common
import Loop
import Radio

/// The handle of a link in the central role; releasing it ends the link.
@LoopActor
final class CentralLink: Link {
  let id: LinkID
  private let connection: CentralConnection
  private let registration: Registration

  init(_ connection: CentralConnection) {
    id = connection.id
    self.connection = connection
    registration = Registration { connection.disconnect() }
  }

  func discover() { connection.submit(.discover) }

  func exchangeMTU(_ mtu: Int) { connection.submit(.exchangeMTU) }

  func subscribe(to characteristic: CharacteristicID) { connection.submit(.subscribe(characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    connection.submit(.write(value, characteristic, kind))
  }

  func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool {
    connection.streamNow(value, to: characteristic)
  }

  var writeLimit: Int { connection.writeLimit }

  func disconnect() { registration.cancel() }
}
