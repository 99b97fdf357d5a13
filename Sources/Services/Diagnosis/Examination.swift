import BlueZ
import HCI
import Terminal

/// The rules of `earshot doctor`: facts in, findings out.
struct Examination {
  private static let service = "earshotd.service"
  private static let bluetooth = "bluetooth.service"
  private static let checker = "earshot-check.socket"
  /// Units of packages that are off after their installation, because they use the network.
  static let optionalUnits = ["earshot-presenced.service", "earshot-nostrd.service", "earshot-sociald.service"]
  /// The first second of 2026, before which no release of the service was built.
  private static let earliestTime: Int64 = 1_767_225_600
  /// The capabilities that the unit must grant, as bits: CAP_NET_ADMIN and CAP_NET_RAW.
  private static let capabilities: UInt64 = 1 << 12 | 1 << 13
  private static let lowDisk: UInt64 = 64 << 20
  private static let fullDisk: UInt64 = 8 << 20

  let facts: MachineFacts

  /// The findings, in the order in which problems should be solved.
  static func findings(_ facts: MachineFacts) -> [Finding] {
    let examination = Examination(facts: facts)
    let bluetooth =
      facts.service?.isSimulated == true
      ? [] : examination.bluetoothd() + examination.adapters() + examination.radio() + examination.costs()
    return examination.bus() + examination.units() + examination.serviceState() + bluetooth + examination.access()
      + examination.clock() + examination.storage() + examination.trust()
      + UplinkExamination(facts.uplink).findings()
  }

  // MARK: The bus and the service

  private func bus() -> [Finding] {
    if let error = facts.busError {
      return [.error("bus", "There is no bus at this address. \(error)", "sudo systemctl start dbus.socket")]
    }
    let isOnBus = facts.service != nil || facts.serviceError != nil
    // A private bus of a developer needs no policy file.
    if isOnBus, !facts.hasPolicy { return [.ok("bus", "The bus can be reached.")] }
    guard facts.hasPolicy else {
      return [
        .error(
          "policy", "The bus has no policy for org.earshot, so it refuses the name to the service.",
          "sudo apt install --reinstall earshot, then sudo systemctl reload dbus")
      ]
    }
    return [.ok("bus", "The bus can be reached."), .ok("policy", "The bus has a policy for org.earshot.")]
  }

  private func units() -> [Finding] {
    guard facts.busError == nil else { return [] }
    guard let units = facts.units else {
      return [.warning("units", "systemd does not run, so nothing restarts the service after a failure.")]
    }
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    return units.flatMap { unit -> [Finding] in unitFindings(unit) }
  }

  private func unitFindings(_ unit: MachineFacts.Unit) -> [Finding] {
    guard unit.isInstalled else {
      switch unit.name {
      case Self.service: return [.error("units", "\(unit.name) is not installed.", "sudo apt install earshot")]
      case Self.bluetooth: return [.error("units", "\(unit.name) is not installed.", "sudo apt install bluez")]
      default: return []
      }
    }
    if unit.load == "masked" {
      return [.error("units", "\(unit.name) is masked.", "sudo systemctl unmask \(unit.name)")]
    }
    if unit.load != "loaded" {
      return [.error("units", "systemd cannot load \(unit.name) (\(unit.load)).", "systemctl status \(unit.name)")]
    }
    if unit.active == "failed" {
      return [.error("units", "\(unit.name) has failed.", "journalctl -u \(unit.name) -n 50")]
    }
    guard unit.active == "active" else {
      if Self.optionalUnits.contains(unit.name), unit.file == "disabled", unit.active == "inactive" {
        return [.ok("units", "\(unit.name) is installed, and off.")]
      }
      return [
        .warning("units", "\(unit.name) is \(unit.active).", "sudo systemctl enable --now \(unit.name)")
      ]
    }
    if unit.file == "disabled" {
      return [
        .warning(
          "units", "\(unit.name) runs, but does not start with the machine.", "sudo systemctl enable \(unit.name)")
      ]
    }
    return [.ok("units", "\(unit.name) is active.")] + capabilityFindings(unit)
  }

  private func capabilityFindings(_ unit: MachineFacts.Unit) -> [Finding] {
    guard unit.name == Self.service, let granted = unit.capabilities else { return [] }
    let missing = Self.capabilities & ~granted
    guard missing != 0 else { return [.ok("capabilities", "The unit grants CAP_NET_ADMIN and CAP_NET_RAW.")] }
    let names = [(UInt64(1 << 12), "CAP_NET_ADMIN"), (1 << 13, "CAP_NET_RAW")].filter { missing & $0.0 != 0 }.map(\.1)
    return [
      .warning(
        "capabilities", "The unit does not grant \(names.joined(separator: " and ")).",
        "systemctl cat \(unit.name), and remove the drop-in that overrides AmbientCapabilities=")
    ]
  }

