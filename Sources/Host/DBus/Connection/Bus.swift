/// The bus itself, as it can be called.
enum Bus {
  static let name = "org.freedesktop.DBus"
  static let path: ObjectPath = "/org/freedesktop/DBus"
  static let interface = "org.freedesktop.DBus"
}

/// The interfaces that every D-Bus program knows.
enum StandardName {
  static let properties = "org.freedesktop.DBus.Properties"
  static let introspectable = "org.freedesktop.DBus.Introspectable"
  static let objectManager = "org.freedesktop.DBus.ObjectManager"
  static let peer = "org.freedesktop.DBus.Peer"
}
