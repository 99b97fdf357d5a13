import DBus
import Glibc

/// Who may call the service: root, the user it runs as, and the members of the group `earshot`.
enum Access {
  static let group = "earshot"

  static func rule() -> AccessRule {
    let own = getuid()
    let group = Self.group(named: group)
    return AccessRule(
      refusal: "Only root and members of the group \(Self.group) may do this.",
      isPublic: { message in
        // bluetoothd calls the GATT objects; they admit it alone.
        AccessRule.onlyLooks(message) || message.interface?.hasPrefix("org.bluez.") == true
      },
      allows: { caller in
        caller.uid == 0 || caller.uid == own || group.map(caller.gids.contains) ?? false
      })
  }

  private static func group(named name: String) -> UInt32? {
    getgrnam(name).map { $0.pointee.gr_gid }
  }
}
