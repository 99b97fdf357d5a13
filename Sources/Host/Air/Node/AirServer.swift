import Common
import Loop
import Radio

/// The handle on an application that a node serves; dropping it closes it.
@LoopActor
final class AirServer: GATTServer {
  private let radio: AirRadio
  private let id: UInt64
  private let registration: Registration

  init(radio: AirRadio, id: UInt64, _ registration: Registration) {
    self.radio = radio
    self.id = id
    self.registration = registration
  }

  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to link: LinkID) {
    guard let application = radio.applications[id], let connection = connection(link) else { return }
    connection.notify(value, of: characteristic, from: application)
  }

  func disconnect(_ link: LinkID) {
    guard radio.applications[id] != nil else { return }
    connection(link)?.close(reason: "The peer has disconnected.", by: .server)
  }

  func close() {
    registration.cancel()
  }

  /// Links of others, and those on which this node is the central, are none of this server's business.
  private func connection(_ link: LinkID) -> AirConnection? {
    guard let connection = radio.air.connection(link), connection.serverID == link, connection.peripheral === radio
    else { return nil }
    return connection
  }
}
