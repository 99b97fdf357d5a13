import Common
import DBus
import Journal
import Loop
import Radio

/// One use of a link as its GATT client, from the connection attempt to the end. bluetoothd connects, discovers the
/// peer's services, and exports them as objects.
@LoopActor
final class CentralConnection {
  enum State: Equatable {
    case connecting
    case open
    /// The link is being ended; the reason is reported when it has ended.
    case disconnecting(reason: String)
    case closed
  }

  let id: LinkID
  let place: Place
  let device: ObjectPath
  let address: BluetoothAddress
  /// Whether the link existed before this connection.
  let isShared: Bool
  private let bus: BusConnection
  private let counters: BlueZCounters
  private(set) var state = State.connecting
  private var window = WriteWindow()
  private var database: RemoteDatabase?
  /// Whether the database was read for a `discover` operation.
  private var isDatabaseNew = false
  private var isReading = false
  private var mtu = ATT.firstMTU
  /// The subscribed characteristics, by their object paths.
  private(set) var subscriptions: [ObjectPath: CharacteristicID] = [:]
  /// The method by which values are streamed to each characteristic, once it is determined.
  private var streams: [ObjectPath: StreamWay] = [:]
  private let bearers: Bearers
  private var isResolved = false
  /// Whether the peer is paired or trusted, so that it must stay in bluetoothd.
  private(set) var isBound: Bool

  /// Whether bluetoothd has reported the peer as connected. bluetoothd 5.82 sometimes answers the call, or sends
  /// other signals, before that report.
  private var isConnectionTold: Bool
  private let scheduler: any Scheduler
  private weak var central: Central?
  private var handler: (@LoopActor (LinkEvent) -> Void)?
  private var signals: Registration?
  private var timer: Registration?
  private var attempts = 0
  /// The timer of the next attempt.
  private var retry: Registration?

  /// Maximum attempts if the link fails at once, which happens when the peer missed the first packet.
  private static let attemptLimit = 3
  /// Number of first values of a stream that are sent as requests.
  private static let firstRequests = 2
  /// Pause after a failed attempt. bluetoothd 5.66 removes a peer right after it has reported the failure, and an
  /// attempt without a pause would refer to the removed peer.
  private static let retryTime = Duration.milliseconds(500)
  /// Time limit of a connection attempt, longer than those of bluetoothd and the kernel.
  private static let connectTime = Duration.seconds(30)
  /// Time limit of a request: bluetoothd waits 30 s for each answer of the peer. Core 5.4 Vol 3 Part F 3.3.3.
  private static let answerTime = Duration.seconds(40)
  private static let resolveTime = Duration.seconds(60)
  /// Maximum time from the start of a link that the peer has made until bluetoothd answers our attempt. After that,
  /// the peer's link is used.
  private static let crossingTime = Duration.seconds(2)
  /// Maximum time from the removal of a subscribed object to the reported end of the link. At the end of a link
  /// bluetoothd removes the peer's services, and reports the end shortly after.
  private static let endingTime = Duration.seconds(1)
  /// Time limit for ending a link: bluetoothd disconnects two seconds after the request.
  private static let disconnectTime = Duration.seconds(5)

  /// - Parameters:
  ///   - id: the link's number, or a new one for a link that is not up.
  ///   - device: bluetoothd's present description of the peer.
  init(
    _ id: LinkID, to device: Device, at place: Place, on bus: BusConnection, scheduler: any Scheduler,
    counters: BlueZCounters, central: Central, bearers: Bearers, handler: @escaping @LoopActor (LinkEvent) -> Void
  ) {
    self.id = id
    self.place = place
    self.device = device.path
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.central = central
    self.handler = handler
    self.bearers = bearers
    address = device.address
    isShared = device.isConnected
    isConnectionTold = device.isConnected
    isResolved = device.isConnected && device.isResolved
    isBound = device.isPaired || device.isTrusted
  }

