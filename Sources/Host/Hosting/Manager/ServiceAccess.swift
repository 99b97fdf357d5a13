import DBus
import Glibc

/// The programs that may call the service and see what is for the group: those of root, of the user that the service runs
/// as, and of the members of the group `earshot`. Every other program may look at what is for everybody.
public enum ServiceAccess {
  public static let group = "earshot"

  /// - Parameters:
  ///   - own: the user that the service runs as.
  ///   - group: the number of the group; nil where the machine has none of that name.
  public static func rule(own: UInt32 = getuid(), group: UInt32? = number(of: group)) -> AccessRule {
    AccessRule(
      refusal: "Only root and members of the group \(Self.group) may do this.",
      // bluetoothd calls the GATT objects, which refuse every other program by themselves.
      isOpen: { $0.interface?.hasPrefix("org.bluez.") == true },
      allows: { caller in
        caller.uid == 0 || caller.uid == own || group.map(caller.gids.contains) ?? false
      })
  }

  public static func number(of group: String) -> UInt32? {
    getgrnam(group).map { $0.pointee.gr_gid }
  }
}
