import Common
import Loop
import Radio

extension RemoteAir {
  // MARK: Advertising

  public var advertisingSlots: Int { max(1, Int(abilities.advertisingSlots)) }

  public func advertise(_ advertisement: Advertisement?, in slot: Int) {
    defer { updateStatus() }
    // The advertisement of a different set is sent from a different address.
    let isOtherSet = advertisements[slot].map { $0.setID != advertisement?.setID } ?? false
    slots[slot] = nil
    slotErrors[slot] = nil
    advertisements[slot] = nil
    guard (0..<advertisingSlots).contains(slot), let number = UInt8(exactly: slot) else { return }
    guard let advertisement else { return sendIfIn(.silence(slot: number)) }
    if isOtherSet { sendIfIn(.silence(slot: number)) }
    do throws(RadioError) {
      let content = try EncodedAdvertisement(advertisement)
      slots[slot] = content
      advertisements[slot] = advertisement
      sendIfIn(.advertise(slot: number, content))
    } catch {
      slotErrors[slot] = error
      sendIfIn(.silence(slot: number))
    }
  }

  /// Reports the contents of the slots to the delegate at the end of this loop iteration, if they changed.
  func onAirMayHaveChanged() {
    loop.soon { [weak self] in
      guard let self else { return }
      let shown = isIn ? advertisements : [:]
      let changed = Set(shown.keys).union(toldOnAir.keys).filter { shown[$0] != self.toldOnAir[$0] }
      toldOnAir = shown
      for slot in changed.sorted() { delegate?.onAir(shown[slot], in: slot) }
    }
  }

  /// Sends a frame if the node has joined. Otherwise its content is sent when the hub accepts the node.
  private func sendIfIn(_ frame: NodeFrame) {
    if isIn { send(frame) }
  }

  // MARK: Scanning

  public var deafness: String? { abilities.seesPackets ? nil : AirController.deafness }

  public func listen(_ listening: Listening?) {
    guard listening != self.listening else { return }
    self.listening = listening
    if isIn { sendListening() }
  }

  /// Sends the scan filter. More services than a frame can contain are replaced by no filter.
  func sendListening() {
    var listening = listening
    if let services = listening?.services, services.count > AirWire.uuidLimit { listening?.services = [] }
    send(.listen(listening))
  }

  func heard(_ sighting: Sighting) {
    guard let services = listening?.services else { return }
    guard services.isEmpty || sighting.serviceUUIDs.contains(where: services.contains) else { return }
    delegate?.heard(sighting)
  }

  // MARK: Serving

  /// - Precondition: the number is not in use; at most 64 services of at most 64 characteristics.
  public func serve(_ application: GATTApplication, as number: ApplicationID) {
    precondition(!applications.contains { $0.number == number }, "\(number) is served already")
    precondition(
      application.services.count <= AirWire.serviceLimit
        && application.services.allSatisfy { $0.characteristics.count <= AirWire.characteristicLimit })
    let served = RemoteApplication(
      number: number, application: application, characteristics: application.characteristics)
    applications.append(served)
    if isIn { serve(served) }
  }

  func serve(_ served: RemoteApplication) {
    send(.serve(application: UInt32(truncatingIfNeeded: served.number.number), served.application))
  }

  public func stopServing(_ number: ApplicationID) {
    guard applications.contains(where: { $0.number == number }) else { return }
    applications.removeAll { $0.number == number }
    for link in peers.keys { peers[link]?.ended(number) }
    sendIfIn(.stopServing(application: UInt32(truncatingIfNeeded: number.number)))
  }

  public func isServed(_ number: ApplicationID) -> Bool { application(number)?.isServed ?? false }

  func application(_ number: ApplicationID) -> RemoteApplication? { applications.first { $0.number == number } }

  // MARK: Links

  public func origin(of link: LinkID) -> LinkOrigin {
    guard let peer = peers[link] else { return .unknown }
    return peer.traits.isOurs ? .here : .peer
  }

  public func cut(_ link: LinkID) {
    if let peer = peers[link] { send(.cut(peer.hubLink)) }
  }

  // MARK: Notifying

  public func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    let meant = links(of: recipients, characteristic, application)
    guard let served = self.application(application), served.isServed,
      let declared = served.characteristics[characteristic], declared.canNotify
    else { return Delivery(unreachable: meant) }
    var delivery = Delivery()
    var hubLinks: [LinkID] = []
    let isCongested = isCongested
    for link in meant {
      guard let peer = peers[link],
        peer.hears(characteristic, of: application, declared.reach, hasRawHCI: abilities.hasRawHCI)
      else {
        delivery.unreachable.append(link)
        continue
      }
      if peer.hasRoom, !isCongested {
        peers[link]?.sent()
        delivery.accepted.append(link)
        hubLinks.append(peer.hubLink)
      } else {
        peers[link]?.wasFull = true
        delivery.full.append(link)
      }
    }
    while !hubLinks.isEmpty {
      let some = Array(hubLinks.prefix(AirWire.linkLimit))
      hubLinks.removeFirst(some.count)
      send(.notify(application: UInt32(truncatingIfNeeded: application.number), some, characteristic, value))
    }
    // All bytes may be sent in this loop iteration; the socket then does not call `drained`.
    if isCongested, !delivery.full.isEmpty { loop.soon { [weak self] in self?.makeRoom() } }
    return delivery
  }

  private var isCongested: Bool { (socket?.unsent ?? 0) > Self.congestion }

  /// The links that a value is sent to, without duplicates.
  private func links(
    of recipients: Recipients, _ characteristic: CharacteristicID, _ application: ApplicationID
  ) -> [LinkID] {
    switch recipients {
    case .link(let link): return [link]
    case .links(let links):
      var seen: Set<LinkID> = []
      return links.filter { seen.insert($0).inserted }
    case .subscribers:
      return peers.filter { $0.value.hasSubscribed(to: characteristic, in: application) }.keys
        .sorted { $0.number < $1.number }
    }
  }

  /// Reports links that were full and have capacity now.
  func makeRoom() {
    guard !isCongested else { return }
    for link in peers.keys.sorted(by: { $0.number < $1.number }) {
      guard let peer = peers[link], peer.wasFull, peer.hasRoom else { continue }
      peers[link]?.wasFull = false
      delegate?.hasRoom(link)
    }
  }
}
