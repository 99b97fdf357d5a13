internal import CDBus

/// Owns one reference to a libdbus message; used on the loop's thread.
final class RawMessage {
  let pointer: OpaquePointer

  /// - Parameter owning: a reference that this object gives back.
  init(owning pointer: OpaquePointer) {
    self.pointer = pointer
  }

  deinit {
    dbus_message_unref(pointer)
  }
}
