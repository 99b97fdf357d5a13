internal import CDBus

/// Validation of D-Bus names. libdbus aborts the process if it receives an invalid name, so every name is validated
/// first.
enum Validity {
  /// Whether a text contains no NUL, so that C reads all of it. `BusText` checks the other rules for D-Bus strings.
  static func isText(_ text: String) -> Bool { !text.utf8.contains(0) }
  static func isPath(_ text: String) -> Bool { check(text) { dbus_validate_path($0, nil) } }
  static func isInterface(_ text: String) -> Bool { check(text) { dbus_validate_interface($0, nil) } }
  static func isMember(_ text: String) -> Bool { check(text) { dbus_validate_member($0, nil) } }
  static func isErrorName(_ text: String) -> Bool { check(text) { dbus_validate_error_name($0, nil) } }
  static func isBusName(_ text: String) -> Bool { check(text) { dbus_validate_bus_name($0, nil) } }

  /// Whether a text is a signature: zero or more complete types, at most 255 bytes, within D-Bus's nesting limits.
  static func isSignature(_ text: String) -> Bool { check(text) { dbus_signature_validate($0, nil) } }

  /// Whether a text is the signature of exactly one complete type.
  static func isSingleType(_ text: String) -> Bool { check(text) { dbus_signature_validate_single($0, nil) } }

  /// Whether a text is one element of an object path: letters, digits and underscores, at least one.
  static func isPathElement(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.allSatisfy { isASCIIAlphanumeric($0) || $0 == UInt8(ascii: "_") }
  }

  static func isASCIIAlphanumeric(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
    case UInt8(ascii: "0")...UInt8(ascii: "9"): true
    default: false
    }
  }

  private static func check(_ text: String, _ validate: (UnsafePointer<CChar>) -> dbus_bool_t) -> Bool {
    // C reads a text only up to its first NUL, and would not validate the rest.
    isText(text) && text.withCString { validate($0) != 0 }
  }
}

/// Names under which programs can be found on the bus, for example `org.earshot`.
public enum WellKnownName {
  /// Whether a text is a well-known bus name: a valid bus name that is not a unique name.
  public static func isValid(_ text: String) -> Bool { Validity.isBusName(text) && !text.hasPrefix(":") }
}

/// Names of the bus itself.
enum Bus {
  static let name = "org.freedesktop.DBus"
  static let path: ObjectPath = "/org/freedesktop/DBus"
  static let interface = "org.freedesktop.DBus"
}

/// Names of the standard D-Bus interfaces.
enum StandardName {
  static let properties = "org.freedesktop.DBus.Properties"
  static let introspectable = "org.freedesktop.DBus.Introspectable"
  static let objectManager = "org.freedesktop.DBus.ObjectManager"
  static let peer = "org.freedesktop.DBus.Peer"
}