  private func serviceState() -> [Finding] {
    guard facts.busError == nil else { return [] }
    guard let service = facts.service else {
      if let error = facts.serviceError {
        return [
          .error(
            "service", "earshotd is on the bus, but does not answer. \(error)",
            "journalctl -u earshotd -n 50, then sudo systemctl restart earshotd")
        ]
      }
      // A unit that is missing or has failed is reported already, with what to do.
      let isKnown = facts.unit(Self.service).map { !$0.isInstalled || $0.active == "failed" } ?? false
      let remedy = isKnown ? "solve the problem of \(Self.service) above" : "sudo systemctl enable --now earshotd"
      return [.error("service", "org.earshot is not on the bus: earshotd is not running.", remedy)]
    }
    var findings = [Finding.ok("service", "earshotd \(service.version) runs.")]
    if service.isSimulated {
      findings.append(
        .warning(
          "radio", "The service uses the simulated radio, which reaches no phone.",
          "remove Backend=air from the configuration, then sudo systemctl restart earshotd"))
    }
    if !service.storage.isEmpty { findings.append(.error("storage", service.storage, "earshot transfers")) }
    if !service.checker.isEmpty {
      findings.append(.warning("checker", service.checker, "systemctl status \(Self.checker)"))
    }
    return findings
  }

  // MARK: Bluetooth

  private func bluetoothd() -> [Finding] {
    guard facts.busError == nil else { return [] }
    guard facts.isBluetoothdRunning else {
      return facts.blueZ == nil
        ? [.error("bluez", "BlueZ is not installed.", "sudo apt install bluez")]
        : [.error("bluez", "bluetoothd is not running.", "sudo systemctl start bluetooth")]
    }
    guard let version = facts.blueZ else {
      return [.warning("bluez", "bluetoothd runs, but its version is unknown.")]
    }
    guard version >= BlueZAdvice.minimum else {
      return [
        .error(
          "bluez", "BlueZ \(version) is older than \(BlueZAdvice.minimum), the oldest tested version.",
          "upgrade to Debian 12 or later")
      ]
    }
    return [.ok("bluez", "BlueZ \(version) runs.")]
  }

  private func adapters() -> [Finding] {
    guard facts.busError == nil, facts.isBluetoothdRunning else { return [] }
    guard !facts.adapters.isEmpty else {
      return [
        .error(
          "adapter", "There is no Bluetooth adapter.",
          "plug in an adapter with Bluetooth 4.2 or later; journalctl -k -g -i bluetooth shows driver and firmware errors"
        )
      ]
    }
    let problems = facts.adapters.map(problem)
    // One usable adapter suffices. Unusable other adapters are then only warnings.
    let hasUsable = problems.contains { $0 == nil }
    return zip(facts.adapters, problems).map { adapter, problem in
      guard let problem else {
        let slots = adapter.slots.map { ", with \($0) advertising slots" } ?? ""
        return .ok("adapter", "\(adapter.name) is on, and can serve wallets and peers\(slots).")
      }
      let sentence = "\(adapter.name) \(problem.what)."
      return hasUsable
        ? .warning("adapter", sentence, problem.remedy) : .error("adapter", sentence, problem.remedy)
    }
  }

  /// The problem that prevents the use of an adapter, and the remedy; nil if the adapter is usable.
  private func problem(_ adapter: MachineFacts.Adapter) -> (what: String, remedy: String)? {
    switch adapter.block {
    case .hard?: return ("is blocked by a hardware switch (rfkill)", "set the switch of the machine")
    case .soft?: return ("is blocked by rfkill", "sudo rfkill unblock bluetooth")
    case nil: break
    }
    guard adapter.isOn else { return ("is switched off", "bluetoothctl power on") }
    guard adapter.roles.contains(where: { $0.contains("peripheral") }) else {
      return ("cannot be a peripheral of Bluetooth Low Energy, so no phone finds it", "use another adapter")
    }
    guard let slots = adapter.slots, slots > 0 else { return ("cannot advertise", "use another adapter") }
    return nil
  }

  /// Findings from the radio state that the running service reports.
  private func radio() -> [Finding] {
    guard let service = facts.service else { return [] }
    let reason = service.radioReason
    switch service.radioState {
    case "ready": return [.ok("radio", "The service uses the radio.")]
    case "degraded": return [.warning("radio", "The radio is degraded. \(reason)")]
    default:
      return [.error("radio", "The service waits for the radio. \(reason)", "solve the problem that this line names")]
    }
  }

