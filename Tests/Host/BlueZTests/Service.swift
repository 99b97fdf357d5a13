import Common
import DBus
import Loop
import Radio
import TestSupport

/// A service that records its events, and answers writes as the test decides.
@LoopActor
final class Service: GATTServerDelegate {
  enum Event: Hashable, Sendable {
    case opened(LinkID, String)
    case changed(LinkID, Int)
    case written(LinkID, CharacteristicID, [UInt8])
    case closed(LinkID)
  }

  nonisolated static let uuid = BluetoothUUID(short: 0xFE01)
  nonisolated static let put = BluetoothUUID(short: 0xFE02).description
  nonisolated static let hear = BluetoothUUID(short: 0xFE03).description
  nonisolated static let read = BluetoothUUID(short: 0xFE04).description

  nonisolated static func id(_ short: UInt16) -> CharacteristicID {
    CharacteristicID(service: uuid, characteristic: BluetoothUUID(short: short))
  }

  nonisolated static let application = application(reach: .subscribers)

  /// - Parameters:
  ///   - reach: of the two characteristics with notifications.
  ///   - takesAllWrites: of the writable characteristic.
  nonisolated static func application(
    reach: GATTCharacteristic.Reach, takesAllWrites: Bool = false
  ) -> GATTApplication {
    GATTApplication(services: [
      GATTService(
        uuid: uuid,
        characteristics: [
          GATTCharacteristic(
            uuid: BluetoothUUID(short: 0xFE02), properties: [.write, .writeWithoutResponse],
            takesAllWrites: takesAllWrites),
          GATTCharacteristic(uuid: BluetoothUUID(short: 0xFE03), properties: [.notify, .indicate], reach: reach),
          GATTCharacteristic(uuid: BluetoothUUID(short: 0xFE04), properties: [.read, .notify], reach: reach),
        ])
    ])
  }

  let events = Mailbox<Event>()
  /// The error with which the service refuses writes; nil to accept them.
  var refusal: ATTError?
  /// Called with each value that is written.
  var onWritten: (@LoopActor ([UInt8]) -> Void)?

  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {
    events.put(.opened(link, address.description))
  }
  func linkChanged(_ link: LinkID, mtu: Int) { events.put(.changed(link, mtu)) }
  func linkClosed(_ link: LinkID) { events.put(.closed(link)) }

  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
    events.put(.written(link, characteristic, value))
    onWritten?(value)
    if let refusal { throw refusal }
  }

  /// Waits for a link and returns it.
  func link() async throws -> LinkID {
    let event = try await events.first { if case .opened = $0 { true } else { false } }
    guard case .opened(let link, _) = event else { throw CancellationError() }
    return link
  }
}
