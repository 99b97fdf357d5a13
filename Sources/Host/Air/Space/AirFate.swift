/// The effects of the filter and of random loss on a packet.
struct AirFate: Sendable {
  private(set) var copies = 1
  private(set) var delay = Duration.zero
  private(set) var isOvertaken = false

  init(
    of packet: inout AirPacket, _ verdict: AirVerdict, _ conditions: AirConditions, _ generator: inout SplitMix64
  ) {
    switch verdict {
    case .deliver: break
    case .drop: copies = 0
    case .duplicate: copies = 2
    case .delay(let time): delay = max(.zero, time)
    case .corrupt(let value): packet.value = value
    }
    let loss: Double
    switch packet.kind {
    case .request, .indication: return
    case .command: loss = conditions.commandLoss
    case .notification: loss = conditions.notificationLoss
    }
    if generator.chance(loss) {
      copies = 0
    } else {
      if generator.chance(conditions.duplicate) { copies *= 2 }
      isOvertaken = copies > 0 && generator.chance(conditions.reorder)
    }
  }
}