  /// Findings about limitations that follow from the versions and the configuration of BlueZ and the kernel.
  private func costs() -> [Finding] {
    var findings: [Finding] = facts.kernel.map { [.ok("kernel", "Linux \($0) runs.")] } ?? []
    if facts.readsBattery == true {
      let restart = "sudo systemctl restart bluetooth"
      // If bluetoothd does not discover the services of connecting peers, battery levels are read only from peers to
      // which this machine connects.
      findings.append(
        facts.configuration.discoversPeers
          ? .error("battery", BlueZAdvice.battery, restart) : .warning("battery", BlueZAdvice.battery, restart))
    } else if facts.readsBattery == false {
      findings.append(.ok("battery", "bluetoothd does not read the battery level of phones."))
    }
    if !facts.configuration.discoversPeers {
      findings.append(
        .warning(
          "discovery",
          "bluetoothd does not discover the services of peers that connect, which nodes of the mesh need.",
          "remove ReverseServiceDiscovery=false from /etc/bluetooth/main.conf, then sudo systemctl restart bluetooth"))
    }
    // The running service reports its limitations itself, which is more precise than conclusions from versions.
    if let service = facts.service {
      let limits = service.radioLimits.filter { $0 != BlueZAdvice.battery }
      return findings + limits.map { Finding.warning("bluez", $0) }
    }
    findings += BlueZAdvice.limits(facts.blueZ, facts.configuration).map { Finding.warning("bluez", $0) }
    findings += BlueZAdvice.limits(facts.kernel).map { Finding.warning("kernel", $0) }
    return findings
  }

  // MARK: The machine

  private func access() -> [Finding] {
    let add = "sudo usermod -aG earshot \(facts.user), then log in again"
    switch facts.membership {
    case .root: return [.ok("group", "root may use the service.")]
    case .member: return [.ok("group", "\(facts.user) is in the group earshot.")]
    case .viewer:
      return [
        .warning("group", "\(facts.user) is in the group earshot-view, and may only read state and metrics.", add)
      ]
    case .addedSinceLogin:
      return [
        .warning(
          "group", "\(facts.user) has been added to the group earshot since this login.", "log out and in again")
      ]
    case .outsider: return [.warning("group", "\(facts.user) is not in the group earshot.", add)]
    case .noGroup:
      return [.error("group", "This machine has no group earshot.", "sudo groupadd --system earshot, then \(add)")]
    }
  }

  private func clock() -> [Finding] {
    if facts.time < Self.earliestTime {
      return [
        .error(
          "clock", "The clock shows a time before 2026: credentials cannot be checked, and no notification is sent.",
          "sudo timedatectl set-time 'YYYY-MM-DD hh:mm:ss'")
      ]
    }
    return facts.isClockSynchronised
      ? [.ok("clock", "A time service synchronises the clock.")]
      : [
        .warning(
          "clock", "No time service synchronises the clock, on which the validity of credentials depends.",
          "sudo timedatectl set-ntp true")
      ]
  }

  private func storage() -> [Finding] {
    guard let disk = facts.disk else {
      return [.warning("disk", "The state directory does not exist. The service creates it when it starts.")]
    }
    var findings: [Finding] = []
    let free = humanBytes(disk.freeBytes)
    if disk.isReadOnly {
      findings.append(
        .error("disk", "The file system of the state directory is read-only.", "journalctl -k, then check the disk"))
    } else if disk.freeBytes < Self.fullDisk {
      findings.append(.error("disk", "The disk of the state directory is full (\(free) free).", "free space there"))
    } else if disk.freeBytes < Self.lowDisk {
      findings.append(
        .warning("disk", "The disk of the state directory is nearly full (\(free) free).", "free space there"))
    } else {
      findings.append(.ok("disk", "The disk of the state directory has \(free) free."))
    }
    switch facts.keys {
    case .notPermitted: findings.append(.ok("keys", "Not examined: only root may read the state directory."))
    case .noDirectory: break
    case .found(let names, let exposed):
      if !exposed.isEmpty {
        findings.append(
          .error(
            "keys", "Other users may read \(exposed.joined(separator: ", ")).",
            "sudo chmod 600 on each, in the state directory"))
      } else if names.isEmpty {
        findings.append(.warning("keys", "There is no key yet. The service creates one when it stores something."))
      } else {
        findings.append(.ok("keys", "Only the service may read \(names.sorted().joined(separator: ", "))."))
      }
    }
    return findings
  }

  private func trust() -> [Finding] {
    guard facts.hasChecker else { return [] }
    switch facts.issuers {
    case nil: return [.warning("trust", "The trust folder cannot be read.", "sudo earshot doctor")]
    case 0?:
      return [
        .warning(
          "trust", "No issuer is trusted, so every credential is untrusted.", "sudo earshot-check trust add SOURCE")
      ]
    case let count?: return [.ok("trust", count == 1 ? "1 issuer is trusted." : "\(count) issuers are trusted.")]
    }
  }
}
