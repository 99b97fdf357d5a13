import DBus
import Glibc
import Loop

/// A profile that is registered with `FakeBlueZ`.
public struct FakeProfile: Sendable {
  public let owner: String
  public let path: ObjectPath
  public let uuid: String
  public let options: [String: DBusValue]
}

/// Profiles of other programs, and RFCOMM connections to them.
extension FakeBlueZ {
  func exportProfiles() {
    let register = Method(
      "RegisterProfile", in: [Argument("profile", "o"), Argument("uuid", "s"), Argument("options", "a{sv}")]
    ) { [weak self] in self?.registerProfile($0) }
    let unregister = Method("UnregisterProfile", in: [Argument("profile", "o")]) { [weak self] in
      self?.unregisterProfile($0)
    }
    profileManager = connection.objects.export(
      "/org/bluez", interfaces: [Interface("org.bluez.ProfileManager1", methods: [register, unregister])])
  }

  private func registerProfile(_ call: MethodCall) {
    let path = call.arguments[0].asObjectPath ?? .root
    let uuid = call.arguments[1].asString ?? ""
    calls.put("\(call.member) \(uuid)")
    follow(call.sender)
    if !refusals.isEmpty {
      call.fail(refusals.removeFirst())
    } else if profiles.contains(where: { $0.owner == call.sender && $0.path == path }) {
      call.fail(DBusError(name: "org.bluez.Error.AlreadyExists", message: "Already Exists"))
    } else if profiles.contains(where: { $0.uuid == uuid }) {
      call.fail(DBusError(name: "org.bluez.Error.NotPermitted", message: "UUID already registered"))
    } else {
      profiles.append(
        FakeProfile(owner: call.sender, path: path, uuid: uuid, options: call.arguments[2].asDictionary ?? [:]))
      call.reply()
    }
    tell("profile \(uuid)")
  }

  private func unregisterProfile(_ call: MethodCall) {
    let path = call.arguments[0].asObjectPath
    calls.put(call.member)
    profiles.removeAll { $0.owner == call.sender && $0.path == path }
    call.reply()
    tell("unregistered profile")
  }

  /// Makes a peer connect to a profile.
  ///
  /// - Returns: the peer's end of the connection.
  public func connect(_ device: ObjectPath, to profile: FakeProfile) async throws -> Int32 {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    do throws(DBusError) {
      _ = try await connection.call(
        profile.owner, profile.path, "org.bluez.Profile1", "NewConnection",
        [.objectPath(device), .descriptor(FileDescriptor(owning: ends[1])), .options([:])])
    } catch {
      close(ends[0])
      throw error
    }
    return ends[0]
  }

  /// Requests the end of a peer's connections.
  public func disconnect(_ device: ObjectPath, from profile: FakeProfile) async throws {
    _ = try await connection.call(
      profile.owner, profile.path, "org.bluez.Profile1", "RequestDisconnection", [.objectPath(device)])
  }
}
