import Common
import Loop
import Radio

/// A node of a simulated radio; it implements the radio driver.
@LoopActor
public final class AirRadio: RadioDriver {
  static let noRoom = "The controller has reached its limit of links."

  public internal(set) var address: BluetoothAddress
  /// Kind of the node's address: public at first, random after `changeAddress`.
  public internal(set) var addressKind = AdvertisingPacket.AddressKind.publicAddress
  let air: AirSpace
  private let adapter: String

  private var isRemoved = false
  private var slots: [Int: AirSlot] = [:]
  /// The advertisements that the delegate was notified of.
  private var toldOnAir: [Int: Advertisement] = [:]
  /// Slots with a pending notification of the delegate.
  private var onAirDue: Set<Int> = []
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
  /// The address at BR/EDR, which never changes.
  private let fixedAddress: BluetoothAddress
  /// The handlers of the profiles whose streams this node accepts.
  private var profiles: [BluetoothUUID: @LoopActor (any RadioStream) -> Void] = [:]

  init(
    air: AirSpace, address: BluetoothAddress, adapter: String, position: AirPosition, controller: AirController
  ) {
    self.air = air
    self.address = address
    self.adapter = adapter
    self.position = position
    self.controller = controller
    fixedAddress = address
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
    status.traits.connectingShortfall = controller.connectingShortfall
    status.traits.isReachable = power && acceptsStreams
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

  private func statusMayHaveChanged() {
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
    for stream in air.streams(of: self) { stream.lose("The Bluetooth adapter is gone.") }
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
      var scanResult = advertisement.scanResult
      scanResult.rssi = rssi
      delegate?.heard(scanResult)
    }
  }

  // MARK: Links

  /// Waits for the peer to advertise in range, for `AirConditions.connectTimeout`. At most one attempt per address is
  /// allowed: a second one ends immediately.
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

  // MARK: Streams

  public var publicAddress: BluetoothAddress? { power ? fixedAddress : nil }

  var acceptsStreams: Bool { !profiles.isEmpty }

