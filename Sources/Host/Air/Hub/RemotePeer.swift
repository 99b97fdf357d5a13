import Common
import Radio

/// What a program knows of a link that is up, so that it can say at once what becomes of a value.
struct RemotePeer {
  /// The link as the hub numbers it.
  let hubLink: LinkID
  let address: BluetoothAddress
  let traits: AirLinkTraits
  /// What the peer has subscribed to, and in which application.
  private var subscriptions: [CharacteristicID: ApplicationID] = [:]
  /// Values that have not gone out, as far as this program knows.
  private var underWay = 0
  /// Whether a value was refused because there was no room.
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

  /// Whether a value can reach the peer at all.
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
