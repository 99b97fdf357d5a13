import Common
import Loop
import Radio

/// The handle on an application that is served; dropping it closes it.
@LoopActor
final class BlueZServer: GATTServer {
  private let radio: BlueZRadio
  private let number: Int
  private let registration: Registration

  init(_ radio: BlueZRadio, _ number: Int, _ registration: Registration) {
    self.radio = radio
    self.number = number
    self.registration = registration
  }

  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to link: LinkID) {
    radio.notify(value, of: characteristic, to: link, from: number)
  }

  func disconnect(_ link: LinkID) {
    radio.disconnect(link, for: number)
  }

  func close() {
    registration.cancel()
  }
}
