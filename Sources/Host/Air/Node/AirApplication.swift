import Common
import Loop
import Radio

/// An application that a node serves.
@LoopActor
final class AirApplication {
  let number: ApplicationID
  let services: [GATTService]
  let characteristics: [CharacteristicID: GATTCharacteristic]
  /// Whether peers find it.
  var isServed = false
  /// When peers will find it.
  var registering: TimedQueue.Ticket?

  init(_ number: ApplicationID, _ application: GATTApplication) {
    self.number = number
    services = application.services
    characteristics = application.characteristics
  }

  /// Whether a value of it must reach single clients.
  var needsExactReach: Bool { characteristics.values.contains { $0.reach == .exact } }
}
