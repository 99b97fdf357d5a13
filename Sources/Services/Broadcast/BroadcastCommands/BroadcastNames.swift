import DBus
import Tool

/// Names of the local broadcast channel on D-Bus.
enum BroadcastNames {
  static let feature = Feature("local broadcast channel", section: "Broadcast")
  static let path: ObjectPath = "/org/earshot/broadcast"
  static let interface = "org.earshot.Broadcast1"
}
