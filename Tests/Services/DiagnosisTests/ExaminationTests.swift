import BlueZ
import CommandLine
import HCI
import Testing

@testable import Diagnosis

@Suite("What `earshot doctor` finds on a machine")
struct ExaminationTests {
  private func findings(_ change: (inout MachineFacts) -> Void = { _ in }) -> [Finding] {
    var facts = MachineFacts()
    facts.units = [.init(name: "bluetooth.service"), .init(name: "earshotd.service", capabilities: 1 << 12 | 1 << 13)]
    change(&facts)
    return Examination.findings(facts)
  }

  private func finding(_ topic: String, _ change: (inout MachineFacts) -> Void) -> Finding? {
    let findings = findings(change).filter { $0.topic == topic }
    return findings.first { $0.level == .error } ?? findings.first { $0.level == .warning } ?? findings.first
  }

  @Test("On a complete installation `earshot doctor` reports no errors and no warnings")
  func healthy() {
    let findings = findings()
    #expect(findings.allSatisfy { $0.level == .ok && $0.remedy.isEmpty })
    #expect(findings.summary == "Nothing is wrong.")
    let topics = Set(findings.map(\.topic))
    #expect(topics.isSuperset(of: ["bus", "policy", "units", "capabilities", "service", "bluez", "adapter", "radio"]))
    #expect(topics.isSuperset(of: ["kernel", "battery", "group", "clock", "disk", "keys"]))
  }

  @Test("Without a bus `earshot doctor` reports only on the bus and on the files of the machine")
  func noBus() {
    let findings = findings {
      $0.busError = "No such file."
      ($0.service, $0.units, $0.isBluetoothdRunning, $0.adapters) = (nil, nil, false, [])
    }
    #expect(findings.first?.topic == "bus" && findings.first?.level == .error)
    #expect(findings.count(of: .error) == 1)
    #expect(!findings.contains { ["service", "units", "adapter", "radio"].contains($0.topic) })
  }

  @Test("`earshot doctor` reports a service that is not running as an error, with the way to start it")
  func noService() {
    let found = finding("service") { $0.service = nil }
    #expect(found?.level == .error && found?.remedy == "sudo systemctl enable --now earshotd")
    let failed = finding("service") {
      $0.service = nil
      $0.units = [.init(name: "earshotd.service", active: "failed")]
    }
    #expect(failed?.remedy.contains("earshotd.service above") == true)
  }

  @Test("A service on the simulated radio is a warning, and BlueZ and adapters are not examined")
  func simulated() {
    let findings = findings {
      $0.service?.radioStack = ""
      ($0.isBluetoothdRunning, $0.blueZ, $0.adapters) = (false, nil, [])
    }
    #expect(findings.filter { $0.level != .ok }.map(\.topic) == ["radio"])
    // While the service waits for bluetoothd, it has no stack either.
    let waiting = finding("adapter") {
      $0.service?.radioState = "waiting"
      $0.service?.radioStack = ""
      $0.adapters = []
    }
    #expect(waiting?.level == .error)
  }

  @Test("A missing policy is an error only while the service has no name on the bus")
  func policy() {
    #expect(finding("policy") { $0.hasPolicy = false } == nil)
    #expect(finding("policy") { ($0.hasPolicy, $0.service) = (false, nil) }?.level == .error)
  }

  @Test("A service that is on the bus but does not answer is not reported as missing")
  func silentService() {
    let found = finding("service") { ($0.service, $0.serviceError) = (nil, "It did not answer in time.") }
    #expect(found?.level == .error && found?.sentence.contains("does not answer. It did not answer") == true)
    #expect(found?.remedy.contains("restart earshotd") == true)
  }

  @Test("A unit that uses the network and was never enabled is not a warning, and a failed one is an error")
  func optionalUnits() {
    for name in Examination.optionalUnits {
      #expect(finding("units") { $0.units = [.init(name: name, active: "inactive", file: "disabled")] }?.level == .ok)
      #expect(finding("units") { $0.units = [.init(name: name, active: "inactive")] }?.level == .warning)
      #expect(finding("units") { $0.units = [.init(name: name, active: "failed")] }?.level == .error)
    }
  }

  @Test("On a machine without an adapter `earshot doctor` reports this error, and nothing on the radio's roles")
  func noAdapter() {
    let findings = findings { $0.adapters = [] }
    #expect(findings.filter { $0.topic == "adapter" }.map(\.sentence) == ["There is no Bluetooth adapter."])
    #expect(findings.count(of: .error) == 1)
  }

  @Test("Each reason why the only adapter is unusable is an error of `earshot doctor`")
  func unusableAdapter() {
    let changes: [(inout MachineFacts.Adapter) -> Void] = [
      { $0.isOn = false }, { $0.block = .soft }, { $0.block = .hard }, { $0.roles = ["central"] }, { $0.slots = nil },
      { $0.slots = 0 },
    ]
    var sentences: Set<String> = []
    for change in changes {
      let found = finding("adapter") { change(&$0.adapters[0]) }
      #expect(found?.level == .error && found?.remedy.isEmpty == false)
      sentences.insert(found?.sentence ?? "")
    }
    #expect(sentences.count == 5)
  }

