/// What an older release of BlueZ costs. Facts: bluez.md section 12.
struct BlueZLimit: Hashable, Sendable {
  /// The first release without it.
  let until: BlueZVersion
  /// A sentence for a person, with what this service makes of it.
  let consequence: String
  /// Whether it does not matter with the management socket.
  var isLiftedByManagement = false

  /// The first release that puts the scan response of an `LEAdvertisement1` on the air.
  static let scanResponses = BlueZVersion(5, 80)
  /// The first release that takes a socket for each client that subscribes (`AcquireNotify`).
  static let separateClients = BlueZVersion(5, 76)

  static let table: [BlueZLimit] = [
    BlueZLimit(
      until: BlueZVersion(5, 69),
      consequence: "Writes of 511 and 512 bytes are lost."),
    BlueZLimit(
      until: BlueZVersion(5, 74),
      consequence: "bluetoothd crashes when an adapter that was made discoverable is switched off while bluetoothd"
        + " advertises. This service makes no adapter discoverable.",
      isLiftedByManagement: true),
    BlueZLimit(
      until: separateClients,
      consequence:
        "bluetoothd sends each value to all clients that subscribed. A value for one of them goes by raw HCI,"
        + " where its service needs that."),
    BlueZLimit(
      until: scanResponses,
      consequence: "bluetoothd puts nothing but a name into the scan response.",
      isLiftedByManagement: true),
    BlueZLimit(
      until: BlueZVersion(5, 82),
      consequence: "Writes and notifications may change their order with a peer that opens several channels (EATT), as"
        + " another BlueZ does and phones do not."),
  ]

  /// What `version` costs.
  static func sentences(_ version: BlueZVersion?, hasManagement: Bool) -> [String] {
    guard let version else { return [] }
    return table.filter { version < $0.until && !(hasManagement && $0.isLiftedByManagement) }.map(\.consequence)
  }
}
