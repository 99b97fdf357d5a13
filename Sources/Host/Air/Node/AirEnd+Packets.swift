import Common
import Loop
import Radio

/// The transmission of values between the two ends of a link.
extension AirEnd {
  /// Sends a value, subject to the filter and to random loss. `then` is called at the arrival time, even if the value
  /// is lost.
  func transmit(
    _ kind: AirPacket.Kind, _ value: [UInt8], _ characteristic: CharacteristicID, then: @escaping @LoopActor () -> Void
  ) {
    let conditions = conditions
    var packet = AirPacket(
      kind: kind, from: address, to: peerAddress, link: centralID, characteristic: characteristic, value: value,
      number: outgoing.nextNumber())
    let arrival = outgoing.reserve(from: now, conditions.latency)
    let verdict = conditions.filter?(packet) ?? .deliver
    let fate = AirFate(of: &packet, verdict, conditions, &air.generator)
    air.agenda.at(arrival) { [self, packet] in
      if fate.delay == .zero {
        arrive(packet, fate)
      } else {
        air.agenda.at(now.advanced(by: fate.delay)) { [self] in arrive(packet, fate) }
      }
      then()
    }
  }

  private func arrive(_ packet: AirPacket, _ fate: AirFate) {
    if fate.isOvertaken, outgoing.hold(packet) {
      let longest = conditions.latency + conditions.latency + .milliseconds(1)
      air.agenda.at(now.advanced(by: longest)) { [self] in
        if let packet = outgoing.release(packet.number) { peer?.receive(packet) }
      }
      return
    }
    for _ in 0..<fate.copies { peer?.receive(packet) }
    if fate.copies > 0, let held = outgoing.release() { peer?.receive(held) }
    if fate.copies == 0, packet.kind == .indication { awaitConfirmationInVain() }
  }

  private func awaitConfirmationInVain() {
    air.agenda.at(now.advanced(by: conditions.requestTimeout)) { [self] in
      close("An indication was not confirmed.", forPeer: Self.peerDisconnected)
    }
  }
}
