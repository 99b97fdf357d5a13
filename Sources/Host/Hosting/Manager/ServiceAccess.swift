import DBus
import Glibc

/// The access rule of the service. Programs of root, of the service's own user and of members of the group `earshot`
/// may call it and read data for the group. Members of the group `earshot-view` may read data for viewers. Every other
/// program may read data for everybody.
public enum ServiceAccess {
  public static let group = "earshot"
  public static let viewGroup = "earshot-view"

  /// - Parameters:
  ///   - own: the user of the service.
  ///   - group: the number of the group; nil if the machine has no such group.
  ///   - viewGroup: the number of the group of viewers; nil likewise.
  ///   - checked: interfaces whose methods check their callers themselves.
  ///   - charged: those of the checked interfaces whose calls cost points of the caller's budget, unless the caller is
  ///     the program that uses the object (`SoleCaller`).
  ///   - outsider: the name of a user that may not call, although it is a member of the group. The machine may get it
  ///     while the service runs.
  public static func rule(
    own: UInt32 = getuid(), group: UInt32? = number(of: group),
    viewGroup: UInt32? = number(of: viewGroup), checked: Set<String> = [], charged: Set<String> = [],
    outsider: String? = nil
  ) -> AccessRule {
    AccessRule(
      refusal: "Only root and members of the group \(Self.group) may do this.",
      // bluetoothd calls the GATT objects, which refuse other programs themselves.
      isOpen: { $0.interface.map { $0.hasPrefix("org.bluez.") || checked.contains($0) } ?? false },
      isCharged: { $0.interface.map { charged.contains($0) } ?? false },
      views: { caller in viewGroup.map(caller.gids.contains) ?? false },
      allows: { caller in
        if caller.uid == 0 || caller.uid == own { return true }
        if let outsider, caller.uid == number(ofUser: outsider) { return false }
        return group.map(caller.gids.contains) ?? false
      })
  }

  static func number(ofUser name: String) -> UInt32? {
    getpwnam(name).map { $0.pointee.pw_uid }
  }

  public static func number(of group: String) -> UInt32? {
    getgrnam(group).map { $0.pointee.gr_gid }
  }
}
