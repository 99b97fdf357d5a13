import DBus

/// An advertisement that is registered with `FakeBlueZ`.
public struct FakeAdvertisement: Sendable {
  public let owner: String
  public let path: ObjectPath
  public let adapter: String
  /// The properties of its `LEAdvertisement1`.
  public internal(set) var values: [String: DBusValue] = [:]
  /// Whether the controller sends it: not after a peer has connected, and not after the adapter was powered off.
  public internal(set) var isOnAir = false

  init(owner: String, path: ObjectPath, adapter: String) {
    self.owner = owner
    self.path = path
    self.adapter = adapter
  }
}
