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

  /// Signals that properties changed: at the end of the loop's turn, with the values of then, in one signal for each
  /// interface. A property that has the value of the last signal is left out. The signal names a property that is for the
  /// group without its value. Changes of an interface for the group are signalled only to watchers.
  public func changed(_ properties: String...) {
    node.changed(properties)
  }

  /// Sends a signal, after the signals about properties that changed before it.
  ///
  /// - Parameter destination: the unique name of the one connection that the signal is for; nil for every program that
  ///   listens or, for an interface of the group, for every watcher.
  public func emit(
    _ interface: String, _ signal: String, _ arguments: [DBusValue] = [], to destination: String? = nil
  ) {
    node.emit(interface, signal, arguments, to: destination)
  }
}
