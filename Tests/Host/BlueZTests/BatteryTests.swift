import DBus
import Foundation
import Journal
import Loop
import Radio
import TestSupport
import Testing

@testable import BlueZ

@Suite("The battery plugin of bluetoothd")
struct BatteryTests {
  init() { EventLoop.shared.runInBackground() }

  private static let daemon = "/usr/libexec/bluetooth/bluetoothd"

  @Test(
    "The command line of the running bluetoothd shows whether it loads the battery plugin",
    arguments: [
      ("", true), ("--experimental -n", true), ("--noplugin=battery", false), ("-P battery", false),
      ("-Pbattery", false), ("--noplugin battery", false), ("--noplugin=sap,battery,avrcp", false),
      ("--noplugin=sap", true), ("--noplugin=battery --noplugin=sap", true), ("-P sap -P battery", false),
      ("-P 'bat*'", false), ("--noplugin=\"*\"", false), ("-P batter", true), ("-P batter?", false),
      ("--plugin=sap,hostname", false), ("-p battery", true), ("--plugin=* -P battery", false),
      ("--plugin", true), ("-d battery", true),
    ])
  func commandLine(options: String, reads: Bool) {
    #expect(DaemonCommandLine("\(Self.daemon) \(options)")?.loads("battery") == reads)
    #expect(DaemonCommandLine("/usr/bin/program \(options)") == nil)
  }

  @Test(
    "A bluetoothd that loads the battery plugin is reported with the remedy, once in the journal")
  @LoopActor
  func named() async throws {
    let rig = try await Rig(prepare: nil)
    defer { rig.close() }
    let manager = FakeServiceManager(rig.bus, "/usr/bin/earshot", Self.daemon)
    try await manager.start()
    defer { manager.close() }
    rig.fake.addAdapter()
    try await rig.fake.start()
    _ = try await rig.statuses.first { !$0.limits.isEmpty }
    #expect(rig.radio.status.state == .ready)
    let limit = try #require(rig.radio.status.limits.first)
    #expect(limit.contains("battery level") && limit.contains("systemctl restart bluetooth"))
    #expect(limit.contains("--noplugin=battery"))
    #expect(rig.entries.all.filter { $0.id == .pairingAsked }.count == 1)

    rig.fake.vanish()
    _ = try await rig.statuses.first { $0.state != .ready }
    try await rig.fake.start()
    _ = try await rig.statuses.first { $0.state == .ready && !$0.limits.isEmpty }
    #expect(rig.entries.all.filter { $0.id == .pairingAsked }.count == 1, "after a restart with the same options")

    rig.fake.vanish()
    manager.commandLines = ["\(Self.daemon) --noplugin=battery"]
    try await rig.fake.start()
    _ = try await rig.statuses.first { $0.state == .ready && $0.limits.isEmpty }
    #expect(rig.entries.all.filter { $0.id == .pairingAsked }.count == 1)
  }

  @Test(
    "Without systemd, or if systemd did not start bluetoothd, the battery plugin is not reported",
    arguments: [[], ["/bin/sh"]])
  @LoopActor
  func unknown(commandLines: [String]) async throws {
    let rig = try await Rig(prepare: nil)
    defer { rig.close() }
    let manager = FakeServiceManager(rig.bus)
    manager.commandLines = commandLines
    if !commandLines.isEmpty { try await manager.start() }
    defer { manager.close() }
    rig.fake.addAdapter()
    try await rig.fake.start()
    try await rig.reach(.ready)
    try await rig.settle()
    #expect(rig.radio.status.limits == [])
    #expect(rig.entries.all.allSatisfy { $0.id != .pairingAsked })
  }

  // MARK: The drop-in of the package