  /// The limit of bytes that wait in the connection's sockets.
  private var backlog: Backlog { central?.backlog(of: device) ?? .short }

  /// Whether the link is being ended.
  var isEnding: Bool { if case .disconnecting = state { true } else { false } }

  // MARK: Connecting

  func start() {
    let changed = SignalMatch(
      sender: BlueZName.service, pathNamespace: device, interface: BlueZName.properties, member: "PropertiesChanged",
      arg0: BlueZName.gattCharacteristic)
    signals = bus.subscribe(changed) { [weak self] in self?.valueChanged($0) }
    guard isShared else { return connect() }
    // Events are never sent from within a call of the service.
    EventLoop.shared.soon { [weak self] in
      guard let self, state == .connecting else { return }
      opened()
    }
  }

  private func connect() {
    attempts += 1
    bus.call(place.owner, device, BlueZName.device, "Connect", timeout: Self.connectTime) { [weak self] result in
      guard let self, state == .connecting else { return }
      switch result {
      case .success: opened()
      case .failure(let error) where error.name == BlueZName.Failure.alreadyConnected: opened()
      case .failure(let error) where attempts < Self.attemptLimit && CentralWords.isPassing(error):
        Log.shared.debug("Connecting to the peer failed; another attempt follows: \(error)", .link(id))
        retry = scheduler.schedule(after: Self.retryTime) { [weak self] in self?.connect() }
      case .failure where isConnectionTold: opened()
      // The attempt belongs to another program, which also ends it.
      case .failure(let error) where error.name == BlueZName.Failure.inProgress:
        refuse(CentralWords.connecting(to: address, within: Self.connectTime, error))
      case .failure(let error): fail(CentralWords.connecting(to: address, within: Self.connectTime, error))
      }
    }
  }

  /// Uses a link that the peer made while our attempt was under way. bluetoothd then continues its attempt, which never
  /// succeeds.
  private func lookForCrossing() {
    guard isConnectionTold else {
      timer = nil
      return
    }
    guard timer == nil else { return }
    timer = scheduler.schedule(after: Self.crossingTime) { [weak self] in
      guard let self, state == .connecting else { return }
      Log.shared.debug("The peer has connected during this machine's attempt to connect", .link(id))
      timer = nil
      opened()
    }
  }

  private func opened() {
    (timer, retry) = (nil, nil)
    guard central?.opened(self) == true else { return fail("The link to \(address) exceeds the limit of links.") }
    state = .open
    if !isResolved {
      timer = scheduler.schedule(after: Self.resolveTime) { [weak self] in
        guard let self else { return }
        fail("The services of \(address) were not discovered within \(Self.resolveTime.components.seconds) s.")
      }
    }
    tell(.connected)
    drain()
  }

  /// Handles changed properties of the peer.
  func changed(_ device: Device) {
    isBound = device.isPaired || device.isTrusted
    switch state {
    case .connecting:
      if isShared, !device.isConnected { return close("The link to \(address) was lost.") }
      isConnectionTold = device.isConnected
      isResolved = device.isConnected && device.isResolved
      if !isShared { lookForCrossing() }
    case .open:
      if device.isConnected { isConnectionTold = true }
      guard device.isConnected || !isConnectionTold else { return close("The link to \(address) was lost.") }
      guard device.isResolved, !isResolved else { return }
      isResolved = true
      timer = nil
      drain()
    case .disconnecting(let reason): if !device.isConnected { close(reason) }
    case .closed: break
    }
  }

  /// Handles a characteristic that bluetoothd has removed. If the link continues, the peer has changed its services, or
  /// bluetoothd was restarted and has read them again. This connection's database is then outdated.
  func removed(characteristic path: ObjectPath) {
    guard state == .open, subscriptions[path] != nil || streams[path] != nil, timer == nil else { return }
    timer = scheduler.schedule(after: Self.endingTime) { [weak self] in
      guard let self else { return }
      fail(CentralWords.changed(address))
    }
  }