  @Test("`earshot doctor` reports a second adapter that is off as a warning while the first is usable")
  func secondAdapter() {
    let found = finding("adapter") { $0.adapters.append(.init(name: "hci1", isOn: false)) }
    #expect(found?.level == .warning && found?.sentence == "hci1 is switched off.")
  }

  @Test("A bluetoothd that is missing, stopped or older than 5.66 is an error of `earshot doctor`")
  func bluetoothd() {
    let missing = finding("bluez") { ($0.isBluetoothdRunning, $0.blueZ) = (false, nil) }
    #expect(missing?.remedy == "sudo apt install bluez")
    let stopped = finding("bluez") { $0.isBluetoothdRunning = false }
    #expect(stopped?.remedy == "sudo systemctl start bluetooth")
    let old = finding("bluez") { $0.blueZ = BlueZVersion(5, 65) }
    #expect(old?.level == .error)
    #expect(finding("bluez") { $0.blueZ = BlueZVersion(5, 66) }?.level != .error)
  }

  @Test("While the service does not run, limits of BlueZ 5.66 and of an old kernel are warnings")
  func costs() {
    let findings = findings {
      ($0.service, $0.blueZ, $0.kernel) = (nil, BlueZVersion(5, 66), KernelVersion(6, 1, 100))
    }
    #expect(findings.filter { $0.topic == "bluez" && $0.level == .warning }.count > 1)
    #expect(findings.contains { $0.topic == "kernel" && $0.level == .warning })
  }

  @Test("A bluetoothd that reads battery levels is one error, and the service's sentence on it is not repeated")
  func battery() {
    let findings = findings {
      $0.readsBattery = true
      $0.service?.radioLimits = [BlueZAdvice.battery, "Another limit."]
    }
    #expect(findings.filter { $0.sentence == BlueZAdvice.battery }.map(\.level) == [.error])
    #expect(findings.contains { $0.sentence == "Another limit." && $0.level == .warning })
    let withoutDiscovery = finding("battery") {
      $0.readsBattery = true
      $0.configuration.discoversPeers = false
    }
    #expect(withoutDiscovery?.level == .warning)
  }

  @Test("`earshot doctor` names a systemd unit that has failed, is masked, is stopped or is not enabled")
  func units() {
    let cases: [(MachineFacts.Unit, Finding.Level)] = [
      (.init(name: "earshotd.service", active: "failed"), .error),
      (.init(name: "earshotd.service", load: "masked"), .error),
      (.init(name: "earshotd.service", load: "not-found"), .error),
      (.init(name: "earshotd.service", active: "inactive"), .warning),
      (.init(name: "earshotd.service", file: "disabled"), .warning),
    ]
    for (unit, level) in cases {
      let found = finding("units") { $0.units = [unit] }
      #expect(found?.level == level && found?.sentence.contains("earshotd.service") == true, "\(unit)")
    }
  }

  @Test("earshot-nostrd is off by default, which is no problem; one that fails or does not start again is reported")
  func uplinkUnit() {
    let name = "earshot-nostrd.service"
    let cases: [(MachineFacts.Unit, Finding.Level)] = [
      (.init(name: name, active: "inactive", file: "disabled"), .ok),
      (.init(name: name, active: "inactive"), .warning), (.init(name: name, active: "failed"), .error),
      (.init(name: name, file: "disabled"), .warning), (.init(name: name), .ok),
    ]
    for (unit, level) in cases {
      let found = finding("units") { $0.units = [unit] }
      #expect(found?.level == level && found?.sentence.contains(name) == true, "\(unit)")
    }
    #expect(!findings().contains { ["uplink", "proxy", "relays"].contains($0.topic) })
  }

  @Test("A proxy that is away is an error that names the proxy's setting, and nothing is said about relays")
  func proxy() {
    let findings = findings { $0.uplink = .init(state: "waitingForProxy", reason: "Nothing is sent since 10:00.") }
    let found = findings.filter { ["uplink", "proxy", "relays"].contains($0.topic) }
    #expect(found.map(\.topic) == ["proxy"] && found.map(\.level) == [.error])
    #expect(found.first?.sentence == "Nothing is sent since 10:00." && found.first?.remedy.contains("Proxy=") == true)
  }

