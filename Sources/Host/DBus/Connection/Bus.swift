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
