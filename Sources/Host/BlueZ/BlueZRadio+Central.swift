import Common
import Loop
import Radio

/// The radio as a central.
extension BlueZRadio {
  /// No service at all means every advertiser. One that bluetoothd knows from before is reported when it is heard again.
  public func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (Sighting) -> Void
  ) throws(RadioError) -> Registration {
    central.scanner.scan(for: services, handler)
  }

  /// bluetoothd waits some 20 s for the peer to advertise, and agrees on the ATT MTU by itself: `exchangeMTU` tells which
  /// it is. One link to a peer at a time: a second one ends at once.
  ///
  /// - Throws: `RadioError.notReady` without an adapter, or with too many links.
  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard place != nil else { throw .notReady(status.reason) }
    return try central.connect(to: address, known: { daemon.devices[$0] }, handler)
  }
}
