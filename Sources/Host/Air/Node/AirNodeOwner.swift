import Common
import Loop
import Radio

/// Gives a request its answer: nil, or what it is refused with. Only the first one counts.
typealias AirAnswer = @LoopActor (ATTError?) -> Void

/// The delegate of a node whose program is at the other end of the hub's socket: its answers take time, and it needs more
/// than the port says.
@LoopActor
protocol AirNodeOwner: RadioDriverDelegate {
  /// Takes the place of `written` of the port. `answer` is nil for a command.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID,
    answer: AirAnswer?)
  /// Takes the place of `heard` of the port, with the payloads as they are on the air.
  func heard(_ advertisement: EncodedAdvertisement, of address: BluetoothAddress, rssi: Int?)
  func addressChanged(_ address: BluetoothAddress)
}

extension AirNodeOwner {
  /// Not called: a node hands over the closure for the answer instead.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError) {
    throw .unlikely
  }

  /// The program at the other end knows what it has sent.
  func onAir(_ advertisement: Advertisement?, in slot: Int) {}

  /// Not called: a node hands over the payloads instead.
  func heard(_ sighting: Sighting) {}

  /// Not called: an attempt at a node that is not there shows it by itself.
  func forgot(_ address: BluetoothAddress) {}
}
