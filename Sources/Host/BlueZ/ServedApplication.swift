import Common
import DBus
import Loop
import Radio

/// A GATT application on the bus: an object manager, its services, their characteristics, and the registration.
@LoopActor
final class ServedApplication {
  let path: ObjectPath
  let registration: KeptRegistration
  private let characteristics: [CharacteristicID: ServedCharacteristic]
  private var services: [ExportedObject] = []
  private weak var delegate: (any GATTServerDelegate)?
  private var isOpen = true
  /// The links that the delegate was told of.
  private var links: Set<LinkID> = []

  init(
    path: ObjectPath, registration: KeptRegistration, characteristics: [ServedCharacteristic],
    delegate: any GATTServerDelegate
  ) {
    self.path = path
    self.registration = registration
    self.delegate = delegate
    self.characteristics = Dictionary(characteristics.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
  }

  func keep(_ service: ExportedObject) {
    services.append(service)
  }

  subscript(id: CharacteristicID) -> ServedCharacteristic? { characteristics[id] }

  /// bluetoothd has forgotten it, or is about to hear of it.
  func reset() {
    for characteristic in characteristics.values { characteristic.reset() }
  }

  /// Takes it off the bus; the delegate hears nothing more.
  func close() {
    guard isOpen else { return }
    isOpen = false
    delegate = nil
    registration.close()
    for characteristic in characteristics.values { characteristic.close() }
    for service in services { service.cancel() }
  }

  // MARK: What happens

  /// Makes a link known to it, once.
  func introduce(_ link: LinkTable.Entry) {
    guard isOpen, links.insert(link.id).inserted else { return }
    delegate?.linkOpened(link.id, address: link.address)
    if let mtu = link.mtu { delegate?.linkChanged(link.id, mtu: mtu) }
  }

  func linkChanged(_ link: LinkID, mtu: Int) {
    guard links.contains(link) else { return }
    delegate?.linkChanged(link, mtu: mtu)
  }

  func written(_ value: [UInt8], to id: CharacteristicID, on link: LinkID) throws(ATTError) {
    guard let delegate else { throw .unlikely }
    try delegate.written(value, to: id, on: link)
  }

  func linkClosed(_ link: LinkID) {
    guard links.remove(link) != nil else { return }
    delegate?.linkClosed(link)
  }
}
