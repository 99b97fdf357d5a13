import Common
import Loop
import Radio

/// An attempt of a node to connect to an address, until there is a link or the attempt has failed.
@LoopActor
final class AirAttempt {
  let node: AirRadio
  let target: BluetoothAddress
  /// The identity that the link will have at this node.
  let id: LinkID
  let client: AirClient
  var timeout: TimedQueue.Ticket?
  /// When the link comes up, if all stays as it is.
  var moment: TimedQueue.Ticket?

  init(_ node: AirRadio, _ target: BluetoothAddress, _ id: LinkID, _ client: AirClient) {
    self.node = node
    self.target = target
    self.id = id
    self.client = client
  }

  /// The attempt has failed, or is given up.
  func end(_ reason: String) {
    node.air.stop(self)
    client.end(reason, in: node.air)
  }
}