  // MARK: Ending

  func linkEnded() { lost("The link to \(address) was lost.") }

  /// Ends the connection because the peer, the adapter or bluetoothd is gone.
  func lost(_ reason: String) {
    if case .disconnecting(let reason) = state { close(reason) } else { close(reason) }
  }

  /// Reports that the connection cannot begin, with the reason.
  func refuse(_ reason: String) {
    close(reason, isLinkEnding: false)
  }

  /// Handles a service that no longer uses the connection.
  func disconnect() {
    giveUp("Disconnected.")
  }

  /// Ends the connection for a reason of this program.
  private func fail(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    Log.shared.debug("The connection is abandoned: \(reason)", .link(id))
    giveUp(reason)
  }

  /// Removes the peer from bluetoothd, which uses an outdated database and would use it for each later link. The
  /// removal ends the link, in either role. If an earlier removal did not help, a link that the peer uses stays up,
  /// without this connection.
  ///
  /// - Returns: false if the peer is paired or trusted.
  func takeAway() -> Bool {
    guard state == .open, !isBound, let central else { return false }
    let reason = CentralWords.changed(address)
    guard central.mayTakeAway(device) else {
      fail(reason)
      return true
    }
    close(reason, isLinkEnding: false)
    central.takeAway(self)
    return true
  }

  private func giveUp(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    if central?.mayCut(self) == true { cut(reason) } else { leave(reason) }
  }

  /// Ends this use of a link that stays up.
  private func leave(_ reason: String) {
    central?.owe(self)
    close(reason, isLinkEnding: false)
  }

  /// Ends the subscriptions, also after the end of the link. bluetoothd stores a subscription for 30 s. A peer that
  /// returns in that time would notify values instead of writing them.
  private func endSubscriptions() {
    for path in subscriptions.keys.sorted(by: { $0.string < $1.string })
    where central?.isSubscribed(path, beside: self) != true {
      bus.call(place.owner, path, BlueZName.gattCharacteristic, "StopNotify") { _ in }
    }
    subscriptions = [:]
  }

  /// Requests that bluetoothd disconnects the peer, and reports the end of the link at once.
  func cut(_ reason: String) {
    end(reason)
    timer = scheduler.schedule(after: Self.disconnectTime) { [weak self] in self?.close(reason) }
    bus.call(place.owner, device, BlueZName.device, "Disconnect") { [weak self] result in
      if case .failure(let error) = result { Log.shared.debug("bluetoothd answered Disconnect with \(error)") }
      self?.close(reason)
    }
    central?.forget(self)
  }

  /// Marks the link as being ended, and drops all operations.
  func end(_ reason: String) {
    guard state == .connecting || state == .open else { return }
    state = .disconnecting(reason: reason)
    retry = nil
    window.removeAll()
  }

  private func close(_ reason: String, isLinkEnding: Bool = true) {
    guard state != .closed else { return }
    let isCut = isEnding
    state = .closed
    endStreams()
    endSubscriptions()
    if isLinkEnding, !isCut { central?.forget(self) }
    window.removeAll()
    signals = nil
    (timer, retry) = (nil, nil)
    database = nil
    central?.closed(self)
    // Events are never sent from within a call of the service.
    EventLoop.shared.soon { [self] in
      handler?(.disconnected(reason: reason))
      handler = nil
    }
  }

  // MARK: Events

  private func tell(_ event: LinkEvent) {
    guard state == .open else { return }
    handler?(event)
  }

  private func tell(_ events: [LinkEvent]) {
    for event in events { tell(event) }
  }

  // MARK: Operations

  /// Accepts an operation of the service. No event is sent from within this call.
  func submit(_ operation: WriteWindow.Operation) {
    guard state == .connecting || state == .open else { return }
    guard window.add(operation) else {
      return fail("More than \(WriteWindow.waitingLimit) operations wait for \(address).")
    }
    drain()
  }

