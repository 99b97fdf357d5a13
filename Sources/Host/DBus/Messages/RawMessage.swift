internal import CDBus
import Glibc

/// Owns one reference to a libdbus message; used on the loop's thread.
final class RawMessage {
  let pointer: OpaquePointer
  /// Of a message that is to be sent: the bytes of its body.
  let size: Int
  /// Whether the text in it is overwritten when this reference goes, which must then be the last one that is used: libdbus
  /// keeps messages of up to 10 KiB, as they are, to make others of them.
  var isPrivate = false

  /// - Parameter owning: a reference that this object gives back.
  init(owning pointer: OpaquePointer, size: Int = 0) {
    (self.pointer, self.size) = (pointer, size)
  }

  deinit {
    if isPrivate { wipe() }
    dbus_message_unref(pointer)
  }

  /// Overwrites the texts among the arguments where they lie: libdbus lends its own copy of them.
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
