import DBus
import Glibc

/// Who may call the service: root, the user it runs as, and the members of the group `earshot`.
public enum ServiceAccess {
  public static let group = "earshot"

  /// - Parameters:
  ///   - own: the user that the service runs as.
  ///   - group: the number of the group; nil where the machine has none of that name.
  public static func rule(own: UInt32 = getuid(), group: UInt32? = number(of: group)) -> AccessRule {
    AccessRule(
      refusal: "Only root and members of the group \(Self.group) may do this.",
      isPublic: { message in
        // bluetoothd calls the GATT objects; they admit it alone.
        AccessRule.onlyLooks(message) || message.interface?.hasPrefix("org.bluez.") == true
      },
      allows: { caller in
        caller.uid == 0 || caller.uid == own || group.map(caller.gids.contains) ?? false
      })
  }

  public static func number(of group: String) -> UInt32? {
    getgrnam(group).map { $0.pointee.gr_gid }
  }
}
