import Common
import Loop
import Radio

/// The GATT server role of a node on a link.
extension AirEnd {
  /// Sets the negotiated MTU. Each end calls this at its own time.
  func agreed(on mtu: Int) {
    self.mtu = mtu
    node.delegate?.linkChanged(id, mtu: mtu)
  }

  /// The peer writes the CCCD of a characteristic, if it has one.
  func subscribe(to characteristic: CharacteristicID) {
    guard let application = node.application(with: characteristic),
      application.characteristics[characteristic]?.canNotify == true,
      subscriptions.updateValue(application.number, forKey: characteristic) != application.number
    else { return }
    node.delegate?.used(application.number, by: id, .subscribed(characteristic))
  }

  // MARK: Values from the peer

  func receive(_ packet: AirPacket) {
    guard isOpen else { return }
    switch packet.kind {
    case .notification, .indication: receiveNotification(packet)
    case .request:
      guard let client = peer else { return }
      let number = client.lastRequest
      receiveWrite(packet, property: .write) { error in client.answer(number, error) }
    case .command where packet.value.count > node.controller.longestWrite: break
    case .command: receiveWrite(packet, property: .writeWithoutResponse, answer: nil)
    }
  }

  private func receiveWrite(_ packet: AirPacket, property: GATTCharacteristic.Properties, answer: AirAnswer?) {
    guard let application = node.application(with: packet.characteristic) else {
      answer?(.unlikely)
      return
    }
    guard application.characteristics[packet.characteristic]?.properties.contains(property) == true else {
      answer?(.writeNotPermitted)
      return
    }
    if packet.kind == .request { peer?.request?.application = application.number }
    node.written(packet.value, to: packet.characteristic, of: application.number, on: id, answer: answer)
  }

  private func receiveNotification(_ packet: AirPacket) {
    let hearsAll = conditions.deliverUnsubscribed
    for client in clients where hearsAll || client.subscriptions.contains(packet.characteristic) {
      client.happened(.notified(packet.characteristic, packet.value))
    }
  }

  /// Removes the state of an application that is no longer served.
  func applicationEnded(_ application: ApplicationID) {
    subscriptions = subscriptions.filter { $0.value != application }
    if let client = peer, let request = client.request, request.application == application {
      client.answer(request.number, .unlikely)
    }
  }

  // MARK: Values to the peer

  /// Whether a value of an application's characteristic can reach the peer.
  func reaches(_ characteristic: CharacteristicID, of application: ApplicationID, _ reach: GATTCharacteristic.Reach)
    -> Bool
  {
    subscriptions[characteristic] == application
      || node.controller.hasRawHCI && (reach == .exact || conditions.deliverUnsubscribed)
  }

  /// Whether one more value may be sent. If not, the delegate later receives `hasRoom`.
  func takesNotification() -> Bool {
    guard let window = conditions.notifyWindow, notifications >= max(1, window) else { return true }
    wasFull = true
    return false
  }

  /// - Parameter gone: called when the value has been transmitted.
  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, _ properties: GATTCharacteristic.Properties,
    then gone: @escaping @LoopActor () -> Void
  ) {
    let limit = ATT.valueLimit(mtu: mtu)
    let isIndication = subscriptions[characteristic] != nil && !properties.contains(.notify)
    notifications += 1
    transmit(isIndication ? .indication : .notification, Array(value.prefix(limit)), characteristic) { [self] in
      notifications -= 1
      gone()
      guard wasFull, isOpen else { return }
      wasFull = false
      node.delegate?.hasRoom(id)
    }
    // The confirmation must arrive before the next value is sent.
    if isIndication { _ = outgoing.reserve(from: now, conditions.latency) }
  }
}
