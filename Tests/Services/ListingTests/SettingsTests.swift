import Broadcast
import DBus
import Foundation
import Hosting
import Listing
import Mesh
import Testing
import Tuvali
import Verifier
import Wallet

@testable import Config

@Suite("Settings of the program and its services")
struct SettingsTests {
  private static let defaults = ServiceList.all.configuration

  private static func read(_ text: String) -> (configuration: Configuration, complaints: [String]) {
    var configuration = defaults
    let complaints = configuration.apply(INI(Array(text.utf8), file: "f"))
    return (configuration, complaints.map(\.description))
  }

  @Test("Every configuration key can be set")
  func everyKey() {
    let text = """
      [Radio]
      Backend=air
      Adapter=hci1
      AirSocket=/run/air
      NotifyUnsubscribed=no
      StartBluetooth=no
      OpenStreams=no
      Links=17
      [Verifier]
      Enabled=yes
      Name=Kiosk
      Dialects=0.3
      AdvertisingInterval=250ms
      Decision=accept
      Check=yes
      OnUndecided=reject
      CheckSocket=/run/checker
      CheckTimeout=30s
      SessionSlots=7
      CredentialLimit=1M
      ReportDelay=0
      IdentifyTimeout=1s
      AnnounceTimeout=4s
      IdleTimeout=2s
      DecisionTimeout=3s
      DisconnectTimeout=100ms
      KeptTransfers=1
      TransferTimeout=20s
      WaitingLinks=3
      Links=5
      LinksPerPeer=1
      KeepFor=2h
      HistoryFor=5h
      KeptBytes=3M
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
      [Mesh]
      Enabled=yes
      Nickname=relay 7
      Role=relay
      RelayPolicy=apps
      Archive=1h
      FileStore=9M
      FilesFor=2h
      Peers=3
      DeviceMonitor=strict
      EncryptedRelayTtlCap=4
      PadAll=yes
      BlockRelay=yes
      TrustClock=yes
      Dialect=seed
      DialectOf=0123456789abcdef:live, ba0aaa2f5ccca1a6:seed
      CourierEnvelopes=7
      Power=battery
      NostrInnerNoise=yes
      [PresenceRadio]
      Enabled=no
      Reachable=no
      LiteralAdvertisement=yes
      [Broadcast]
      Enabled=yes
      NotifyLimit=7
      FollowAddresses=yes
      Degraded=yes
      [Radio]
      LinkInterval=kernel
      Link2M=no
      [Store]
      Directory=/srv/credentials
      MemoryLimit=1G
      [Bus]
      WaitingCallers=9
      WaitingCalls=11
      CallsPerSecond=17
      [Log]
      Level=debug
      LinesPerPeer=13
      [Metrics]
      File=/run/other/metrics.prom
      Interval=1min
      """
    let (read, complaints) = Self.read(text)
    #expect(complaints == [])
    let radio = read[RadioSettings.self]
    #expect(radio.backend == .air && radio.adapter == "hci1" && radio.airSocket == "/run/air")
    #expect(!radio.notifyUnsubscribed && !radio.startsBluetooth && radio.openStreams == .no)
    #expect(radio.linkInterval == nil && !radio.selects2M)
    let verifier = read[VerifierService.Settings.self]
    let engine = verifier.engine
    #expect(verifier.enabled && engine.name == "Kiosk" && verifier.decision == .accept)
    #expect(verifier.check.isOn && verifier.check.onUndecided == .reject && verifier.check.socket == "/run/checker")
    #expect(verifier.dialects == [.v03] && engine.credentialLimit == 1 << 20)
    #expect(verifier.advertisingInterval == .milliseconds(250))
    #expect(engine.visitors == 7)
    #expect(engine.reportDelay == .zero && engine.disconnectTimeout == .milliseconds(100))
    #expect(engine.identifyTimeout == .seconds(1) && engine.idleTimeout == .seconds(2))
    #expect(engine.announceTimeout == .seconds(4))
    #expect(engine.decisionTimeout == .seconds(3) && verifier.keptTransfers == 1)
    #expect(engine.transferTimeout == .seconds(20) && engine.waitingLinks == 3)
    #expect(verifier.vault.keepFor == .seconds(7_200) && verifier.vault.maximumBytes == 3 << 20)
    #expect(read[RadioSettings.self].links == 17 && read[RadioSettings.self].linkLimits.links == 17)
    #expect(verifier.historyFor == .seconds(18_000))
    #expect(verifier.links == 5 && verifier.linksPerPeer == 1)
    let wallet = read[WalletService.Settings.self]
    #expect(wallet.engine.transferTimeout == .seconds(30))
    #expect(!wallet.enabled && wallet.engine.credentialLimit == 64 << 10)
    #expect(wallet.engine.scanTimeout == .seconds(4) && wallet.engine.connectTimeout == .seconds(5))
    #expect(wallet.engine.reportTimeout == .seconds(6) && wallet.engine.idleTimeout == .seconds(3_600))
    #expect(wallet.concurrentTransfers == 2 && wallet.keptTransfers == 7)
    let mesh = read[MeshSettings.self]
    #expect(mesh.enabled && mesh.nickname == "relay 7" && mesh.role == .relay && mesh.relayPolicy == .apps)
    #expect(mesh.fileStore == 9 << 20 && mesh.filesFor == .seconds(7_200))
    #expect(mesh.archive == .seconds(3_600) && mesh.links == 3 && mesh.monitor == .strict)
    #expect(mesh.encryptedRelayLimit == 4 && mesh.padsAll && mesh.blocksRelay && mesh.trustsClock)
    #expect(mesh.dialect == .seed && mesh.dialects.map(\.dialect) == [.live, .seed])
    #expect(mesh.courierEnvelopes == 7 && mesh.power == .battery && mesh.sealsUplink)
    let feed = read[BroadcastService.Settings.self]
    #expect(feed.enabled && feed.notifyLimit == 7 && feed.followsAddresses)
    #expect(read[StoreSettings.self].directory == "/srv/credentials")
    let bus = read[BusSettings.self].limits
    #expect(bus.waitingCallers == 9 && bus.waitingCalls == 11 && bus.callsPerSecond == 17)
    #expect(read[StoreSettings.self].memoryLimit == 1 << 30)
    #expect(read[LogSettings.self].level == .debug && read[LogSettings.self].linesPerPeer == 13)

    #expect(read[MetricsSettings.self].path { _ in "/run/earshot" } == "/run/other/metrics.prom")
    #expect(read[MetricsSettings.self].interval == .seconds(60))
    #expect(MetricsSettings().path { _ in "/run/earshot:/run/second" } == "/run/earshot/metrics.prom")
    #expect(MetricsSettings().path { _ in nil } == nil)

    // Each setting is a change, and setting the defaults reverts it.
    #expect(Self.defaults.changes(to: read).count == Self.defaults.table.count)
    let blank = text.split(separator: "\n").map { $0.hasPrefix("[") ? "\($0)\n" : $0.prefix { $0 != "=" } + "=\n" }
    #expect(Self.defaults.changes(to: Self.read(text + "\n" + blank.joined()).configuration) == [])
  }

