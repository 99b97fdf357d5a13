import Journal
import Loop

/// An object on the bus. Cancelling it, or releasing the last reference, removes it.
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

  /// Removes the object.
  public func cancel() {
    registration.cancel()
  }

  /// Signals changed properties at the end of the loop iteration, with their values at that time, in one signal for
  /// each interface. A property whose value equals the last signalled one is omitted. The signal names a property for
  /// the group without its value. Changes of an interface for the group are signalled only to watchers.
  public func changed(_ properties: String...) {
    node.changed(properties)
  }

  /// Sends a signal, after the signals about earlier property changes.
  ///
  /// - Parameter destination: the unique name of the only receiver; nil for every subscribed program or, for an
  ///   interface of the group, for every watcher.
  public func emit(
    _ interface: String, _ signal: String, _ arguments: [DBusValue] = [], to destination: String? = nil
  ) {
    node.emit(interface, signal, arguments, to: destination)
  }
}
