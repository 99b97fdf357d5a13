import Common
import Loop
import Radio

/// The handle of a link on which a node is the GATT client. `disconnect` ends the link for all its users. Releasing the handle cancels an
/// attempt, but does not affect an existing link.
@LoopActor
final class AirLink: Link {
  let id: LinkID
  private let client: AirClient
  private let registration: Registration

  init(_ client: AirClient, _ id: LinkID) {
    self.id = id
    self.client = client
    registration = Registration { client.drop() }
  }

  func discover() { client.submit(.discover) }

  func exchangeMTU(_ mtu: Int) { client.submit(.exchangeMTU(mtu)) }

  func subscribe(to characteristic: CharacteristicID) { client.submit(.subscribe(characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    client.submit(kind == .request ? .request(value, characteristic) : .command(value, characteristic))
  }

  func disconnect() { client.disconnect() }
}
