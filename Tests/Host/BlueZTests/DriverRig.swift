import BlueZ
import Common
import Loop
import Radio
import TestSupport

/// A driver with a test's delegate, which records the driver's events and passes them on to the services of the
/// test, as a radio without other services would.
@LoopActor
final class DriverRig: RadioDriverDelegate {
  /// The driver's events, in order.
  enum Told: Hashable, Sendable {
    case slots(Int)
    case served(ApplicationID, Bool)
    case up(LinkID, String, since: Instant)
    case changed(LinkID, mtu: Int)
    case down(LinkID)
    case used(ApplicationID, LinkID, Use)
    case room(LinkID)
  }

  /// The advertisements that the driver reports as being sent.
  struct Airing: Hashable, Sendable {
    let slot: Int
    let advertisement: Advertisement?
  }

  let driver: BlueZRadio
  let told = Mailbox<Told>()
  let packets = Mailbox<AdvertisingPacket>()
  let airings = Mailbox<Airing>()
  let forgotten = Mailbox<BluetoothAddress>()
  private let statusObservers = Observers<RadioStatus>()
  private var services: [ApplicationID: Served] = [:]
  private var scans: [Int: (services: [BluetoothUUID], handler: @LoopActor (ScanResult) -> Void)] = [:]
  private var patterns: Set<AdvertisingPattern>?
  private var slots: Set<Int> = []
  private var addresses: [LinkID: DriverLink] = [:]

  private struct Served {
    weak var delegate: Service?
    var links: Set<LinkID> = []
  }

  init(_ driver: BlueZRadio) {
    self.driver = driver
    driver.delegate = self
  }

  var status: RadioStatus { driver.status }
  var counters: BlueZCounters { driver.counters }

  /// The reported links that have not ended.
  var links: [LinkID] { addresses.keys.sorted { $0.number < $1.number } }

  func link(_ address: String) -> LinkID? { addresses.first { $0.value.address.description == address }?.key }

  func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration { statusObservers.add(handler) }

  // MARK: Requests of a service

  @LoopActor
  final class Server {
    let number: ApplicationID
    private let driver: BlueZRadio
    private let registration: Registration

    init(_ number: ApplicationID, _ driver: BlueZRadio, _ registration: Registration) {
      self.number = number
      self.driver = driver
      self.registration = registration
    }

    @discardableResult
    func notify(_ value: [UInt8], of characteristic: CharacteristicID, to link: LinkID) -> Delivery {
      notify(value, of: characteristic, to: .link(link))
    }

    @discardableResult
    func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery {
      driver.notify(value, of: characteristic, in: number, to: recipients)
    }

    func expectStream(from link: LinkID) { driver.expectStream(from: link, in: number) }

    func disconnect(_ link: LinkID) { driver.cut(link) }

    func close() { registration.cancel() }
  }

  func serve(_ application: GATTApplication, delegate: Service) -> Server {
    let number = ApplicationID((0...services.count).first { services[ApplicationID($0)] == nil } ?? 0)
    services[number] = Served(delegate: delegate)
    driver.serve(application, as: number)
    return Server(
      number, driver,
      Registration { [weak self] in
        self?.services[number] = nil
        self?.driver.stopServing(number)
      })
  }

  /// Puts an advertisement into the first empty slot, even if the driver reports no free slot.
  func advertise(_ advertisement: Advertisement) throws(RadioError) -> Registration {
    try advertisement.checkLengths()
    let slot = (0...slots.count).first { !slots.contains($0) } ?? 0
    slots.insert(slot)
    driver.advertise(advertisement, in: slot)
    return Registration { [weak self] in
      self?.slots.remove(slot)
      self?.driver.advertise(nil, in: slot)
    }
  }

  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanResult) -> Void
  ) -> Registration {
    let id = (scans.keys.max() ?? 0) + 1
    scans[id] = (services, handler)
    listen()
    return Registration { [weak self] in
      self?.scans[id] = nil
      self?.listen()
    }
  }

  /// Sets the patterns of the packets to report: nil for no packets, an empty set for every packet.
  func listen(for patterns: Set<AdvertisingPattern>?) {
    self.patterns = patterns
    listen()
  }

  private func listen() {
    let wanted = scans.values.map(\.services)
    let services = wanted.isEmpty ? nil : wanted.contains { $0.isEmpty } ? Set() : Set(wanted.joined())
    driver.listen(
      services == nil && patterns == nil ? nil : Listening(services: services, patterns: patterns))
  }

  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    try driver.connect(to: address, handler)
  }

  // MARK: Reports of the driver

  func statusChanged(_ status: RadioStatus) { statusObservers.call(status) }

  func onAir(_ advertisement: Advertisement?, in slot: Int) {
    airings.put(Airing(slot: slot, advertisement: advertisement))
  }

  func advertisingSlotsChanged() { told.put(.slots(driver.advertisingSlots)) }

  func applicationChanged(_ application: ApplicationID, isServed: Bool) { told.put(.served(application, isServed)) }

  func linkUp(_ link: DriverLink) {
    addresses[link.id] = link
    told.put(.up(link.id, link.address.description, since: link.since))
    for number in services.keys.sorted(by: { $0.number < $1.number }) { introduce(link.id, to: number) }
  }

  func linkChanged(_ link: LinkID, mtu: Int) {
    told.put(.changed(link, mtu: mtu))
    for service in services.values where service.links.contains(link) { service.delegate?.linkChanged(link, mtu: mtu) }
  }

  func linkDown(_ link: LinkID) {
    addresses[link] = nil
    told.put(.down(link))
    for service in services.values where service.links.contains(link) { service.delegate?.linkClosed(link) }
    for number in services.keys { services[number]?.links.remove(link) }
  }

  func used(_ application: ApplicationID, by link: LinkID, _ use: Use) {
    told.put(.used(application, link, use))
  }

  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError) {
    introduce(link, to: application)
    guard let delegate = services[application]?.delegate else { throw .unlikely }
    try delegate.written(value, to: characteristic, on: link)
  }

  private func introduce(_ link: LinkID, to application: ApplicationID) {
    guard let known = addresses[link], services[application]?.links.insert(link).inserted == true else { return }
    services[application]?.delegate?.linkOpened(link, address: known.address, since: known.since)
  }

  func hasRoom(_ link: LinkID) { told.put(.room(link)) }

  func heard(_ scanResult: ScanResult) {
    for id in scans.keys.sorted() {
      guard let scan = scans[id], scan.services.isEmpty || !scanResult.services.isDisjoint(with: scan.services) else {
        continue
      }
      scan.handler(scanResult)
    }
  }

  func forgot(_ address: BluetoothAddress) { forgotten.put(address) }
  func heard(_ packet: AdvertisingPacket) { packets.put(packet) }
}
