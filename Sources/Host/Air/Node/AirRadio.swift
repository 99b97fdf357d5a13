import Common
import Loop
import Radio

/// A node of a simulated radio; it implements the radio driver.
@LoopActor
public final class AirRadio: RadioDriver {
  static let noRoom = "The controller has reached its limit of links."

  public internal(set) var address: BluetoothAddress
  /// Initially a public address; `changeAddress` makes it a random one.
  public internal(set) var addressKind = AdvertisingPacket.AddressKind.publicAddress
  let air: AirSpace
  private let adapter: String

  var isRemoved = false
  var slots: [Int: AirSlot] = [:]
  /// The advertisements that the delegate was notified of.
  var toldOnAir: [Int: Advertisement] = [:]
  /// Slots with a pending notification of the delegate.
  var onAirDue: Set<Int> = []
  private var scan: AirScan?
  /// The scan's number in the simulated radio, while it runs.
  private var running: UInt64?
  /// Applications in the order in which they were served.
  var applications: [AirApplication] = []
  /// This node's ends of links that are up, in the order in which they came up.
  private(set) var ends: [AirEnd] = []
  var attempts: [AirAttempt] = []
  private var reported: RadioStatus
  private var addressChange: TimedQueue.Ticket?

  init(
    air: AirSpace, address: BluetoothAddress, adapter: String, position: AirPosition, controller: AirController
  ) {
    self.air = air
    self.address = address
    self.adapter = adapter
    self.position = position
    self.controller = controller
    reported = RadioStatus(.ready, adapters: [adapter])
    scheduleAddressChange()
  }

  // MARK: The delegate

  public weak var delegate: (any RadioDriverDelegate)? {
    didSet { owner = delegate as? any AirNodeOwner }
  }

  private(set) weak var owner: (any AirNodeOwner)?

  public let tallies: [Tally] = []

  // MARK: Position and controller

  /// The node's position. Links to nodes that go out of range end.
  public var position: AirPosition {
    didSet { air.rangeChanged() }
  }

  /// The node's capabilities. Advertisements in slots that no longer exist end.
  public var controller: AirController {
    didSet {
      if controller.advertisingSlots != oldValue.advertisingSlots { advertisingSlotsChanged() }
      if controller.linkLimit != oldValue.linkLimit { air.retryConnecting() }
      if controller.addressInterval != oldValue.addressInterval { scheduleAddressChange() }
      statusMayHaveChanged()
    }
  }

  public var advertisingSlots: Int { max(1, controller.advertisingSlots) }

  public var deafness: String? { controller.seesPackets ? nil : AirController.deafness }

  /// Whether the number of links is below the controller's limit.
  var hasRoomForLink: Bool { controller.linkLimit.map { ends.count < $0 } ?? true }

  // MARK: The address

  /// Takes a new random address. Links continue; scanning nodes receive it as another advertiser.
  public func changeAddress() {
    guard !isRemoved else { return }
    air.moveToNewAddress(self)
    addressKind = .randomAddress
    for (_, slot) in slots { slot.onAir.flatMap { air.onAir[$0] }?.describe() }
    owner?.addressChanged(address)
    air.audienceChanged()
    scheduleAddressChange()
  }

  private func scheduleAddressChange() {
    addressChange.map(air.agenda.cancel)
    addressChange = nil
    guard let interval = controller.addressInterval, interval > .zero, !isRemoved else { return }
    addressChange = air.agenda.at(air.agenda.now.advanced(by: interval)) { [weak self] in self?.changeAddress() }
  }

  // MARK: Power

  /// Whether there is an adapter that is on. Switching it off ends the links; advertisements, scans and applications
  /// wait until it is on again.
  public var power = true {
    didSet {
      if isRemoved { power = false }
      guard power != oldValue else { return }
      if power { switchOn() } else { switchOff() }
      statusMayHaveChanged()
    }
  }

  public var status: RadioStatus {
    var status = situation
    status.traits.packetShortfall = controller.packetShortfall
    status.traits.deafness = controller.passingDeafness
    status.traits.keepsClientsApart = !controller.reachesEverySubscriber
    status.traits.longestWrite = controller.longestWrite
    return status
  }