  /// Runs the generator with files of bluetooth.service below a folder in place of `/`.
  ///
  /// - Returns: the generated drop-in; nil where none was written.
  private func generated(_ files: [String: String]) throws -> String? {
    let root = try ScratchFolder()
    for (path, text) in files {
      try root.make(path.split(separator: "/").dropLast().joined(separator: "/"))
      try root.write(Array(text.utf8), to: path)
    }
    let generator = URL(filePath: #filePath).appending(path: "../../../../systemd/bluetooth-generator")
      .standardizedFileURL
    let out = root.path("run/systemd/generator")
    let program = try Program(["env", "EARSHOT_GENERATOR_ROOT=\(root.path)", generator.path, out, out, out])
    #expect(program.wait() == 0)
    let drop = "run/systemd/generator/bluetooth.service.d/zzzz-earshot.conf"
    return root.exists(drop) ? String(decoding: try root.read(drop), as: UTF8.self) : nil
  }

  private static let shipped = [
    "usr/lib/systemd/system/bluetooth.service": "[Unit]\nDescription=x\n[Service]\nType=dbus\nExecStart=\(daemon)\n"
  ]

  /// Expects that the drop-in has the command and nothing else.
  private func expect(_ text: String?, _ command: String, _ comment: Comment? = nil) {
    let lines = text?.split(separator: "\n").filter { !$0.hasPrefix("#") }.map(String.init)
    #expect(lines == ["[Service]", "ExecStart=", "ExecStart=\(command)"], comment)
  }

  @Test("The systemd drop-in appends the option against the battery plugin to the distribution's command line")
  func shipped() throws {
    expect(try generated(Self.shipped), "\(Self.daemon) --noplugin=battery")
    let other = "/usr/lib/bluetooth/bluetoothd"
    let text = "[Service]\n# ExecStart=/bin/false\nExecStart = -\(other)   -C  \n"
    expect(try generated(["lib/systemd/system/bluetooth.service": text]), "-\(other)   -C --noplugin=battery")
  }

  @Test("Options of bluetoothd that administrators set in their drop-ins or units are preserved")
  func administrator() throws {
    let own = "[Service]\nExecStart=\nExecStart=\(Self.daemon) --experimental\n"
    for name in ["00-first.conf", "override.conf", "zzz.conf"] {
      let text = try generated(
        Self.shipped.merging(["etc/systemd/system/bluetooth.service.d/\(name)": own]) { $1 })
      expect(text, "\(Self.daemon) --experimental --noplugin=battery", "\(name)")
    }
    let unit = try generated(Self.shipped.merging(["etc/systemd/system/bluetooth.service": own]) { $1 })
    expect(unit, "\(Self.daemon) --experimental --noplugin=battery")
  }

  @Test("A drop-in in /etc hides one of the same name in /usr/lib, and the last drop-in by name applies")
  func order() throws {
    func command(_ option: String) -> String { "[Service]\nExecStart=\nExecStart=\(Self.daemon) \(option)\n" }
    let files = [
      "etc/systemd/system/bluetooth.service.d/b.conf": command("-C"),
      "usr/lib/systemd/system/bluetooth.service.d/b.conf": command("-K"),
      "run/systemd/system/bluetooth.service.d/a.conf": command("-E"),
    ]
    expect(try generated(Self.shipped.merging(files) { $1 }), "\(Self.daemon) -C --noplugin=battery")
  }

  @Test(
    "The drop-in preserves the exclusions of bluetoothd plugins that are already configured",
    arguments: [
      ("--noplugin=sap,avrcp", "sap,avrcp,battery"), ("-P sap", "sap,battery"), ("-Psap", "sap,battery"),
      ("--noplugin=\"sap\"", "sap,battery"), ("-E \\\n  -P a -P sap", "sap,battery"),
    ])
  func others(options: String, list: String) throws {
    let text = try generated([
      "lib/systemd/system/bluetooth.service": "[Service]\nExecStart=\(Self.daemon) \(options)\n"
    ])
    #expect(text?.hasSuffix(" --noplugin=\(list)\n") == true, "\(text ?? "nothing")")
  }

  @Test(
    "A bluetooth.service that already excludes the battery plugin, or has another command, is not changed",
    arguments: [
      "[Service]\nExecStart=/usr/libexec/bluetooth/bluetoothd --noplugin=battery\n",
      "[Service]\nExecStart=/usr/libexec/bluetooth/bluetoothd -P sap,battery\n",
      "[Service]\nExecStart=/usr/libexec/bluetooth/bluetoothd -P *\n",
      "[Service]\nExecStart=/bin/sh -c 'exec bluetoothd'\n", "[Service]\nExecStart=/a/bluetoothd\nExecStart=/b\n",
      "[Unit]\nExecStart=/usr/libexec/bluetooth/bluetoothd\n", "", "[Service]\nExecStart=\n",
    ])
  func leftAlone(unit: String) throws {
    #expect(try generated(["lib/systemd/system/bluetooth.service": unit]) == nil)
  }

  @Test("Without a bluetooth.service no drop-in against the battery plugin is written")
  func absent() throws {
    #expect(try generated([:]) == nil)
  }
}
