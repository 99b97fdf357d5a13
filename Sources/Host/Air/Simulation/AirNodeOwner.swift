import Common
import Loop
import Radio

/// Answers a request with nil for success or an error. Only the first call counts.
typealias AirAnswer = @LoopActor (ATTError?) -> Void

/// The delegate of a node whose program is at the other end of the hub's socket. Its answers are asynchronous, and it
/// needs more data than `RadioDriverDelegate` receives.
@LoopActor
protocol AirNodeOwner: RadioDriverDelegate {
  /// Replaces `written` of the port. `answer` is nil for a command.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID,
    answer: AirAnswer?)
  /// Replaces `heard` of the port, with the encoded payloads.
  func heard(_ advertisement: EncodedAdvertisement, of address: BluetoothAddress, rssi: Int?)
  func addressChanged(_ address: BluetoothAddress)
}

extension AirNodeOwner {
  /// Not called: a node passes the value with a closure for the answer instead.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError) {
    throw .unlikely
  }

  /// Ignored: the program at the other end knows what it advertises.
  func onAir(_ advertisement: Advertisement?, in slot: Int) {}

  /// Not called: a node passes the encoded payloads instead.
  func heard(_ scanResult: ScanResult) {}

  /// Not called: an attempt to connect to an absent node fails by itself.
  func forgot(_ address: BluetoothAddress) {}
}
