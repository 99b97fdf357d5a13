import Foundation
import Testing

@testable import Config

@Suite struct EarshotSettingsTests {
  private static func read(_ text: String) -> (settings: EarshotSettings, complaints: [String]) {
    var settings = EarshotSettings()
    let complaints = settings.apply(INI(Array(text.utf8), file: "f"))
    return (settings, complaints.map(\.description))
  }

  @Test("Every key can be set")
  func everyKey() {
    let text = """
      [Radio]
      Backend=air
      Adapter=hci1
      AirSocket=/run/air
      NotifyUnsubscribed=no
      [Verifier]
      Enabled=yes
      Name=Kiosk
      Dialects=0.3
      AdvertisingInterval=250ms
      Decision=accept
      CredentialLimit=1M
      ReportDelay=0
      IdentifyTimeout=1s
      IdleTimeout=2s
      DecisionTimeout=3s
      LeaveTimeout=100ms
      KeptTransfers=1
      VisitTimeout=20s
      WaitingLinks=3
      Links=5
      LinksPerPeer=1
      [Wallet]
      Enabled=no
      CredentialLimit=64K
      ScanTimeout=4s
      ConnectTimeout=5s
      ReportTimeout=6s
      IdleTimeout=1h
      TransferTimeout=30s
      Transfers=2
      KeptTransfers=7
      [Store]
      Directory=/srv/credentials
      KeepFor=2h
      Bytes=3M
      [Bus]
      WaitingCallers=9
      WaitingCalls=11
      [Log]
      Level=debug
      LinesPerPeer=13
      """
    let (settings, complaints) = Self.read(text)
    #expect(complaints == [])
    #expect(settings.radio == .init(backend: .air, adapter: "hci1", airSocket: "/run/air", notifyUnsubscribed: false))
    #expect(settings.verifier.enabled && settings.verifier.name == "Kiosk" && settings.verifier.decision == .accept)
    #expect(settings.verifier.dialects == [.v03] && settings.verifier.credentialLimit == 1 << 20)
    #expect(settings.verifier.advertisingInterval == .milliseconds(250))
    #expect(settings.verifier.reportDelay == .zero && settings.verifier.leaveTimeout == .milliseconds(100))
    #expect(settings.verifier.identifyTimeout == .seconds(1) && settings.verifier.idleTimeout == .seconds(2))
    #expect(settings.verifier.decisionTimeout == .seconds(3) && settings.verifier.keptTransfers == 1)
    #expect(settings.verifier.visitTimeout == .seconds(20) && settings.verifier.waitingLinks == 3)
    #expect(settings.wallet.transferTimeout == .seconds(30))
    #expect(!settings.wallet.enabled && settings.wallet.credentialLimit == 64 << 10)
    #expect(settings.wallet.scanTimeout == .seconds(4) && settings.wallet.connectTimeout == .seconds(5))
    #expect(settings.wallet.reportTimeout == .seconds(6) && settings.wallet.idleTimeout == .seconds(3_600))
    #expect(settings.store == .init(directory: "/srv/credentials", keepFor: .seconds(7_200), bytes: 3 << 20))
    #expect(settings.verifier.links == 5 && settings.verifier.linksPerPeer == 1)
    #expect(settings.wallet.transfers == 2 && settings.wallet.keptTransfers == 7)
    #expect(settings.bus == .init(waitingCallers: 9, waitingCalls: 11))
    #expect(settings.log == .init(level: .debug, linesPerPeer: 13))

    // Each of them is a change, and putting the defaults into the same keys undoes it.
    let defaults = EarshotSettings()
    #expect(defaults.changes(to: settings).count == EarshotSettings.table.count)
    #expect(EarshotSettings().changes(to: defaults) == [])
    let blank = text.split(separator: "\n").map { $0.hasPrefix("[") ? "\($0)\n" : $0.prefix { $0 != "=" } + "=\n" }
    #expect(Self.read(text + "\n" + blank.joined()).settings == defaults)
  }

