import Common
import DBus
import Journal
import Loop
import Radio

/// Operations on a link, and values that arrive over it.
extension CentralConnection {
  /// Accepts an operation of the service. No event is sent from within this call.
  func submit(_ operation: WriteWindow.Operation) {
    guard state == .connecting || state == .open else { return }
    guard window.add(operation) else {
      return fail("More than \(WriteWindow.waitingLimit) operations wait for \(address).")
    }
    drain()
  }

  /// Sends the operations that may be sent, once the peer's database is known.
  func drain() {
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

  func finishSoon(_ number: UInt64, _ event: LinkEvent) {
    EventLoop.shared.soon { [weak self] in self?.finish(number, event) }
  }

  func call(
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
        self.fail("bluetoothd does not say what \(self.address) serves: \(error.message)")
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
  /// - Returns: whether it does.
  private func endsWhereOutdated(_ error: DBusError) -> Bool {
    if CentralWords.isOfGoneObject(error) {
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
      Log.shared.debug("The peer has no \(id.characteristic.description) to subscribe to", .link(self.id))
      return finishSoon(number, .subscribed(id))
    }
    subscriptions[path] = id
    call(path, BlueZName.gattCharacteristic, "StartNotify") { (self, result) in
      if case .failure(let error) = result {
        Log.shared.debug("StartNotify of \(id.characteristic.description) was answered with \(error)", .link(self.id))
        if self.endsWhereOutdated(error) { return }
      }
      self.finish(number, .subscribed(id))
    }
  }

  func valueChanged(_ message: Message) {
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

  func write(_ value: [UInt8], _ id: CharacteristicID, at path: ObjectPath, _ type: String, _ number: UInt64) {
    let options: [String: DBusValue] = ["type": .string(type)]
    call(path, BlueZName.gattCharacteristic, "WriteValue", [.bytes(value), .options(options)]) { (self, result) in
      switch result {
      case .success: self.finish(number, .written(id, error: nil))
      case .failure(let error) where error.is(.timeout) || error.is(.noReply):
        self.fail("\(self.address) did not answer a write within \(Self.answerTime.components.seconds) s.")
      case .failure(let error):
        Log.shared.debug("WriteValue was answered with \(error)", .link(self.id))
        if self.endsWhereOutdated(error) { return }
        self.finish(number, .written(id, error: ATTError(answeredWith: error)))
      }
    }
  }
}
