import Common
import Loop
import Radio

/// A radio driver that records its calls. The test sends events to its delegate.
@LoopActor
final class RecordingDriver: RadioDriver {
  var status = RadioStatus(.ready, adapters: ["test0"])
  var tallies: [Tally] { [] }
  weak var delegate: (any RadioDriverDelegate)?
  var advertisingSlots = 1
  var foreignAdvertisements = 0
  var deafness: String?
  var origins: [LinkID: LinkOrigin] = [:]
  var served: Set<ApplicationID> = []
  /// The result of `notify`.
  var delivery: (Recipients) -> Delivery = { recipients in
    switch recipients {
    case .link(let link): Delivery(accepted: [link])
    case .links(let links): Delivery(accepted: links)
    case .subscribers: Delivery()
    }
  }

  /// The calls to the driver, as text, in order.
  private(set) var orders: [String] = []
  /// The attempts to connect, each with the handler of its events.
  private(set) var links: [(id: LinkID, handler: @LoopActor (LinkEvent) -> Void)] = []
  /// The links whose handles were all released.
  fileprivate(set) var dropped: [LinkID] = []

  /// Returns the calls to the driver since this method was last called.
  func takeOrders() -> [String] {
    defer { orders = [] }
    return orders
  }

  func note(_ order: String) { orders.append(order) }

  /// The content of the slots.
  private(set) var slots: [Int: Advertisement] = [:]

  func advertise(_ advertisement: Advertisement?, in slot: Int) {
    slots[slot] = advertisement
    note("slot \(slot): \(advertisement?.data.localName ?? "empty")")
  }

  /// Reports for each slot that its content is active.
  func tellOnAir() {
    for (slot, content) in slots.sorted(by: { $0.key < $1.key }) { delegate?.onAir(content, in: slot) }
  }

  func serve(_ application: GATTApplication, as number: ApplicationID) { note("serve") }

  func stopServing(_ number: ApplicationID) { note("stop serving") }

  func isServed(_ number: ApplicationID) -> Bool { served.contains(number) }

  func listen(_ listening: Listening?) {
    let services = listening?.services.map { $0.isEmpty ? "all" : "\($0.count)" } ?? "none"
    note(listening.map { "listen: \(services)\(Self.words($0.patterns))" } ?? "listen to nothing")
  }

  private static func words(_ patterns: Set<AdvertisingPattern>?) -> String {
    patterns.map { $0.isEmpty ? ", packets" : ", \($0.count) patterns" } ?? ""
  }

  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    note("connect to \(address)")
    let id = LinkID(UInt64(1000 + links.count))
    links.append((id, handler))
    return RecordingLink(id, self)
  }

  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    note("notify \(value) to \(recipients)")
    return delivery(recipients)
  }

  func expectStream(from link: LinkID, in application: ApplicationID) { note("stream from \(link.number)") }

  func allow(_ backlog: Backlog, on link: LinkID) { note("\(backlog) backlog on \(link.number)") }

  func origin(of link: LinkID) -> LinkOrigin { origins[link] ?? .peer }

  func cut(_ link: LinkID) { note("cut \(link.number)") }

  // MARK: Simulated events

  func linkUp(_ number: UInt64, since: Instant = .zero) {
    let address = BluetoothAddress(0xC000_0000_0000 | number)
    delegate?.linkUp(DriverLink(id: LinkID(number), address: address, since: since))
  }
}

/// A link that records its calls.
@LoopActor
final class RecordingLink: Link {
  let id: LinkID
  private let driver: RecordingDriver
  private let registration: Registration

  init(_ id: LinkID, _ driver: RecordingDriver) {
    self.id = id
    self.driver = driver
    registration = Registration { driver.dropped.append(id) }
  }

  func discover() { driver.note("discover") }
  func exchangeMTU(_ mtu: Int) { driver.note("MTU \(mtu)") }
  func subscribe(to characteristic: CharacteristicID) { driver.note("subscribe") }
  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    driver.note("write \(value)")
  }
  func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool {
    driver.note("stream \(value)")
    return value != [0]
  }
  func disconnect() { driver.note("disconnect \(id.number)") }
}

/// A service's delegate that records its events.
@LoopActor
final class RecordingDelegate: GATTServerDelegate {
  private(set) var heard: [String] = []
  var refusal: ATTError?

  func takeHeard() -> [String] {
    defer { heard = [] }
    return heard
  }

  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {
    heard.append("opened \(link.number), up since \(since.nanoseconds / 1_000_000)")
  }
  func linkChanged(_ link: LinkID, mtu: Int) { heard.append("MTU of \(link.number): \(mtu)") }
  func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool) {
    heard.append("\(link.number) \(isSubscribed ? "subscribed" : "unsubscribed")")
  }
  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {
    heard.append("\(link.number) wrote \(value)")
    if let refusal { throw refusal }
  }
  func hasRoom(_ link: LinkID) { heard.append("room on \(link.number)") }
  func linkClosed(_ link: LinkID) { heard.append("closed \(link.number)") }
}
