import DBus
import Tool

/// Where the feed is on the bus, and what its interface is called.
enum BroadcastNames {
  static let feature = Feature("public feed", section: "Broadcast")
  static let path: ObjectPath = "/org/earshot/broadcast"
  static let interface = "org.earshot.Broadcast1"
}