  @Test("The default memory limits fit the unit's MemoryMax, and larger settings are reported")
  func memory() throws {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let unit = try String(contentsOf: top.appendingPathComponent("systemd/earshotd.service"), encoding: .utf8)
    let limit = Self.defaults[StoreSettings.self].memoryLimit
    #expect(unit.contains("\nMemoryMax=\(limit >> 20)M\n"))
    #expect(MemoryBudget.objection(to: Self.defaults) == nil)
    // The values fit together even where all services are enabled.
    let all = Self.read("[Mesh]\nEnabled=yes\nRole=mailbox\nCourierEnvelopes=1000\n[Broadcast]\nEnabled=yes")
    #expect(all.complaints == [] && MemoryBudget.objection(to: all.configuration) == nil)

    let large = [
      "[Verifier]\nKeptBytes=512M", "[Verifier]\nCredentialLimit=64M", "[Wallet]\nCredentialLimit=64M",
      "[Wallet]\nTransfers=64", "[Store]\nMemoryLimit=300M",
    ]
    for text in large {
      let objection = try #require(MemoryBudget.objection(to: Self.read(text).configuration), "\(text)")
      #expect(objection.contains("MemoryMax="), "\(text)")
      let raised = Self.read("\(text)\n[Store]\nMemoryLimit=4G").configuration
      #expect(MemoryBudget.objection(to: raised) == nil, "\(text)")
    }
    // At the boundary: exactly three quarters of the limit are permitted, and one byte more is not.
    var edge = Self.defaults
    edge[StoreSettings.self].memoryLimit = 1 << 30
    let room = (1 << 30) / 4 * 3 - (32 << 20)
    edge[VerifierService.Settings.self].vault.maximumBytes += room - edge.memory
    #expect(edge.memory == room && MemoryBudget.objection(to: edge) == nil)
    edge[VerifierService.Settings.self].vault.maximumBytes += 1
    #expect(MemoryBudget.objection(to: edge) != nil)
  }