  /// Sends the operations that may be sent, once the peer's database is known.
  private func drain() {
    guard state == .open, isResolved else { return }
    guard database != nil else {
      if !isReading { readDatabase { $0.isDatabaseNew = true } }
      return
    }
    while state == .open, let (number, operation) = window.next() { perform(operation, number) }
  }

  private func perform(_ operation: WriteWindow.Operation, _ number: UInt64) {
    let isNew = isDatabaseNew
    isDatabaseNew = false
    switch operation {
    case .discover:
      if isNew {
        finishSoon(number, .discovered(database?.services ?? []))
      } else {
        readDatabase { $0.finish(number, .discovered($0.database?.services ?? [])) }
      }
    case .exchangeMTU: askMTU(number)
    case .subscribe(let id): subscribe(id, number)
    case .write(let value, let id, let kind): write(value, id, kind, number)
    }
  }

  private func finish(_ number: UInt64, _ event: LinkEvent) {
    guard state == .open else { return }
    tell(window.finish(number, event))
    drain()
  }

  private func finishSoon(_ number: UInt64, _ event: LinkEvent) {
    EventLoop.shared.soon { [weak self] in self?.finish(number, event) }
  }

  private func call(
    _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = [],
    then: @escaping @LoopActor (CentralConnection, Result<[DBusValue], DBusError>) -> Void
  ) {
    bus.call(place.owner, path, interface, method, arguments, timeout: Self.answerTime) { [weak self] result in
      guard let self, state == .open else { return }
      then(self, result)
    }
  }

  // MARK: Database of the peer

  private func readDatabase(then: @escaping @LoopActor (CentralConnection) -> Void) {
    isReading = true
    call(.root, BlueZName.objectManager, "GetManagedObjects") { (self, result) in
      self.isReading = false
      switch result {
      case .success(let values):
        let database = RemoteDatabase(values.first?.asDictionary ?? [:], of: self.device)
        self.counters.malformed += database.malformed
        self.database = database
        self.mtu = database.mtu ?? self.mtu
        then(self)
        self.drain()
      case .failure(let error):
        self.fail("bluetoothd did not return the services of \(self.address): \(error.message)")
      }
    }
  }

  /// Reads the MTU. bluetoothd has already negotiated the largest one when it connected.
  private func askMTU(_ number: UInt64) {
    guard let path = database?.paths.values.min(by: { $0.string < $1.string }) else {
      return finishSoon(number, .mtuChanged(mtu))
    }
    let property: [DBusValue] = [.string(BlueZName.gattCharacteristic), .string("MTU")]
    call(path, BlueZName.properties, "Get", property) { (self, result) in
      if case .success(let values) = result {
        if let mtu = values.first.flatMap(ATT.mtu) { self.mtu = mtu } else { self.counters.malformed += 1 }
      }
      self.finish(number, .mtuChanged(self.mtu))
    }
  }

  /// Ends the link if an error shows that the known database of the peer is outdated.
  ///
  /// - Returns: whether the error shows this.
  private func endsWhereOutdated(_ error: DBusError) -> Bool {
    if error.isOfGoneObject {
      fail(CentralWords.changed(address))
      return true
    }
    return CentralWords.isOfOldHandle(error) && takeAway()
  }

  // MARK: Values of the peer

  /// Subscribes to a characteristic. A refused subscription is not an error: the peer may send values anyway, and the
  /// service detects missing values.
  private func subscribe(_ id: CharacteristicID, _ number: UInt64) {
    guard let path = database?.paths[id] else {
      Log.shared.debug("The peer has no characteristic \(id.characteristic.description)", .link(self.id))
      return finishSoon(number, .subscribed(id))
    }
    subscriptions[path] = id
    call(path, BlueZName.gattCharacteristic, "StartNotify") { (self, result) in
      if case .failure(let error) = result {
        let characteristic = id.characteristic.description
        Log.shared.debug("bluetoothd answered StartNotify of \(characteristic) with \(error)", .link(self.id))
        if self.endsWhereOutdated(error) { return }
      }
      self.finish(number, .subscribed(id))
    }
  }

