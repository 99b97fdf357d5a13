import Common
import Loop
import Radio

/// A node's attempt to connect to an address, until the link is up or the attempt has failed.
@LoopActor
final class AirAttempt {
  let node: AirRadio
  let target: BluetoothAddress
  /// The identity that the link will have at this node.
  let id: LinkID
  let client: AirClient
  var timeout: TimedQueue.Ticket?
  /// The event at which the link comes up unless something changes.
  var moment: TimedQueue.Ticket?

  init(_ node: AirRadio, _ target: BluetoothAddress, _ id: LinkID, _ client: AirClient) {
    self.node = node
    self.target = target
    self.id = id
    self.client = client
  }

  /// Ends the attempt, which has failed or was cancelled.
  func end(_ reason: String) {
    node.air.stop(self)
    client.end(reason, in: node.air)
  }
}
