import Common
import Loop

/// A GATT application that is being served.
@LoopActor
public protocol GATTServer: AnyObject {
  /// Sends `value` to the client of `link`, by indication where it subscribed to that, else by notification. Lost in
  /// silence when the link is gone. On BlueZ, other subscribers of the characteristic may hear it too.
  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to link: LinkID)

  /// Cuts the link; the delegate hears `linkClosed`.
  func disconnect(_ link: LinkID)

  /// Stops serving. No delegate call comes after it.
  func close()
}

/// Who answers for a GATT application.
@LoopActor
public protocol GATTServerDelegate: AnyObject {
  /// A central has connected. Links that were there before the application are not reported until they write.
  func linkOpened(_ link: LinkID, address: BluetoothAddress)

  /// The ATT MTU of a link is known or has changed.
  func linkChanged(_ link: LinkID, mtu: Int)

  /// A client has written. `linkOpened` and, where the radio knows it, `linkChanged` came before.
  ///
  /// - Throws: what a write request is answered with; a write command is never answered.
  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError)

  func linkClosed(_ link: LinkID)
}
