import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The whole way of a value between bluetoothd's characteristics and the delegate, in both directions.
extension BlueZRadio {
  // MARK: Applications

  /// The characteristics stand on the bus at once; peers find them when bluetoothd has registered the application. A
  /// readable characteristic is read as the value that was notified last.
  public func serve(_ application: GATTApplication, as number: ApplicationID) {
    guard applications[number] == nil else { return }
    let registration = KeptRegistration(
      .application, Self.root.child("gatt\(number.number)"), bus: bus, scheduler: scheduler,
      willRegister: { [weak self] in
        self?.reset(number)
        self?.giveHandles(to: number)
      },
      asksForLess: { [weak self] in self?.applications[number]?.doesWithoutHandles(after: $0) ?? false },
      onRegistered: { [weak self] isServed in
        self?.applications[number]?.registered(isServed)
        self?.delegate?.applicationChanged(number, isServed: isServed)
      },
      onChange: { [weak self] in self?.statusMayHaveChanged() })
    applications[number] = ServedApplication(application, as: number, registration: registration, radio: self)
    // Two of one service would be taken for each other.
    afterLeaving { [weak self] in
      guard let self else { return }
      applications[number]?.aim(at: place)
    }
    wishesMayHaveChanged()
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  public func stopServing(_ number: ApplicationID) {
    guard let application = applications.removeValue(forKey: number) else { return }
    leave(application)
    wishesMayHaveChanged()
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  public func isServed(_ number: ApplicationID) -> Bool { applications[number]?.registration.isRegistered ?? false }

  private func giveHandles(to number: ApplicationID) {
    guard let application = applications[number], application.wantsHandles else { return }
    handles = handles.next
    application.block = handles
  }

  /// bluetoothd has forgotten an application, or is about to hear of it.
  private func reset(_ number: ApplicationID) {
    guard let application = applications[number] else { return }
    for characteristic in application.characteristics.values {
      for link in characteristic.reset() where links[link] != nil {
        delegate?.used(number, by: link, .unsubscribed(characteristic.id))
      }
    }
  }

  /// Whether its service is not done with it.
  private func isWanted(_ characteristic: ServedCharacteristic) -> Bool {
    applications[characteristic.application] != nil
  }

  // MARK: From clients

  /// Bytes of writes that may wait for this program: bluetoothd drops those that find no room. The machine may allow less.
  private static let writeBuffer = 1 << 20
  /// Writes of one client that are taken before the loop has its turn.
  private static let writesATurn = 16
  /// Writes that come one close behind the other wait for each other, about as long as the shortest connection interval of
  /// Bluetooth, in which a controller brings several.
  private static let gatheringTime = Duration.microseconds(7500)

  /// A client has written.
  func written(
    _ value: [UInt8], to characteristic: ServedCharacteristic, _ options: ServedCharacteristic.CallOptions
  ) throws(ATTError) {
    let link = try link(of: options)
    guard let delegate, isWanted(characteristic) else { throw .unlikely }
    link.isUsed = true
    characteristic.writeOffer?.wrote(link.id)
    try delegate.written(value, to: characteristic.id, of: characteristic.application, on: link.id)
  }

  public func expectStream(from link: LinkID, in application: ApplicationID) {
    applications[application]?.expectStream(from: link)
  }

  public func allow(_ backlog: Backlog, on id: LinkID) {
    guard let link = links[id], link.backlog != backlog else { return }
    link.backlog = backlog
    for application in applications.values {
      for characteristic in application.characteristics.values { characteristic.sockets[id]?.limit(to: backlog.bytes) }
    }
    central.limitStreams(of: link)
  }

  /// A client reads.
  ///
  /// - Returns: its link; nil where bluetoothd does not say which client it is.
  func read(_ characteristic: ServedCharacteristic, _ options: ServedCharacteristic.CallOptions) -> LinkID? {
    guard isWanted(characteristic), let link = try? link(of: options) else { return nil }
    link.isUsed = true
    delegate?.used(characteristic.application, by: link.id, .read(characteristic.id))
    return link.id
  }

  /// A client has subscribed, and bluetoothd wants a socket for its values.
  ///
  /// - Returns: bluetoothd's end of it; nil where there is no such client.
  func acquired(_ characteristic: ServedCharacteristic, _ options: ServedCharacteristic.CallOptions) throws(DBusError)
    -> FileDescriptor?
  {
    guard isWanted(characteristic), let link = try? link(of: options) else { return nil }
    // The client has unsubscribed and subscribed again before bluetoothd had the answer to its first call. bluetoothd takes the first
    // socket that it gets, and would leave another one unread.
    if let socket = characteristic.sockets[link.id], !socket.isOtherEndGone {
      throw DBusError(name: BlueZName.Failure.failed, message: "The client has a socket.")
    }
    let (socket, end) = try PacketSocket.pair(buffer: link.backlog.bytes)
    let id = link.id
    let isKnown = characteristic.subscribers.contains(id)
    if let earlier = characteristic.sockets.updateValue(socket, forKey: id) {
      sendUnread(by: earlier, of: characteristic, to: link)
      earlier.close()
      // It may have been full, and tells of no room any more.
      EventLoop.shared.soon { [weak self] in self?.delegate?.hasRoom(id) }
    }
    settle(id, of: characteristic)
    socket.onRoom = { [weak self] in self?.delegate?.hasRoom(id) }
    socket.onHangUp = { [weak self, weak characteristic, weak socket] in
      guard let self, let characteristic, let socket, characteristic.sockets[id] === socket else { return }
      socketClosed(id, of: characteristic)
    }
    link.isUsed = true
    if !isKnown { delegate?.used(characteristic.application, by: id, .subscribed(characteristic.id)) }
    return end
  }

  /// A client writes that has no socket, and bluetoothd wants one for its writes.
  ///
  /// - Returns: bluetoothd's end of it; nil where there is no such client.
  func acquiredWrites(_ characteristic: ServedCharacteristic, _ options: ServedCharacteristic.CallOptions)
    throws(DBusError) -> FileDescriptor?
  {
    guard isWanted(characteristic), let link = try? link(of: options) else { return nil }
    // What is in an earlier one came before all that the next will bring.
    takeLastWrites(of: link.id, to: characteristic)
    guard links[link.id] != nil, isWanted(characteristic) else { return nil }
    let (socket, end) = try PacketSocket.pair(otherBuffer: Self.writeBuffer)
    characteristic.writers.updateValue(socket, forKey: link.id)?.close()
    characteristic.writeOffer?.settled(link.id)
    link.isUsed = true
    let id = link.id
    socket.gatheringTime = Self.gatheringTime
    socket.onReadable = { [weak self, weak characteristic] in
      guard let self, let characteristic else { return }
      _ = takeWrites(of: id, to: characteristic)
    }
    socket.onHangUp = { [weak self, weak characteristic, weak socket] in
      guard let characteristic, let socket, characteristic.writers[id] === socket else { return }
      self?.takeLastWrites(of: id, to: characteristic)
      characteristic.writers[id] = nil
      socket.close()
    }
    return end
  }

  /// Takes what a client has written by its socket, as much as goes in one turn.
  ///
  /// - Returns: whether there may be more.
  private func takeWrites(of link: LinkID, to characteristic: ServedCharacteristic) -> Bool {
    guard let socket = characteristic.writers[link] else { return false }
    let arrivals = socket.receive(limit: ATT.valueLimit, upTo: Self.writesATurn)
    for arrival in arrivals {
      // Its link has ended, or bluetoothd has taken another one: whatever takes it from the table closes it.
      guard !socket.isClosed else { return false }
      take(arrival, for: characteristic, on: link)
    }
    return arrivals.count == Self.writesATurn && arrivals.last != .closed
  }

  /// The same for all that is left of a link that ends: the socket holds no more than its buffer.
  func takeLastWrites(of link: LinkID, to characteristic: ServedCharacteristic) {
    while takeWrites(of: link, to: characteristic) {}
  }

  /// What came by the socket of a client, whose writes nobody can refuse.
  private func take(_ arrival: PacketSocket.Arrival, for characteristic: ServedCharacteristic, on link: LinkID) {
    do throws(ATTError) {
      switch arrival {
      case .packet(let value):
        guard let delegate else { throw .unlikely }
        try delegate.written(value, to: characteristic.id, of: characteristic.application, on: link)
      case .tooLong: throw .invalidLength
      case .nothing, .closed: break
      }
    } catch {
      counters.refusedWrites += 1
    }
  }

  /// A first client has subscribed, at a bluetoothd that does not say which.
  func subscribed(to characteristic: ServedCharacteristic) {
    var link: LinkTable.Entry?
    if let path = onlyClient { link = try? self.link(with: path) }
    characteristic.setNotifying(true, for: link?.id)
    guard let link else { return }
    link.isUsed = true
    delegate?.used(characteristic.application, by: link.id, .subscribed(characteristic.id))
  }

  /// The last client no longer wants values, at a bluetoothd that does not say which.
  func unsubscribed(from characteristic: ServedCharacteristic) {
    let link = characteristic.subscriber
    characteristic.setNotifying(false)
    if let link { delegate?.used(characteristic.application, by: link, .unsubscribed(characteristic.id)) }
  }

  /// The link of the client that a call is about, with its MTU.
  private func link(of options: ServedCharacteristic.CallOptions) throws(ATTError) -> LinkTable.Entry {
    counters.malformed += options.malformed
    guard let path = options.device else {
      counters.malformed += 1
      throw .unlikely
    }
    let link: LinkTable.Entry
    if let known = links[path] { link = known } else { link = try self.link(with: path) }
    if let mtu = options.mtu, mtu != link.mtu {
      link.mtu = mtu
      delegate?.linkChanged(link.id, mtu: mtu)
    }
    return link
  }

  // MARK: To clients

  /// Values go to bluetoothd alone: no other program on the bus sees them.
  ///
  /// | bluetoothd | characteristic's reach | a value for a link goes |
  /// | --- | --- | --- |
  /// | from 5.76 on | both | by the socket of the client that subscribed |
  /// | | exact | to a client that did not subscribe by raw HCI |
  /// | | both | to a client whose socket bluetoothd has closed with another's as before 5.76 |
  /// | before 5.76 | subscribers | by one signal to bluetoothd, which sends the value to all subscribers; by raw HCI what is for one
  /// of several clients and fits into one packet of the controller, where the kernel bears that |
  /// | | exact | by raw HCI; by the signal if the client subscribed and is the only one that is connected |
  ///
  /// Without raw HCI an exact value before 5.76 goes by the signal, too, where a client has subscribed.
  public func notify(
    _ value: [UInt8], of id: CharacteristicID, in number: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    var delivery = Delivery()
    if let characteristic = applications[number]?[id], characteristic.canNotify {
      characteristic.remember(value, for: recipients)
      if keepsClientsApart {
        var signalled: [LinkID] = []
        for link in recipients.links ?? characteristic.subscribers {
          if needsSignal(value, of: characteristic, to: link) {
            signalled.append(link)
          } else {
            delivery.add(link, send(value, of: characteristic, to: link))
          }
        }
        if !signalled.isEmpty {
          let all = signal(value, of: characteristic, to: .links(signalled))
          for link in signalled { delivery.add(link, all.fate(of: link)) }
        }
      } else if characteristic.reach == .exact, let links = recipients.links {
        for link in links { delivery.add(link, sendExactly(value, of: characteristic, to: link)) }
      } else if case .link(let link) = recipients, sendShort(value, of: characteristic, to: link) {
        delivery.accepted = [link]
      } else {
        delivery = signal(value, of: characteristic, to: recipients)
      }
    } else {
      delivery.unreachable = recipients.links ?? []
    }
    if !delivery.unreachable.isEmpty {
      counters.droppedNotifications += UInt64(delivery.unreachable.count)
      Log.shared.debug("A value is dropped for \(delivery.unreachable.count) links: not subscribed, or gone")
    }
    return delivery
  }

  private func send(_ value: [UInt8], of characteristic: ServedCharacteristic, to id: LinkID) -> Delivery.Fate {
    guard let link = links[id] else { return .unreachable }
    if characteristic.reach == .exact, hasUnsubscribed(link, from: characteristic) {
      // bluetoothd may have a socket for the client all the same, and drops what comes by it.
      return sendRaw(value, of: characteristic, to: link)
    }
    guard let socket = characteristic.sockets[id] else {
      if characteristic.closing[id] != nil { return .full }
      let isRaw = characteristic.reach == .exact || characteristic.stranded.contains(id)
      return isRaw ? sendRaw(value, of: characteristic, to: link) : .unreachable
    }
    // bluetoothd takes an empty packet for the end of the socket.
    guard !value.isEmpty else { return .unreachable }
    switch socket.send(value) {
    case .sent:
      characteristic.sent(value, to: id)
      return .accepted
    // Why it is closed shows in a moment, and room is told then.
    case .full, .closed: return .full
    case .tooLong: return .unreachable
    }
  }

  /// Sends a value that is for one of several clients past bluetoothd, which would send it to all. It has to fit into one packet of
  /// the controller, for the kernel may send one of its own between two.
  ///
  /// - Returns: false where it has to go the other way.
  private func sendShort(_ value: [UInt8], of characteristic: ServedCharacteristic, to id: LinkID) -> Bool {
    guard characteristic.isNotifying, onlyClient == nil, let link = links[id], isShort(value, for: link) else {
      return false
    }
    return sendRaw(value, of: characteristic, to: link) == .accepted
  }

  /// Whether a value may go past bluetoothd, and fits into one packet of the controller.
  func isShort(_ value: [UInt8], for link: LinkTable.Entry) -> Bool {
    guard bearsRaw, rawFailure == nil, let raw = doors.raw.way, let index = place?.index else { return false }
    return value.count <= min(raw.packetLimit(of: index), ATT.valueLimit(mtu: link.mtu ?? ATT.firstMTU))
  }

  /// Has bluetoothd send a value to all subscribers of a characteristic.
  func signal(
    _ value: [UInt8], of characteristic: ServedCharacteristic, to recipients: Recipients
  ) -> Delivery {
    let meant = recipients.links ?? characteristic.subscriber.map { [$0] } ?? links.all.map(\.id)
    guard characteristic.isNotifying || !characteristic.stranded.isEmpty, let owner = place?.owner else {
      return Delivery(unreachable: meant)
    }
    let reached = meant.filter { links[$0] != nil }
    var delivery = Delivery(unreachable: meant.filter { links[$0] == nil })
    guard !reached.isEmpty else { return delivery }
    guard window.hasRoom else {
      window.refuse(reached)
      delivery.full = reached
      return delivery
    }
    // One signal for each value; as a change of the property, values of one turn would become one.
    bus.emit(
      characteristic.path, BlueZName.properties, "PropertiesChanged",
      [.string(BlueZName.gattCharacteristic), .options(["Value": .bytes(value)]), .strings([])], to: owner)
    window.send()
    askAboutSignals()
    delivery.accepted = reached
    delivery.overheard = links.all.map(\.id).filter { !meant.contains($0) }
    return delivery
  }

  /// Asks bluetoothd, once for all signals of this turn of the loop, whether it has handled them.
  private func askAboutSignals() {
    guard !isQuestionDue else { return }
    isQuestionDue = true
    EventLoop.shared.soon { [weak self] in
      guard let self else { return }
      isQuestionDue = false
      guard let owner = place?.owner, window.ask() else { return }
      let asked = unsettled
      unsettled = []
      bus.call(owner, .root, BlueZName.peer, "Ping") { [weak self] result in
        guard let self, place?.owner == owner else { return }
        if case .failure(let error) = result, error.is(.timeout) {
          window.unanswered()
        } else {
          for link in window.answered() where links[link] != nil { delegate?.hasRoom(link) }
          repeatUnsettled(asked)
        }
        askAboutSignals()
      }
    }
  }

  // MARK: Raw HCI

  func sendRaw(
    _ value: [UInt8], of characteristic: ServedCharacteristic, to link: LinkTable.Entry
  ) -> Delivery.Fate {
    guard let raw = doors.raw.way, characteristic.handle != 0, let index = place?.index else { return .unreachable }
    let address = address(of: link)
    // Where the kernel does not have the link, the value need not wait for its turn.
    if let known = try? raw.links(of: index), !known.contains(where: { $0.isUp && $0.address == address }) {
      return .unreachable
    }
    let limit = ATT.valueLimit(mtu: link.mtu ?? ATT.firstMTU)
    if value.count > limit {
      counters.cutNotifications += 1
      Log.shared.debug("A value of \(value.count) bytes is cut to \(limit)", .link(link.id))
    }
    let notification = ATTNotification(handle: characteristic.handle, value: Array(value.prefix(limit)))
    let acceptance = raw.send(notification, to: address, on: index) { [weak self] in self?.decided($0) }
    guard acceptance == .accepted else { return .full }
    counters.forcedNotifications += 1
    return .accepted
  }

  private func decided(_ outcome: RawOutcome) {
    switch outcome {
    case .sent: rawFailure = nil
    case .linkGone: counters.droppedNotifications += 1
    case .failed(let error):
      counters.droppedNotifications += 1
      Log.shared.debug("A value was not sent by raw HCI: \(error)")
      note(error)
    }
    statusMayHaveChanged()
  }

  /// The one client that is connected: the only peer that can have subscribed. Nil where there are several.
  var onlyClient: ObjectPath? {
    guard let place else { return nil }
    // Not before it is asked for: a value in the usual case needs no look at all the peers.
    var connected: [Device] { daemon.devices.values.filter { $0.isConnected && $0.path.isWithin(place.adapter) } }
    if let raw = doors.raw.way, let index = place.index, let known = try? raw.links(of: index) {
      // A peer that another program connected to is no client of ours; one that we connected to may be.
      let clients = known.filter { $0.isUp && (!$0.isCentral || link(at: $0.address)?.isMadeHere == true) }
      guard clients.count == 1, let only = clients.first else { return nil }
      return link(at: only.address)?.device ?? connected.first { $0.address == only.address }?.path
        ?? Device.path(of: only.address, at: place.adapter)
    }
    let peers = connected
    return peers.count == 1 ? peers.first?.path : nil
  }
}

extension HCILink {
  fileprivate var isUp: Bool { isLE && isConnected }
}

extension Recipients {
  /// The links that are named; nil for all subscribers.
  fileprivate var links: [LinkID]? {
    switch self {
    case .link(let link): [link]
    case .links(let links): links
    case .subscribers: nil
    }
  }
}

extension Delivery {
  /// What became of a value for one link.
  enum Fate { case accepted, full, unreachable }

  fileprivate mutating func add(_ link: LinkID, _ fate: Fate) {
    switch fate {
    case .accepted: accepted.append(link)
    case .full: full.append(link)
    case .unreachable: unreachable.append(link)
    }
  }

  func fate(of link: LinkID) -> Fate {
    accepted.contains(link) ? .accepted : full.contains(link) ? .full : .unreachable
  }
}

extension Backlog {
  /// Bytes of values that may wait for bluetoothd in a socket, the kernel's part of each among them: some six of the longest values,
  /// or eight times that. The less may wait, the more often the two programs wake each other.
  var bytes: Int {
    switch self {
    case .short: 8 << 10
    case .long: 64 << 10
    }
  }
}
