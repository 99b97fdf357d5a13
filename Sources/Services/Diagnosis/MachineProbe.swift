import BlueZ
import DBus
import Glibc
import HCI
import Loop
import Tool

/// Reads the facts for `earshot doctor`. A part that cannot be read does not prevent the others.
@LoopActor
struct MachineProbe {
  /// The paths of an installation.
  struct Paths {
    var policies = [
      "/usr/share/dbus-1/system.d/org.earshot.conf", "/etc/dbus-1/system.d/org.earshot.conf",
    ]
    var state = "/var/lib/earshot"
    var trust = "/etc/earshot/issuers.d"
    var checker = ["/usr/bin/earshot-check", "/usr/local/bin/earshot-check"]
    /// The folder whose existence shows that systemd runs.
    var systemd = "/run/systemd/system"
  }

  /// The units of a complete installation. Those that are neither installed nor active are left out, except the first
  /// two.
  private static let units =
    ["bluetooth.service", "earshotd.service", "earshot-check.socket"] + Examination.optionalUnits
  private static let systemd = "org.freedesktop.systemd1"
  private static let blueZ = "org.bluez"
  private static let uplink = "org.earshot.Nostr"
  /// `ST_RDONLY`, which is an anonymous enumeration in C.
  private static let readOnlyFlag: UInt = 1

  private let client: Client
  private let paths: Paths
  private let clock: any WallClock

  init(_ client: Client, paths: Paths = Paths(), clock: any WallClock = SystemWallClock()) {
    (self.client, self.paths, self.clock) = (client, paths, clock)
  }

  func facts() async -> MachineFacts {
    var facts = MachineFacts()
    readMachine(&facts)
    do throws(Failure) {
      try await client.connect()
    } catch {
      facts.busError = error.text
      (facts.service, facts.units, facts.adapters, facts.isBluetoothdRunning) = (nil, nil, [], false)
      return facts
    }
    facts.service = nil
    if await client.isRunning() {
      do throws(Failure) {
        facts.service = try await service()
      } catch {
        facts.serviceError = error.text
      }
    }
    facts.uplink = await uplink()
    facts.units = await units()
    facts.isBluetoothdRunning = await client.bus.hasOwner(Self.blueZ)
    facts.readsBattery = facts.isBluetoothdRunning ? await BlueZAdvice.readsBattery(client.bus) : nil
    facts.adapters = await adapters()
    return facts
  }

  // MARK: Files

  private func readMachine(_ facts: inout MachineFacts) {
    facts.hasPolicy = paths.policies.contains { access($0, F_OK) == 0 }
    facts.user = UserGroup.user
    facts.membership = Self.membership(of: facts.user)
    facts.blueZ = .installed()
    facts.configuration = .installed()
    facts.kernel = .running
    (facts.time, facts.isClockSynchronised) = (clock.seconds, clock.isSynchronised)
    facts.disk = Self.disk(paths.state)
    facts.keys = Self.keys(paths.state)
    // Nothing is trusted without the folder.
    let names = access(paths.trust, F_OK) == 0 ? Self.names(paths.trust) : []
    facts.issuers = names.map { $0.count { $0.hasSuffix(".toml") } }
    facts.hasChecker = paths.checker.contains { access($0, X_OK) == 0 }
  }

  private static func membership(of user: String) -> MachineFacts.Membership {
    guard getuid() != 0 else { return .root }
    guard let group = UserGroup("earshot") else { return .noGroup }
    if group.isOfThisProcess { return .member }
    if group.members.contains(user) { return .addedSinceLogin }
    return UserGroup("earshot-view")?.isOfThisProcess == true ? .viewer : .outsider
  }

  private static func disk(_ path: String) -> MachineFacts.Disk? {
    var status = statvfs()
    guard statvfs(path, &status) == 0 else { return nil }
    return MachineFacts.Disk(
      freeBytes: UInt64(status.f_bavail) * UInt64(status.f_frsize),
      isReadOnly: UInt(status.f_flag) & readOnlyFlag != 0)
  }

  private static func keys(_ path: String) -> MachineFacts.Keys {
    guard access(path, F_OK) == 0 else { return .noDirectory }
    guard let names = names(path) else { return .notPermitted }
    let keys = names.filter { $0.hasSuffix(".key") }
    let exposed = keys.filter { name in
      var status = stat()
      return lstat("\(path)/\(name)", &status) == 0 && status.st_mode & 0o077 != 0
    }
    return .found(keys, exposed: exposed)
  }

