import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// Transfer of values between bluetoothd's characteristics and the delegate, in both directions.
extension BlueZRadio {
  // MARK: Applications

  /// Exports the characteristics immediately; peers discover them when bluetoothd has registered the application.
  /// Reading a characteristic returns the value that was notified last.
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
    // bluetoothd would confuse two registrations of one service.
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

  /// Resets an application that bluetoothd has dropped, or is about to register.
  private func reset(_ number: ApplicationID) {
    guard let application = applications[number] else { return }
    for characteristic in application.characteristics.values {
      for link in characteristic.reset() where links[link] != nil {
        delegate?.used(number, by: link, .unsubscribed(characteristic.id))
      }
    }
  }

  /// Whether the service still uses the characteristic.
  private func isWanted(_ characteristic: ServedCharacteristic) -> Bool {
    applications[characteristic.application] != nil
  }

  // MARK: From clients

  /// Bytes of writes that may wait for this program: bluetoothd drops writes beyond it. The kernel may limit it further.
  private static let writeBuffer = 1 << 20
  /// Maximum writes of one client that are handled in one loop iteration.
  private static let writesATurn = 16
  /// Delay that collects closely spaced writes. It equals the shortest connection interval of Bluetooth, in which a controller delivers
  /// several.
  private static let gatheringTime = Duration.microseconds(7500)

  /// Handles a write of a client.
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

  /// Handles a read of a client.
  ///
  /// - Returns: the client's link; nil if bluetoothd does not identify the client.
  func read(_ characteristic: ServedCharacteristic, _ options: ServedCharacteristic.CallOptions) -> LinkID? {
    guard isWanted(characteristic), let link = try? link(of: options) else { return nil }
    link.isUsed = true
    delegate?.used(characteristic.application, by: link.id, .read(characteristic.id))
    return link.id
  }

