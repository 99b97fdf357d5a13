import Common
import Loop
import Radio

/// An application that a node serves.
@LoopActor
final class AirApplication {
  let number: ApplicationID
  let services: [GATTService]
  let characteristics: [CharacteristicID: GATTCharacteristic]
  /// Whether peers can discover it.
  var isServed = false
  /// The pending registration, after which peers can discover the application.
  var registering: TimedQueue.Ticket?

  init(_ number: ApplicationID, _ application: GATTApplication) {
    self.number = number
    services = application.services
    characteristics = application.characteristics
  }

  /// Whether a characteristic requires values to reach single clients only.
  var needsExactReach: Bool { characteristics.values.contains { $0.reach == .exact } }
}