  /// The entries of a folder; nil if it cannot be read.
  static func names(_ path: String) -> [String]? {
    guard let list = opendir(path) else { return nil }
    defer { closedir(list) }
    var names: [String] = []
    while let entry = readdir(list) {
      names.append(
        withUnsafePointer(to: &entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        })
    }
    return names
  }

  // MARK: The bus

  private func service() async throws(Failure) -> MachineFacts.Service? {
    let objects = try await client.objects()
    guard let manager = objects[Client.manager.string]?[Client.managerInterface] else { return nil }
    func text(_ name: String) -> String { manager[name]?.text ?? "" }
    let verifier = objects["/org/earshot/verifier"]?["org.earshot.Verifier1"]
    return MachineFacts.Service(
      version: text("Version"), radioState: text("RadioState"), radioReason: text("RadioReason"),
      radioStack: text("RadioStack"),
      radioLimits: manager["RadioLimits"]?.asStrings ?? [], storage: verifier?["Storage"]?.text ?? "",
      checker: verifier?["Checker"]?.text ?? "")
  }

  private func uplink() async -> MachineFacts.Uplink? {
    // A call to a name without an owner could start the service.
    guard await client.bus.hasOwner(Self.uplink) else { return nil }
    let values = await properties(Self.uplink, "/org/earshot/uplink", "org.earshot.Uplink1")
    guard let state = values["State"]?.text else { return nil }
    let relays = (values["Relays"]?.unwrapped.asArray ?? []).compactMap { value -> MachineFacts.Uplink.Relay? in
      let texts = (value.asArray ?? []).compactMap(\.asString)
      return texts.count == 4 ? .init(address: texts[0], state: texts[2], reason: texts[3]) : nil
    }
    return MachineFacts.Uplink(state: state, reason: values["Reason"]?.text ?? "", relays: relays)
  }

  private func units() async -> [MachineFacts.Unit]? {
    guard access(paths.systemd, F_OK) == 0, await client.bus.hasOwner(Self.systemd) else { return nil }
    var units: [MachineFacts.Unit] = []
    for (index, name) in Self.units.enumerated() {
      guard let unit = await unit(name), index < 2 || unit.isPresent else { continue }
      units.append(unit)
    }
    return units
  }

  private func unit(_ name: String) async -> MachineFacts.Unit? {
    let manager: ObjectPath = "/org/freedesktop/systemd1"
    let answer = try? await client.bus.call(
      Self.systemd, manager, "\(Self.systemd).Manager", "LoadUnit", [.string(name)])
    guard let path = answer?.first?.asObjectPath else { return nil }
    let state = await properties(Self.systemd, path, "\(Self.systemd).Unit")
    guard let load = state["LoadState"]?.text else { return nil }
    let isService = name.hasSuffix(".service")
    let service = isService ? await properties(Self.systemd, path, "\(Self.systemd).Service") : [:]
    return MachineFacts.Unit(
      name: name, load: load, active: state["ActiveState"]?.text ?? "", file: state["UnitFileState"]?.text ?? "",
      capabilities: service["AmbientCapabilities"]?.unwrapped.asUInt64)
  }

  private func properties(_ service: String, _ path: ObjectPath, _ interface: String) async -> [String: DBusValue] {
    let answer = try? await client.bus.call(
      service, path, "org.freedesktop.DBus.Properties", "GetAll", [.string(interface)])
    return answer?.first?.asDictionary ?? [:]
  }

  private func adapters() async -> [MachineFacts.Adapter] {
    let answer = try? await client.bus.call(
      Self.blueZ, .root, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", [])
    let objects = answer?.first?.asDictionary ?? [:]
    return objects.sorted { $0.key < $1.key }.compactMap { path, interfaces in
      guard let adapter = interfaces.asDictionary?["org.bluez.Adapter1"]?.asDictionary else { return nil }
      let advertising = interfaces.asDictionary?["org.bluez.LEAdvertisingManager1"]?.asDictionary
      let name = path.split(separator: "/").last.map(String.init) ?? path
      return MachineFacts.Adapter(
        name: name, isOn: adapter["Powered"]?.unwrapped.asBool ?? false,
        roles: adapter["Roles"]?.unwrapped.asStrings ?? [],
        slots: advertising.map { Self.number($0["SupportedInstances"]) + Self.number($0["ActiveInstances"]) },
        block: RadioBlock.installed(name))
    }
  }

  private static func number(_ value: DBusValue?) -> Int { value?.asInteger ?? 0 }
}
