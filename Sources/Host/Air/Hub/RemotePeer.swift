import Common
import Radio

/// The state of a link that is up, so that a program can report the result of a value immediately.
struct RemotePeer {
  /// The hub's number of the link.
  let hubLink: LinkID
  let address: BluetoothAddress
  let traits: AirLinkTraits
  /// The peer's subscriptions, with the application of each.
  private var subscriptions: [CharacteristicID: ApplicationID] = [:]
  /// Number of values that are not reported as transmitted.
  private var underWay = 0
  /// Whether a value was refused because the link was full.
  var wasFull = false

  init(_ hubLink: LinkID, _ address: BluetoothAddress, _ traits: AirLinkTraits) {
    self.hubLink = hubLink
    self.address = address
    self.traits = traits
  }

  /// Whether one more value may be sent.
  var hasRoom: Bool { traits.notifyWindow == 0 || underWay < Int(traits.notifyWindow) }

  func hasSubscribed(to characteristic: CharacteristicID, in application: ApplicationID) -> Bool {
    subscriptions[characteristic] == application
  }

  /// Whether a value can reach the peer.
  func hears(
    _ characteristic: CharacteristicID, of application: ApplicationID, _ reach: GATTCharacteristic.Reach,
    hasRawHCI: Bool
  ) -> Bool {
    hasSubscribed(to: characteristic, in: application) || hasRawHCI && (reach == .exact || traits.hearsUnsubscribed)
  }

  mutating func used(_ application: ApplicationID, _ use: Use) {
    switch use {
    case .read: break
    case .subscribed(let characteristic): subscriptions[characteristic] = application
    case .unsubscribed(let characteristic): subscriptions[characteristic] = nil
    }
  }

  mutating func ended(_ application: ApplicationID) {
    subscriptions = subscriptions.filter { $0.value != application }
  }

  mutating func sent() {
    if traits.notifyWindow != 0 { underWay += 1 }
  }

  mutating func gone(_ count: Int) {
    underWay = max(0, underWay - count)
  }
}