  public func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    let service = profile.registered
    guard profiles[service] == nil else { throw .refused("The profile is registered already.") }
    profiles[service] = handler
    statusMayHaveChanged()
    return Registration { [weak self] in
      self?.profiles[service] = nil
      self?.statusMayHaveChanged()
    }
  }

  /// Waits for the peer to accept streams in range, for `AirConditions.connectTimeout`.
  public func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    guard power else { throw .notReady(status.reason) }
    guard controller.connectingShortfall == nil else { throw .notSupported("open streams") }
    let conditions = air.conditions(between: fixedAddress, and: address)
    let start = air.agenda.now
    let isOver = Locked(false)
    func attempt(at instant: Instant) {
      air.agenda.at(instant) { [weak self] in
        guard let self, !isOver.withLock({ $0 }) else { return }
        guard let peer = air.acceptor(at: address, for: self), power else {
          let now = air.agenda.now
          guard power, start.duration(to: now) < conditions.connectTimeout else {
            return then(.failure(.peerLost("The peer did not answer within \(conditions.connectTimeout).")))
          }
          return attempt(at: now.advanced(by: conditions.streamSetup))
        }
        then(open(to: peer, on: profile))
      }
    }
    attempt(at: start.advanced(by: conditions.streamSetup))
    return Registration { isOver.withLock { $0 = true } }
  }

  private func open(to peer: AirRadio, on profile: StreamProfile) -> Result<any RadioStream, RadioError> {
    guard let handler = profile.services.lazy.compactMap({ peer.profiles[$0] }).first else {
      return .failure(.peerLost("The peer does not offer the profile \(profile.name)."))
    }
    let (here, there) = AirStream.pair(self, fixedAddress, peer, peer.fixedAddress)
    air.agenda.next { handler(there) }
    return .success(here)
  }

  // MARK: Advertising

  public func advertise(_ advertisement: Advertisement?, in slot: Int) {
    guard let advertisement else { return advertise(encoded: nil, in: slot) }
    // The advertisement of a different set is sent from a different address.
    if slots[slot]?.advertisement?.setID != advertisement.setID { advertise(encoded: nil, in: slot) }
    do throws(RadioError) {
      advertise(encoded: try EncodedAdvertisement(advertisement), advertisement, in: slot)
    } catch {
      hide(slot)
      slots[slot] = AirSlot(error: error)
      statusMayHaveChanged()
    }
  }

  func advertise(encoded content: EncodedAdvertisement?, _ advertisement: Advertisement? = nil, in slot: Int) {
    defer {
      statusMayHaveChanged()
      onAirMayHaveChanged(slot)
    }
    guard let content, (0..<advertisingSlots).contains(slot) else {
      hide(slot)
      slots[slot] = nil
      return
    }
    let old = slots[slot]
    if let old, let id = old.onAir, old.content?.isConnectable == content.isConnectable,
      old.content?.interval == content.interval
    {
      // The data of a running set can be replaced without interruption.
      if old.content != content { air.change(id, to: content) }
      slots[slot]?.content = content
      slots[slot]?.advertisement = advertisement
    } else {
      hide(slot)
      slots[slot] = AirSlot(content: content, advertisement: advertisement)
      show(slot)
    }
  }

  /// Notifies the delegate in the next event of a changed slot.
  private func onAirMayHaveChanged(_ slot: Int) {
    guard delegate != nil, onAirDue.insert(slot).inserted else { return }
    air.agenda.next { [weak self] in
      guard let self else { return }
      onAirDue.remove(slot)
      let shown = slots[slot].flatMap { $0.onAir == nil ? nil : $0.advertisement }
      guard shown != toldOnAir[slot] else { return }
      toldOnAir[slot] = shown
      delegate?.onAir(shown, in: slot)
    }
  }

  private func advertisingSlotsChanged() {
    for slot in slots.keys.sorted() where slot >= advertisingSlots { advertise(encoded: nil, in: slot) }
    air.agenda.next { [weak self] in self?.delegate?.advertisingSlotsChanged() }
  }

  /// Starts to broadcast the content of a slot unless it is already broadcast.
  private func show(_ slot: Int) {
    guard power, let content = slots[slot]?.content, slots[slot]?.onAir == nil else { return }
    let id = air.putOnAir(self, content)
    slots[slot]?.onAir = id
    slots[slot]?.silencedBy = nil
    onAirMayHaveChanged(slot)
    air.retryConnecting()
  }

  private func hide(_ slot: Int) {
    let id = slots[slot]?.onAir
    slots[slot]?.onAir = nil
    id.map(air.takeOffAir)
    if id != nil { onAirMayHaveChanged(slot) }
    slots[slot]?.silencedBy = nil
  }

  /// Handles a peer that has connected by an advertisement, which ends the advertisement if `controller.fallsSilent`.
  func connected(by advertisement: UInt64, on link: LinkID) {
    guard controller.fallsSilent, let slot = slots.first(where: { $0.value.onAir == advertisement })?.key
    else { return }
    hide(slot)
    slots[slot]?.silencedBy = link
    guard controller.renewsAdvertisements else { return }
    air.agenda.next { [weak self] in
      if self?.slots[slot]?.silencedBy == link { self?.show(slot) }
    }
  }

  /// The next time at which a peer can connect, and the advertisement for it; nil if there is none.
  func nextConnectableEvent(from now: Instant) -> (at: Instant, advertisement: UInt64)? {
    slots.values.compactMap { slot -> (at: Instant, advertisement: UInt64)? in
      guard let id = slot.onAir, slot.content?.isConnectable == true, let onAir = air.onAir[id] else { return nil }
      return (onAir.nextEvent(from: now), id)
    }.min { ($0.at, $0.advertisement) < ($1.at, $1.advertisement) }
  }

  // MARK: Serving

  /// - Precondition: the number is not in use.
  public func serve(_ application: GATTApplication, as number: ApplicationID) {
    precondition(self.application(number) == nil, "\(number) is served already")
    let application = AirApplication(number, application)
    applications.append(application)
    if power { register(application) }
    statusMayHaveChanged()
  }

  public func stopServing(_ number: ApplicationID) {
    guard let application = application(number) else { return }
    applications.removeAll { $0 === application }
    application.registering.map(air.agenda.cancel)
    for end in ends { end.applicationEnded(number) }
    statusMayHaveChanged()
  }

  public func isServed(_ number: ApplicationID) -> Bool { application(number)?.isServed ?? false }

  func application(_ number: ApplicationID) -> AirApplication? { applications.first { $0.number == number } }

  /// The first served application with the characteristic.
  func application(with characteristic: CharacteristicID) -> AirApplication? {
    applications.first { $0.isServed && $0.characteristics[characteristic] != nil }
  }

  /// The services that a peer discovers, without the reach of their characteristics.
  var discoverableServices: [GATTService] {
    applications.filter(\.isServed).flatMap(\.services).map { service in
      GATTService(
        uuid: service.uuid,
        characteristics: service.characteristics.map { .init(uuid: $0.uuid, properties: $0.properties) })
    }
  }

  private func register(_ application: AirApplication) {
    let moment = air.agenda.now.advanced(by: controller.servingDelay)
    application.registering = air.agenda.at(moment) { [weak self] in
      application.registering = nil
      application.isServed = true
      self?.delegate?.applicationChanged(application.number, isServed: true)
    }
  }

  private func unregister(_ application: AirApplication) {
    application.registering.map(air.agenda.cancel)
    application.registering = nil
    guard application.isServed else { return }
    application.isServed = false
    air.agenda.next { [weak self] in
      // The application may have been removed, or registered again, meanwhile.
      guard let self, applications.contains(where: { $0 === application }), !application.isServed else { return }
      delegate?.applicationChanged(application.number, isServed: false)
    }
  }

  /// Handles a write of a client.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID,
    answer: AirAnswer?
  ) {
    if let owner {
      owner.written(value, to: characteristic, of: application, on: link, answer: answer)
    } else if let delegate {
      do throws(ATTError) {
        try delegate.written(value, to: characteristic, of: application, on: link)
        answer?(nil)
      } catch {
        answer?(error)
      }
    } else {
      answer?(.unlikely)
    }
  }

  // MARK: Notifying

  public func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    notify(value, of: characteristic, in: application, to: recipients, then: { _ in })
  }

  /// - Parameter gone: called for each link that accepted the value, when the value has been transmitted.
  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in number: ApplicationID, to recipients: Recipients,
    then gone: @escaping @LoopActor (LinkID) -> Void
  ) -> Delivery {
    let meant = recipients.distinctLinks { ends.filter { $0.subscriptions[characteristic] == number }.map(\.id) }
    guard let application = application(number), application.isServed,
      let declared = application.characteristics[characteristic], declared.canNotify
    else { return Delivery(unreachable: meant) }
    var delivery = Delivery()
    var taking: [AirEnd] = []
    for link in meant {
      if let end = end(link), end.reaches(characteristic, of: number, declared.reach) {
        if end.takesNotification() {
          delivery.accepted.append(link)
          taking.append(end)
        } else {
          delivery.full.append(link)
        }
      } else {
        delivery.unreachable.append(link)
      }
    }
    for end in taking {
      end.notify(value, of: characteristic, declared.properties) { gone(end.id) }
    }
    if !taking.isEmpty, controller.reachesEverySubscriber, declared.reach == .subscribers || !controller.hasRawHCI {
      for end in ends where end.subscriptions[characteristic] == number && !meant.contains(end.id) {
        end.notify(value, of: characteristic, declared.properties, then: {})
        delivery.overheard.append(end.id)
      }
    }
    return delivery
  }
}

/// An advertising slot of a node's controller, and its content.
struct AirSlot {
  /// Nil if the advertisement could not be encoded.
  var content: EncodedAdvertisement?
  /// The advertisement before encoding; nil if another program sent it through the hub.
  var advertisement: Advertisement?
  /// The reason why the advertisement could not be encoded; nil if it was.
  var error: RadioError?
  /// The advertisement's number in the simulated radio, while it is broadcast.
  var onAir: UInt64?
  /// The link by which a peer ended the advertisement; nil while it is broadcast.
  var silencedBy: LinkID?
}

/// An application that a node serves.
@LoopActor
final class AirApplication {
  let number: ApplicationID
  let services: [GATTService]
  let characteristics: [CharacteristicID: GATTCharacteristic]
  /// Whether peers can discover the application.
  var isServed = false
  /// The pending registration, after which peers can discover the application.
  var registering: TimedQueue.Ticket?

  init(_ number: ApplicationID, _ application: GATTApplication) {
    self.number = number
    services = application.services
    characteristics = application.characteristics
  }

  /// Whether a characteristic requires values to reach single clients only.
  var needsExactReach: Bool { characteristics.values.contains { $0.reach == .exact } }
}