  @Test("The value that is shown for a configuration key is read back as the same value")
  func table() {
    for key in Self.defaults.table {
      var configuration = Self.defaults
      #expect(key.assign(key.show(configuration), &configuration) == nil, "\(key.name)")
      #expect(Self.defaults.changes(to: configuration) == [], "\(key.name)")
      #expect(key.documentation.hasSuffix("."), "\(key.name)")
    }
    let names = Self.defaults.table.map(\.name)
    #expect(Set(names).count == names.count)
  }

  @Test(
    "An unusable setting is reported with its file and line and the value in force",
    arguments: [
      (
        "[Verifier]\nName=a name too long",
        "f:2: Name=a name too long is not a text of at most 14 bytes. Its value stays OVPMOSIP."
      ),
      (
        "[Verifier]\nDialects=0.4, 0.3",
        "f:2: Dialects=0.4, 0.3 is invalid: 0.4 and 0.3 share their UUIDs, choose one of them. Its value stays 0.5 0.4."
      ),
      (
        "[Verifier]\nDialects=0.6", "f:2: Dialects=0.6 is not one or more of 0.5, 0.4 and 0.3. Its value stays 0.5 0.4."
      ),
      ("[Store]\nKeepFor=1h", "f:2: Section [Store] has no key KeepFor; it is ignored."),
      ("[Log]\nLevel=loud", "f:2: Level=loud is not error, warning, notice, info or debug. Its value stays info."),
    ])
  func complaints(text: String, expected: String) {
    #expect(Self.read(text).complaints == [expected])
  }

  @Test("Each renamed key is refused with the name of the present key")
  func renamedKeys() {
    let renamed = Self.defaults.table.flatMap { key in key.earlierNames.map { (key: key, earlier: $0) } }
    #expect(renamed.count == 3)
    for (key, earlier) in renamed {
      #expect(!Self.defaults.table.contains { $0.section == key.section && $0.key == earlier })
      let complaints = Self.read("[\(key.section)]\n\(earlier)=1\n").complaints
      #expect(complaints.count == 1)
      #expect(complaints.first?.hasPrefix("f:2: \(earlier)= is ignored: the key is now \(key.key)=.") == true)
    }
  }