  private func valueChanged(_ message: Message) {
    guard state == .open, let path = message.path, message.arguments.count == 3 else { return }
    // `Notifying` and other properties change, too.
    guard let value = message.arguments[1]["Value"], let id = subscriptions[path] else { return }
    guard let bytes = value.asBytes, bytes.count <= ATT.valueLimit else {
      counters.malformed += 1
      return
    }
    tell(.notified(id, bytes))
  }

  // MARK: Writing

  private func write(_ value: [UInt8], _ id: CharacteristicID, _ kind: WriteKind, _ number: UInt64) {
    guard let path = database?.paths[id] else { return finishSoon(number, .written(id, error: .unlikely)) }
    // bluetoothd would split a longer request, which few peers reassemble, and refuse a longer command.
    guard value.count <= ATT.valueLimit(mtu: mtu) else {
      return finishSoon(number, .written(id, error: .invalidLength))
    }
    switch kind {
    case .request: write(value, id, at: path, "request", number)
    case .command: write(value, id, at: path, "command", number)
    case .stream: stream(value, id, at: path, number)
    }
  }

  private func write(_ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, _ type: String, _ number: UInt64) {
    let options: [String: DBusValue] = ["type": .string(type)]
    call(path, BlueZName.gattCharacteristic, "WriteValue", [.bytes(value), .options(options)]) { (self, result) in
      switch result {
      case .success: self.finish(number, .written(id, error: nil))
      case .failure(let error) where error.is(.timeout) || error.is(.noReply):
        self.fail("\(self.address) did not answer a write within \(Self.answerTime.components.seconds) s.")
      case .failure(let error):
        Log.shared.debug("bluetoothd answered WriteValue with \(error)", .link(self.id))
        if self.endsWhereOutdated(error) { return }
        self.finish(number, .written(id, error: ATTError(answeredWith: error)))
      }
    }
  }

  // MARK: Streams (facts: bluez.md section 3)

  /// Whether both ends support several ATT channels.
  private var hasChannels: Bool { bearers.areSeveral && database?.takesChannels == true }

  /// Maximum bytes of a write to the peer. A peer that runs BlueZ with several channels may lose longer writes:
  /// releases before 5.69 have both properties, and later ones rarely open several channels.
  var writeLimit: Int {
    bearers.losesLongWrites || database?.takesChannels == true ? Bearers.shortWrite : ATT.valueLimit
  }

  /// Sends a value through the characteristic's socket, if there is one, no earlier operation is pending, and the
  /// socket has capacity.
  func streamNow(_ value: [UInt8], to id: CharacteristicID) -> Bool {
    guard state == .open, window.isEmpty, !value.isEmpty, value.count <= ATT.valueLimit(mtu: mtu),
      let path = database?.paths[id], case .socket(let socket)? = streams[path]
    else { return false }
    return socket.send(value) == .sent
  }

  private func stream(_ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, _ number: UInt64) {
    switch streams[path] {
    case .socket(let socket): send(value, id, at: path, by: socket, number)
    case .commands: write(value, id, at: path, "command", number)
    case .requests: write(value, id, at: path, "request", number)
    case .firstRequests(let left) where left > 0:
      streams[path] = .firstRequests(left: left - 1)
      write(value, id, at: path, "request", number)
    case .firstRequests: acquire(value, id, at: path, number)
    case nil where hasChannels:
      Log.shared.debug("Both ends support several channels: streamed values are written with response", .link(self.id))
      streams[path] = .requests
      write(value, id, at: path, "request", number)
    case nil:
      streams[path] = .firstRequests(left: database?.takesRequests(id) == true ? Self.firstRequests : 0)
      stream(value, id, at: path, number)
    }
  }

