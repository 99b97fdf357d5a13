import Journal
import Loop

/// An object on the bus. Cancelling it, or dropping the last reference, takes it down.
@LoopActor
public final class ExportedObject: Sendable {
  public let path: ObjectPath
  let node: ObjectNode
  private let registration: Registration

  init(_ node: ObjectNode, _ registration: Registration) {
    path = node.path
    self.node = node
    self.registration = registration
  }

  /// Takes the object down.
  public func cancel() {
    registration.cancel()
  }

  /// Tells others that properties changed: at the end of the loop's turn, with the values of then, in one signal for
  /// each interface.
  public func changed(_ properties: String...) {
    node.changed(properties)
  }

  /// Sends a signal; the properties that changed before it are told before it.
  public func emit(_ interface: String, _ signal: String, _ arguments: [DBusValue] = []) {
    node.emit(interface, signal, arguments)
  }
}