  /// Handles a client's subscription: bluetoothd requests a socket for the client's values.
  ///
  /// - Returns: bluetoothd's end of the socket; nil if the client is unknown.
  func acquired(_ characteristic: ServedCharacteristic, _ options: ServedCharacteristic.CallOptions) throws(DBusError)
    -> FileDescriptor?
  {
    guard isWanted(characteristic), let link = try? link(of: options) else { return nil }
    // The client has unsubscribed and subscribed again before bluetoothd received the answer to its first call. bluetoothd uses the first
    // socket that it receives, and would not read another one.
    if let socket = characteristic.sockets[link.id], !socket.isOtherEndGone {
      throw DBusError(name: BlueZName.Failure.failed, message: "The client has a socket.")
    }
    let (socket, end) = try PacketSocket.pair(buffer: link.backlog.bytes)
    let id = link.id
    let isKnown = characteristic.subscribers.contains(id)
    if let earlier = characteristic.sockets.updateValue(socket, forKey: id) {
      sendUnread(by: earlier, of: characteristic, to: link)
      earlier.close()
      // The former socket may have been full, and can no longer report capacity.
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

  /// Handles a client that writes without a socket: bluetoothd requests one for its writes.
  ///
  /// - Returns: bluetoothd's end of the socket; nil if the client is unknown.
  func acquiredWrites(_ characteristic: ServedCharacteristic, _ options: ServedCharacteristic.CallOptions)
    throws(DBusError) -> FileDescriptor?
  {
    guard isWanted(characteristic), let link = try? link(of: options) else { return nil }
    // Values in an earlier socket precede all values in the next one.
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

  /// Handles values that a client wrote through its socket, at most `writesATurn`.
  ///
  /// - Returns: whether more may be waiting.
  private func takeWrites(of link: LinkID, to characteristic: ServedCharacteristic) -> Bool {
    guard let socket = characteristic.writers[link] else { return false }
    let arrivals = socket.receive(limit: ATT.valueLimit, upTo: Self.writesATurn)
    for arrival in arrivals {
      // The link has ended, or bluetoothd has requested another socket. The code that removed this one from the table
      // closed it.
      guard !socket.isClosed else { return false }
      take(arrival, for: characteristic, on: link)
    }
    return arrivals.count == Self.writesATurn && arrivals.last != .closed
  }

  /// Handles all remaining values of a link that ends. Their number is limited by the socket's buffer.
  func takeLastWrites(of link: LinkID, to characteristic: ServedCharacteristic) {
    while takeWrites(of: link, to: characteristic) {}
  }

  /// Handles a value from a client's socket; a write through a socket cannot be refused.
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

  /// The first client has subscribed, with a bluetoothd that does not identify the client.
  func subscribed(to characteristic: ServedCharacteristic) {
    var link: LinkTable.Entry?
    if let path = onlyClient { link = try? self.link(with: path) }
    characteristic.setNotifying(true, for: link?.id)
    guard let link else { return }
    link.isUsed = true
    delegate?.used(characteristic.application, by: link.id, .subscribed(characteristic.id))
  }

  /// The last client has unsubscribed, with a bluetoothd that does not identify the client.
  func unsubscribed(from characteristic: ServedCharacteristic) {
    let link = characteristic.subscriber
    characteristic.setNotifying(false)
    if let link { delegate?.used(characteristic.application, by: link, .unsubscribed(characteristic.id)) }
  }

  /// The link of the client in the call's options; the function stores the client's MTU.
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

  /// Values are sent to bluetoothd only: no other program on the bus receives them.
  ///
  /// | bluetoothd | characteristic's reach | path of a value for a link |
  /// | --- | --- | --- |
  /// | from 5.76 on | both | the socket of the client, if it subscribed |
  /// | | exact | raw HCI, if the client did not subscribe |
  /// | | both | the paths before 5.76, if bluetoothd has closed the client's socket because another client left |
  /// | before 5.76 | subscribers | one signal to bluetoothd, which sends the value to all subscribers; raw HCI for one of
  /// | several clients, if the value fits into one packet of the controller and the kernel supports it |
  /// | | exact | raw HCI; the signal if the client subscribed and is the only connected client |
  ///
  /// Without raw HCI an exact value before 5.76 is also sent by the signal, if a client has subscribed.
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
      // bluetoothd may still have a socket for the client, but drops values from it.
      return sendRaw(value, of: characteristic, to: link)
    }
    guard let socket = characteristic.sockets[id] else {
      if characteristic.closing[id] != nil { return .full }
      let isRaw = characteristic.reach == .exact || characteristic.stranded.contains(id)
      return isRaw ? sendRaw(value, of: characteristic, to: link) : .unreachable
    }
    // bluetoothd treats an empty packet as the end of the socket.
    guard !value.isEmpty else { return .unreachable }
    switch socket.send(value) {
    case .sent:
      characteristic.sent(value, to: id)
      return .accepted
    // The reason for the closed socket is determined a moment later; capacity is reported then.
    case .full, .closed: return .full
    case .tooLong: return .unreachable
    }
  }

  /// Sends a value for one of several clients over raw HCI, because bluetoothd would send it to all. It must fit into one packet of the
  /// controller, because the kernel may insert a packet of its own between two.
  ///
  /// - Returns: false if the value must be sent through bluetoothd.
  private func sendShort(_ value: [UInt8], of characteristic: ServedCharacteristic, to id: LinkID) -> Bool {
    guard characteristic.isNotifying, onlyClient == nil, let link = links[id], isShort(value, for: link) else {
      return false
    }
    return sendRaw(value, of: characteristic, to: link) == .accepted
  }

  /// Whether a value may be sent over raw HCI, and fits into one packet of the controller.
  func isShort(_ value: [UInt8], for link: LinkTable.Entry) -> Bool {
    guard bearsRaw, rawFailure == nil, let raw = doors.raw.way, let index = place?.index else { return false }
    return value.count <= min(raw.packetLimit(of: index), ATT.valueLimit(mtu: link.mtu ?? ATT.firstMTU))
  }

  /// Lets bluetoothd send a value to all subscribers of a characteristic.
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
    // Each value has its own signal: changes of the property within one loop iteration would be merged.
    bus.emit(
      characteristic.path, BlueZName.properties, "PropertiesChanged",
      [.string(BlueZName.gattCharacteristic), .options(["Value": .bytes(value)]), .strings([])], to: owner)
    window.send()
    askAboutSignals()
    delivery.accepted = reached
    delivery.overheard = links.all.map(\.id).filter { !meant.contains($0) }
    return delivery
  }

  /// Asks bluetoothd whether it has handled the signals, once for all signals of this loop iteration.
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
    // If the kernel does not have the link, the value is not queued.
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

  /// The only connected client, which is the only possible subscriber. Nil if there are several.
  var onlyClient: ObjectPath? {
    guard let place else { return nil }
    // This is computed on demand, because it iterates over all peers and most values do not need it.
    var connected: [Device] { daemon.devices.values.filter { $0.isConnected && $0.path.isWithin(place.adapter) } }
    if let raw = doors.raw.way, let index = place.index, let known = try? raw.links(of: index) {
      // A peer that another program connected to is not our client; a peer that we connected to may be.
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
  /// The links of these recipients; nil for all subscribers.
  fileprivate var links: [LinkID]? {
    switch self {
    case .link(let link): [link]
    case .links(let links): links
    case .subscribers: nil
    }
  }
}

extension Delivery {
  /// The result of sending a value to one link.
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
  /// Bytes of values that may wait in a socket for bluetoothd, including the kernel's overhead: about six of the longest values, or eight
  /// times as many. A smaller limit wakes the two programs more often.
  var bytes: Int {
    switch self {
    case .short: 8 << 10
    case .long: 64 << 10
    }
  }
}
