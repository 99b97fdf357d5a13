import DBus

/// A peer of `FakeBlueZ`.
public struct FakeDevice {
  public let address: String
  public internal(set) var isConnected: Bool
  public let isPaired: Bool
  var object: ExportedObject?

  init(address: String, isConnected: Bool, isPaired: Bool) {
    self.address = address
    self.isConnected = isConnected
    self.isPaired = isPaired
  }
}
