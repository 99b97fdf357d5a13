import Common
import Loop
import Radio

extension AirConnection {
  func notify(_ value: [UInt8], of characteristic: CharacteristicID, from application: AirApplication) {
    guard state == .open, let properties = application.properties[characteristic],
      !properties.isDisjoint(with: [.notify, .indicate])
    else { return }
    let isSubscribed = subscriptions.contains(characteristic)
    guard isSubscribed || conditions.deliverUnsubscribed else { return }
    let limit = min((serverMTU ?? Self.firstMTU) - Self.overhead, Self.valueLimit)
    let isIndication = isSubscribed && !properties.contains(.notify)
    transmit(
      isIndication ? .indication : .notification, Array(value.prefix(limit)), characteristic, over: \.toClient, then: {}
    )
    // The confirmation has to come before the next one may go.
    if isIndication { _ = toClient.reserve(from: now, conditions.latency) }
  }

  /// Sends a value through the filter and the dice. `then` is called after its arrival, or when it would have arrived.
  func transmit(
    _ kind: AirPacket.Kind, _ value: [UInt8], _ characteristic: CharacteristicID,
    over channel: ReferenceWritableKeyPath<AirConnection, AirChannel>, then: @escaping @LoopActor () -> Void
  ) {
    let conditions = conditions
    let isFromClient = kind == .request || kind == .command
    var packet = AirPacket(
      kind: kind, from: isFromClient ? central.address : target, to: isFromClient ? target : central.address,
      link: clientID, characteristic: characteristic, value: value, number: self[keyPath: channel].nextNumber())
    let arrival = self[keyPath: channel].reserve(from: now, conditions.latency)
    let verdict = conditions.filter?(packet) ?? .deliver
    let fate = AirFate(of: &packet, verdict, conditions, &air.generator)
    air.agenda.at(arrival) { [self, packet] in
      if fate.delay == .zero {
        arrive(packet, fate, over: channel)
      } else {
        air.agenda.at(now.advanced(by: fate.delay)) { [self] in arrive(packet, fate, over: channel) }
      }
      then()
    }
  }

  private func arrive(
    _ packet: AirPacket, _ fate: AirFate, over channel: ReferenceWritableKeyPath<AirConnection, AirChannel>
  ) {
    if fate.isOvertaken, self[keyPath: channel].hold(packet) {
      let longest = conditions.latency + conditions.latency + .milliseconds(1)
      air.agenda.at(now.advanced(by: longest)) { [self] in
        if let packet = self[keyPath: channel].release(packet.number) { receive(packet) }
      }
      return
    }
    for _ in 0..<fate.copies { receive(packet) }
    if fate.copies > 0, let held = self[keyPath: channel].release() { receive(held) }
    if fate.copies == 0, packet.kind == .indication { neverConfirmed() }
  }

  private func neverConfirmed() {
    air.agenda.at(now.advanced(by: conditions.requestTimeout)) { [self] in
      close(reason: "The peer has disconnected.", by: .server)
    }
  }

  private func receive(_ packet: AirPacket) {
    guard state == .open else { return }
    switch packet.kind {
    case .notification, .indication: handler?(.notified(packet.characteristic, packet.value))
    case .request: receive(packet, property: .write) { [self, lastRequest] error in answer(lastRequest, error) }
    case .command: receive(packet, property: .writeWithoutResponse, answer: nil)
    }
  }

  private func receive(_ packet: AirPacket, property: GATTCharacteristic.Properties, answer: AirAnswer?) {
    guard let application = peripheral?.application(with: packet.characteristic) else {
      answer?(.unlikely)
      return
    }
    guard application.properties[packet.characteristic]?.contains(property) == true else {
      answer?(.writeNotPermitted)
      return
    }
    introduce(to: application)
    guard state == .open else { return }
    if packet.kind == .request { request?.application = application }
    application.written(packet.value, to: packet.characteristic, on: serverID, answer: answer)
  }
}