  @Test("A start with an unreadable configuration erases no stored data that the file may tell to preserve")
  func cautiousStart() throws {
    let missing = Self.defaults.load(from: ConfigurationFiles(only: "/nowhere/earshot.conf"))
    #expect(
      Self.defaults.changes(to: missing.configuration).map { "\($0.name)=\($0.new)" } == [
        "Verifier.KeepFor=8760h", "Verifier.HistoryFor=8760h", "Mesh.FileStore=1G", "Mesh.FilesFor=8760h",
      ])
    let mesh = Self.read("[Mesh]\nFilesFor=7 days\n").configuration[MeshSettings.self]
    #expect(mesh.filesFor == .seconds(365 * 24 * 3600) && mesh.fileStore == MeshSettings().fileStore)
  }

  @Test("The default settings equal the defaults of engine, store and bus")
  func defaults() {
    let verifier = Self.defaults[VerifierService.Settings.self]
    let engine = VerifierEngine.Configuration(name: verifier.engine.name)
    #expect(verifier.engine.identifyTimeout == engine.identifyTimeout)
    #expect(verifier.engine.credentialLimit == engine.credentialLimit)
    #expect(verifier.vault.keepFor == CredentialStoreSettings().keepFor)
    #expect(verifier.linesPerPeer == Self.defaults[LogSettings.self].linesPerPeer)
    #expect(Self.defaults[WalletService.Settings.self].engine.scanTimeout == WalletEngine.Configuration().scanTimeout)
    #expect(Self.defaults[BusSettings.self].limits.waitingCalls == BusLimits().waitingCalls)
    // The verifier gets its own section, and the configured number of log lines per peer.
    let settings = VerifierService.Settings(Self.read("[Verifier]\nLinks=3\n[Log]\nLinesPerPeer=2\n").configuration)
    #expect(settings.links == 3 && settings.linesPerPeer == 2)
  }

  @Test(
    "The verifier's share is all links of the adapter but one, and at least one",
    arguments: [
      ("", 7, 7), ("[Verifier]\nSessionSlots=1\n", 7, 7), ("[Radio]\nLinks=4\n", 3, 3), ("[Radio]\nLinks=1\n", 1, 1),
    ])
  func links(text: String, needs: Int, links: Int) {
    let configuration = Self.read(text).configuration
    #expect(VerifierService.linkShare(in: configuration).needs == needs)
    // Without the setting, the verifier takes no link that newcomers need.
    #expect(VerifierService.Settings(configuration).engine.links == links)
  }

  @Test(
    "Only an enabled broadcast service whose settings allow it may use a degraded radio",
    arguments: [
      ("", false), ("[Broadcast]\nEnabled=yes\n", false), ("[Broadcast]\nDegraded=yes\n", false),
      ("[Broadcast]\nEnabled=yes\nDegraded=yes\n", true),
    ])
  func degraded(text: String, isTaken: Bool) {
    let configuration = Self.read(text).configuration
    #expect(BroadcastService.takesDegradedRadio(in: configuration) == isTaken)
    #expect(!VerifierService.takesDegradedRadio(in: configuration))
  }

  @Test("The default configuration file shows all defaults in 80 columns, and every key in it can be enabled")
  func defaultFile() {
    let text = Self.defaults.defaultFile
    #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 })
    #expect(INI(Array(text.utf8), file: "f").entries == [])
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    let switchedOn = lines.map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? $0.dropFirst() : $0 }.joined(
      separator: "\n")
    let ini = INI(Array(switchedOn.utf8), file: "f")
    #expect(ini.entries.count == Self.defaults.table.count)
    #expect(Self.read(switchedOn).complaints == [])
    #expect(Self.defaults.changes(to: Self.read(switchedOn).configuration) == [])
  }

  @Test("config/earshot.conf equals the default configuration file (EARSHOT_REGENERATE=1 rewrites it)")
  func checkedIn() throws {
    let path = #filePath.split(separator: "/").dropLast(4).map { "/\($0)" }.joined() + "/config/earshot.conf"
    if ProcessInfo.processInfo.environment["EARSHOT_REGENERATE"] != nil {
      try Self.defaults.defaultFile.write(toFile: path, atomically: true, encoding: .utf8)
    }
    #expect(try String(contentsOfFile: path, encoding: .utf8) == Self.defaults.defaultFile)
  }
}
