internal import CDBus
import Glibc

/// Owns one reference to a libdbus message. It may be used only on the loop's thread.
final class RawMessage {
  let pointer: OpaquePointer
  /// Size of the body of a message to send, in bytes.
  let size: Int
  /// Whether the message's texts are overwritten when this reference is released, which must be the last one in use.
  /// libdbus recycles messages of up to 10 KiB without clearing them.
  var isPrivate = false

  /// - Parameter owning: a reference that this object releases.
  init(owning pointer: OpaquePointer, size: Int = 0) {
    (self.pointer, self.size) = (pointer, size)
  }

  deinit {
    if isPrivate { wipe() }
    dbus_message_unref(pointer)
  }

  /// Overwrites the texts of the arguments in place, because libdbus returns pointers into its buffer.
  private func wipe() {
    var iterator = DBusMessageIter()
    guard dbus_message_iter_init(pointer, &iterator) != 0 else { return }
    repeat {
      guard dbus_message_iter_get_arg_type(&iterator) == TypeCode.string else { continue }
      var text: UnsafeMutablePointer<CChar>?
      dbus_message_iter_get_basic(&iterator, &text)
      if let text { explicit_bzero(text, strlen(text)) }
    } while dbus_message_iter_next(&iterator) != 0
  }
}
