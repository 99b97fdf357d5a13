import CommandLine
import DBus
import Glibc
import Loop

/// The access to the service that a command needs.
public enum Need: Sendable {
  /// The command does not use the service.
  case nothing
  /// The command shows data that every program on the bus may read.
  case look
  /// The command needs the permissions of root and the group, or shows data that only they may read.
  case group
  /// As `group`, unless the command line contains the option. With the option the command does not use the service, or
  /// needs no membership.
  case groupUnless(option: String)

  func isGroup(_ line: ParsedCommand) -> Bool {
    switch self {
    case .nothing, .look: false
    case .group: true
    case .groupUnless(let option): line.value(option) == nil
    }
  }
}

extension Client {
  /// Throws if this program's user may not use the service. The check is a method call without an effect.
  ///
  /// Does not throw without a bus or a service: the command reports that itself, or waits for the service.
  func checkGroup() async throws(Failure) {
    bus.connect()
    do throws(DBusError) {
      try await bus.ready()
      _ = try await bus.call(service, Self.manager, Self.managerInterface, "Unwatch", [], timeout: timeout)
    } catch {
      switch DBusError.Name(rawValue: error.name) {
      case .denied?, .accessDenied?, .timeout?, .noReply?: throw failure(error)
      default: break
      }
    }
  }
}

extension Failure {
  static let group = "earshot"

  /// The failure of a command whose user is not a member of the service's group, with the remedy.
  static var outsider: Failure {
    Failure(.denied, outsider(UserGroup.user, members: members(of: group)))
  }

  /// - Parameter members: the present users of the group; nil if the machine has no such group.
  static func outsider(_ user: String, members: [String]?) -> String {
    guard let members else {
      return "This machine has no group \(group): run `sudo groupadd --system \(group)` and "
        + "`sudo usermod -aG \(group) \(user)`, restart earshotd, then log in again."
    }
    if members.contains(user) {
      return "The user \(user) has been added to the group \(group) since this login: log out and in again."
    }
    return "The user \(user) is not in the group \(group): run `sudo usermod -aG \(group) \(user)`, then log in again."
  }

  private static func members(of group: String) -> [String]? { UserGroup(group)?.members }
}

/// A group of this machine.
public struct UserGroup: Sendable {
  private let number: UInt32
  /// The users that the machine lists as members now.
  public let members: [String]

  /// Nil if the machine has no group of this name.
  public init?(_ name: String) {
    guard let found = getgrnam(name) else { return nil }
    number = found.pointee.gr_gid
    var members: [String] = []
    var next = found.pointee.gr_mem
    while let name = next?.pointee {
      members.append(String(cString: name))
      next = next?.advanced(by: 1)
    }
    self.members = members
  }

  /// Whether this process has the group. A membership of the user counts from the next login.
  public var isOfThisProcess: Bool {
    let count = getgroups(0, nil)
    guard count >= 0 else { return false }
    var groups = [gid_t](repeating: 0, count: Int(count))
    let filled = getgroups(count, &groups)
    return getegid() == number || groups.prefix(max(0, Int(filled))).contains(number)
  }

  /// The name of this process's user, or its number.
  public static var user: String { getpwuid(getuid()).map { String(cString: $0.pointee.pw_name) } ?? "\(getuid())" }
}