  @Test("Connected relays are counted, and each relay that is refused or lost is a warning with its reason")
  func relays() {
    let relays: [MachineFacts.Uplink.Relay] = [
      .init(address: "wss://a.example", state: "live"),
      .init(address: "wss://b.example", state: "waiting", reason: "The certificate is not trusted."),
      .init(address: "ws://c.example", state: "refused", reason: "ws://c.example has no TLS."),
    ]
    let found = findings { $0.uplink = .init(relays: relays) }
    #expect(found.filter { $0.topic == "uplink" || $0.topic == "proxy" }.map(\.level) == [.ok, .ok])
    let lines = found.filter { $0.topic == "relays" }
    #expect(lines.map(\.level) == [.warning, .ok, .warning])
    #expect(lines.map(\.sentence)[0] == "ws://c.example has no TLS." && lines[0].remedy.contains("Relays="))
    #expect(lines.map(\.sentence)[1] == "1 of 2 relays are connected.")
    #expect(lines.map(\.sentence)[2] == "wss://b.example is not connected. The certificate is not trusted.")
  }

  @Test("Each state of earshot-nostrd has a finding, and a state without messages is not called usable")
  func uplinkStates() {
    let levels: [String: Finding.Level] = [
      "starting": .warning, "failed": .error, "noMesh": .error, "waitingForProxy": .error, "idle": .ok,
      "connecting": .warning, "ready": .ok,
    ]
    for (state, level) in levels {
      let all = findings { $0.uplink = .init(state: state, reason: level == .ok ? "" : "A reason.") }
      let found = all.filter { ["uplink", "proxy", "relays"].contains($0.topic) }
      let worst =
        found.contains { $0.level == .error }
        ? Finding.Level.error
        : found.contains { $0.level == .warning } ? .warning : .ok
      #expect(!found.isEmpty && worst == level, "\(state)")
    }
    let clearnet = finding("uplink") { $0.uplink = .init(reason: "BITCHAT_DEV_ALLOW_CLEARNET is set.") }
    #expect(clearnet?.level == .warning)
    #expect(finding("proxy") { $0.uplink = .init(reason: "BITCHAT_DEV_ALLOW_CLEARNET is set.") } == nil)
    #expect(
      findings { $0.uplink = .init(relays: [.init(address: "wss://a", state: "live")]) }
        .contains { $0.sentence == "1 of 1 relay is connected." })
  }

  @Test("`earshot doctor` warns about a systemd drop-in that removes CAP_NET_RAW, and names it")
  func capabilities() {
    let found = finding("capabilities") { $0.units = [.init(name: "earshotd.service", capabilities: 1 << 12)] }
    #expect(found?.level == .warning && found?.sentence == "The unit does not grant CAP_NET_RAW.")
  }

  @Test("`earshot doctor` reports a caller outside the group, a wrong clock, a full disk and an exposed key")
  func machine() {
    #expect(finding("group") { $0.membership = .outsider }?.remedy.hasPrefix("sudo usermod -aG earshot user") == true)
    #expect(finding("group") { $0.membership = .noGroup }?.level == .error)
    #expect(finding("group") { $0.membership = .addedSinceLogin }?.remedy == "log out and in again")
    #expect(finding("clock") { $0.time = 86_400 }?.level == .error)
    #expect(finding("clock") { $0.isClockSynchronised = false }?.level == .warning)
    #expect(finding("disk") { $0.disk = .init(freeBytes: 1 << 20) }?.level == .error)
    #expect(finding("disk") { $0.disk = .init(freeBytes: 1 << 30, isReadOnly: true) }?.level == .error)
    let exposed = finding("keys") { $0.keys = .found(["spool.key"], exposed: ["spool.key"]) }
    #expect(exposed?.level == .error && exposed?.sentence.contains("spool.key") == true)
    #expect(finding("keys") { $0.keys = .notPermitted }?.level == .ok)
  }

  @Test("`earshot doctor` warns about an empty trust folder only if the checker is installed")
  func trust() {
    #expect(finding("trust") { ($0.issuers, $0.hasChecker) = (0, true) }?.level == .warning)
    #expect(finding("trust") { ($0.issuers, $0.hasChecker) = (0, false) } == nil)
  }

  @Test("Every warning and error of `earshot doctor` states in whole sentences the remedy or the consequence")
  func texts() {
    let findings = findings {
      ($0.service, $0.units, $0.adapters, $0.membership) = (nil, nil, [.init(isOn: false)], .outsider)
      ($0.hasPolicy, $0.disk, $0.isClockSynchronised) = (false, nil, false)
    }
    for finding in findings {
      #expect(finding.sentence.hasSuffix(".") && !finding.topic.contains(" "), "\(finding)")
      #expect(finding.level != .error || !finding.remedy.isEmpty, "\(finding)")
    }
  }

  @Test("`earshot doctor` wraps and indents its text, and its JSON counts errors and warnings")
  func output() {
    let findings: [Finding] = [
      .ok("bus", "The bus can be reached."), .error("adapter", "There is no Bluetooth adapter.", "plug one in"),
    ]
    #expect(
      findings.text(width: 40, colour: false) == """
        ok       bus      The bus can be
                          reached.
        error    adapter  There is no Bluetooth
                          adapter.
                          Try: plug one in

        1 error, 0 warnings.

        """)
    #expect(findings.json["errors"] == .int(1) && findings.json["warnings"] == .int(0))
  }
}