  private var situation: RadioStatus {
    guard power else { return RadioStatus(.waiting, reason: "The simulated adapter is switched off.") }
    if let error = slots.sorted(by: { $0.key < $1.key }).compactMap(\.value.error).first {
      return RadioStatus(.degraded, reason: error.sentence, adapters: [adapter])
    }
    if !controller.hasRawHCI, applications.contains(where: \.needsExactReach) {
      return RadioStatus(
        .degraded, reason: "The simulated adapter cannot notify single clients.", adapters: [adapter])
    }
    return RadioStatus(.ready, adapters: [adapter])
  }

  func statusMayHaveChanged() {
    let status = status
    guard status != reported else { return }
    reported = status
    air.agenda.next { [weak self] in self?.delegate?.statusChanged(status) }
  }

  private func switchOn() {
    for slot in slots.keys.sorted() { show(slot) }
    for application in applications { register(application) }
    scan?.restart()
    startScanning()
  }

  private func switchOff() {
    for attempt in attempts { attempt.end("The Bluetooth adapter is gone.") }
    for end in ends { end.close("The Bluetooth adapter is gone.") }
    for slot in slots.keys.sorted() { hide(slot) }
    for application in applications { unregister(application) }
    stopScanning()
  }

  /// Removes the node from its simulated radio permanently.
  func leave() {
    power = false
    isRemoved = true
    scheduleAddressChange()
  }

  // MARK: Scanning

  public func listen(_ listening: Listening?) {
    guard let listening else {
      stopScanning()
      scan = nil
      return
    }
    guard let scan else {
      scan = AirScan(node: self, listening)
      return startScanning()
    }
    guard scan.listening != listening else { return }
    scan.listening = listening
    air.announceAll()
  }

  private func startScanning() {
    guard power, let scan else { return }
    running = air.start(scan)
  }

  private func stopScanning() {
    running.map { _ = air.scans.remove($0) }
    running = nil
  }

  func heard(_ packet: AdvertisingPacket) {
    if seesPackets { delegate?.heard(packet) }
  }

  /// Whether the node's scan accepts packets with this data.
  func listens(for data: [UInt8]) -> Bool { seesPackets && scan?.listening.wants(data[...]) == true }

  func heard(_ advertisement: OnAir, rssi: Int?) {
    if let owner {
      owner.heard(advertisement.content, of: advertisement.address, rssi: rssi)
    } else {
      var sighting = advertisement.sighting
      sighting.rssi = rssi
      delegate?.heard(sighting)
    }
  }

  // MARK: Links

  /// Waits for the peer to advertise in range, for `AirConditions.connectTimeout`. At most one attempt per address is allowed: a second one
  /// ends immediately.
  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard power else { throw .notReady(status.reason) }
    let client = AirClient(handler)
    if let end = ends.first(where: { $0.peerAddress == address }) {
      client.join(end)
      return AirLink(client, end.id)
    }
    let attempt = AirAttempt(self, address, air.newLinkID(), client)
    if attempts.contains(where: { $0.target == address }) {
      client.end("A connection attempt to \(address) is already pending.", in: air)
    } else if !hasRoomForLink {
      client.end(Self.noRoom, in: air)
    } else {
      client.connect(attempt)
      attempts.append(attempt)
      air.start(attempt)
    }
    return AirLink(client, attempt.id)
  }

  public func origin(of link: LinkID) -> LinkOrigin { end(link)?.origin ?? .unknown }

  public func cut(_ link: LinkID) {
    end(link)?.close(AirEnd.disconnected, forPeer: AirEnd.peerDisconnected)
  }

  /// Returns this node's end of a link; nil for links of other nodes.
  func end(_ link: LinkID) -> AirEnd? {
    guard let end = air.end(link), end.node === self else { return nil }
    return end
  }

  /// The nodes at the other ends of this node's links.
  var peers: [AirRadio] { ends.compactMap { $0.peer?.node } }

  func connected(_ end: AirEnd) {
    ends.append(end)
  }

  func disconnected(_ end: AirEnd) {
    ends.removeAll { $0 === end }
    for (number, slot) in slots where slot.silencedBy == end.id { show(number) }
  }
}