  @Test("What the table shows it reads back, so that no key needs a second description")
  func table() {
    let defaults = EarshotSettings()
    for setting in EarshotSettings.table {
      var settings = defaults
      #expect(setting.assign(setting.show(defaults), &settings) == nil, "\(setting.key)")
      #expect(settings == defaults, "\(setting.key)")
      #expect(setting.documentation.hasSuffix("."), "\(setting.key)")
    }
    let names = EarshotSettings.table.map { "\($0.section).\($0.key)" }
    #expect(Set(names).count == names.count)
  }

  @Test(
    "What cannot be used is named with its place, and what is in force instead",
    arguments: [
      (
        "[Verifier]\nName=a name too long",
        "f:2: Name=a name too long is not a text of at most 14 bytes. It stays OVPMOSIP."
      ),
      (
        "[Verifier]\nCredentialLimit=8M\nCredentialLimit=99G",
        "f:3: CredentialLimit=99G is not a size from 1K to 64M. It stays 8M."
      ),
      (
        "[Verifier]\nDialects=0.4, 0.3",
        "f:2: Dialects=0.4, 0.3 cannot be: 0.4 and 0.3 share their UUIDs, choose one of them. It stays 0.5 0.4."
      ),
      ("[Verifier]\nDialects=0.6", "f:2: Dialects=0.6 is not one or more of 0.5, 0.4 and 0.3. It stays 0.5 0.4."),
      (
        "[Radio]\nAirSocket=air",
        "f:2: AirSocket=air is not an absolute path of at most 107 bytes, or nothing. It stays empty."
      ),
      (
        "[Verifier]\nIdleTimout=2s",
        "f:2: Section [Verifier] has no key IdleTimout; it is ignored. Did you mean IdleTimeout?"
      ),
      ("[Log]\nColour=yes", "f:2: Section [Log] has no key Colour; it is ignored."),
      ("[verifier]\nName=x", "f:1: There is no section [verifier]; it is ignored. Did you mean [Verifier]?"),
      ("[Printer]\nName=x", "f:1: There is no section [Printer]; it is ignored."),
    ])
  func complaints(text: String, expected: String) {
    #expect(Self.read(text).complaints == [expected])
  }

  @Test("Sections and keys that begin with X- are somebody else's")
  func foreign() {
    #expect(Self.read("[X-Shop]\nk=v\n[Log]\nX-Note=v\n").complaints == [])
  }

  @Test("A reload takes up what it can, and names what needs a restart")
  func reload() {
    var new = EarshotSettings()
    new.radio.adapter = "hci1"
    new.log.level = .debug
    let changes = EarshotSettings().changes(to: new)
    #expect(
      changes == [
        SettingChange(name: "Radio.Adapter", old: "", new: "hci1", needsRestart: true),
        SettingChange(name: "Log.Level", old: "info", new: "debug", needsRestart: false),
      ])
    let inForce = new.keepingRestartSettings(of: EarshotSettings())
    #expect(inForce.radio.adapter == nil && inForce.log.level == .debug)
    // Back to the adapter that was asked for: an empty value is not the same as leaving it out.
    #expect(EarshotSettings().keepingRestartSettings(of: new).radio.adapter == "hci1")
  }

  @Test("The default file says the defaults, fits into 80 columns, and is valid with every key switched on")
  func defaultFile() {
    let text = EarshotSettings.defaultFile
    #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 })
    #expect(INI(Array(text.utf8), file: "f").entries == [])
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let switchedOn = lines.map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? $0.dropFirst() : $0 }.joined(
      separator: "\n")
    let ini = INI(Array(switchedOn.utf8), file: "f")
    #expect(ini.entries.count == EarshotSettings.table.count)
    #expect(Self.read(switchedOn).complaints == [])
    #expect(Self.read(switchedOn).settings == EarshotSettings())
  }

  @Test("The checked-in config/earshot.conf is the default file; EARSHOT_REGENERATE=1 writes it anew")
  func checkedIn() throws {
    let path = #filePath.split(separator: "/").dropLast(4).map { "/\($0)" }.joined() + "/config/earshot.conf"
    if ProcessInfo.processInfo.environment["EARSHOT_REGENERATE"] != nil {
      try EarshotSettings.defaultFile.write(toFile: path, atomically: true, encoding: .utf8)
    }
    #expect(try String(contentsOfFile: path, encoding: .utf8) == EarshotSettings.defaultFile)
  }
}
