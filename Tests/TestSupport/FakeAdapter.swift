import DBus

/// A simulated Bluetooth adapter of `FakeBlueZ`.
public struct FakeAdapter {
  public let address: String
  public internal(set) var isPowered: Bool
  public let roles: [String]
  var isComplete = true
  public internal(set) var powerState: String?
  /// Number of advertisements of other programs.
  var activeInstances: UInt8 = 0
  var objects: [Object] = []

  struct Object {
    let exported: ExportedObject
    let interface: Interface

    func has(_ property: String) -> Bool { interface.properties.contains { $0.name == property } }
  }

  init(address: String, isPowered: Bool, roles: [String]) {
    self.address = address
    self.isPowered = isPowered
    self.roles = roles
  }
}