  private func acquire(_ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, _ number: UInt64) {
    call(path, BlueZName.gattCharacteristic, "AcquireWrite", [.options([:])]) { (self, result) in
      if case .success(let values) = result, let end = values.first?.asDescriptor,
        let socket = try? PacketSocket(owning: end, buffer: self.backlog.bytes)
      {
        self.streams[path] = .socket(socket)
      } else {
        if case .failure(let error) = result {
          Log.shared.debug("bluetoothd answered AcquireWrite with \(error)", .link(self.id))
        }
        self.streams[path] = .commands
      }
      self.stream(value, id, at: path, number)
    }
  }

  private func send(
    _ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, by socket: PacketSocket, _ number: UInt64
  ) {
    // bluetoothd treats an empty packet as the end of the stream.
    guard !value.isEmpty else { return finishSoon(number, .written(id, error: .invalidLength)) }
    switch socket.send(value) {
    case .sent: finishSoon(number, .written(id, error: nil))
    case .tooLong: finishSoon(number, .written(id, error: .invalidLength))
    case .full:
      // A socket that bluetoothd closes never reports capacity; sending detects the end.
      let again: @LoopActor () -> Void = { [weak self, weak socket] in
        guard let self, let socket, state == .open else { return }
        (socket.onRoom, socket.onHangUp) = (nil, nil)
        send(value, id, at: path, by: socket, number)
      }
      (socket.onRoom, socket.onHangUp) = (again, again)
    case .closed:
      // bluetoothd closes a socket together with the peer's services, which may reappear.
      socket.close()
      streams[path] = .commands
      write(value, id, at: path, "command", number)
    }
  }

  func limitStreams(to backlog: Backlog) {
    for case .socket(let socket) in streams.values { socket.limit(to: backlog.bytes) }
  }

  private func endStreams() {
    for case .socket(let socket) in streams.values { socket.close() }
    streams = [:]
  }
}

/// Properties of the ATT bearers that depend on the versions at both ends.
struct Bearers: Hashable, Sendable {
  /// Whether our bluetoothd opens several ATT channels with a peer that supports them.
  var areSeveral = false
  /// Whether our bluetoothd loses received writes of more than `shortWrite` bytes.
  var losesLongWrites = false

  /// Maximum bytes of a write that bluetoothd before 5.69 accepts: one less than correct, including the attribute's
  /// handle.
  static let shortWrite = 509
}

/// The method for values that are streamed to a characteristic.
private enum StreamWay {
  /// By D-Bus calls, as requests, for the remaining `left` first values of a link. At the second value a bluetoothd
  /// from 5.76 on requests a socket from its service, and corrupts other writes of the same client meanwhile.
  case firstRequests(left: Int)
  /// By a socket of this characteristic that bluetoothd reads: several times faster than calls.
  case socket(PacketSocket)
  /// By D-Bus calls, as commands, because bluetoothd gave no socket.
  case commands
  /// By D-Bus calls, as requests: with several channels bluetoothd loses commands while a channel opens or closes.
  case requests
}

/// The handle of a link in the central role; releasing it ends the link.
@LoopActor
final class CentralLink: Link {
  let id: LinkID
  private let connection: CentralConnection
  private let registration: Registration

  init(_ connection: CentralConnection) {
    id = connection.id
    self.connection = connection
    registration = Registration { connection.disconnect() }
  }

  func discover() { connection.submit(.discover) }

  func exchangeMTU(_ mtu: Int) { connection.submit(.exchangeMTU) }

  func subscribe(to characteristic: CharacteristicID) { connection.submit(.subscribe(characteristic)) }

  func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
    connection.submit(.write(value, characteristic, kind))
  }

  func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool {
    connection.streamNow(value, to: characteristic)
  }

  var writeLimit: Int { connection.writeLimit }

  func disconnect() { registration.cancel() }
}
