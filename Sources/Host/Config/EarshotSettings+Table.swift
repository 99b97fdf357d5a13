extension EarshotSettings {
  public static let table: [Setting<EarshotSettings>] =
    radioKeys + verifierKeys + walletKeys + storeKeys
    + busKeys + logKeys

  private static let credentialLimits = (1 << 10)...(64 << 20)
  private static let timeouts = Duration.seconds(1)...Duration.seconds(3_600)

  private static let radioKeys: [Setting<EarshotSettings>] = [
    Setting(
      "Radio", "Backend", \.radio.backend, .choice, .onRestart,
      "The radio to use: the machine's Bluetooth through BlueZ, or the simulated air, which needs no Bluetooth."),
    Setting(
      "Radio", "Adapter", \.radio.adapter, .optional(.text(upTo: 32)), .onRestart,
      "The Bluetooth adapter by name (hci0) or address. Empty: the first one there is."),
    Setting(
      "Radio", "AirSocket", \.radio.airSocket, .optional(.path(isSocket: true)), .onRestart,
      "The socket of the earshot-air hub whose simulated air is shared. Empty: an air of this process alone."),
    Setting(
      "Radio", "NotifyUnsubscribed", \.radio.notifyUnsubscribed, .bool, .onRestart,
      "Whether wallets that never subscribe, those on Android, get their answers by raw HCI, which takes CAP_NET_RAW. "
        + "BlueZ itself sends nothing to them."),
  ]

  private static let verifierKeys: [Setting<EarshotSettings>] = [
    Setting(
      "Verifier", "Enabled", \.verifier.enabled, .bool, .onRestart,
      "Whether to wait for wallets as soon as the service starts. Otherwise a D-Bus client has to ask for it."),
    Setting(
      "Verifier", "Name", \.verifier.name, .text(upTo: 14), .onRestart,
      "The name that is shown to people with a wallet and stands in the advertisement, which has no room for more."),
    Setting(
      "Verifier", "Dialects", \.verifier.dialects, dialects, .onRestart,
      "The versions of the Tuvali protocol that wallets may speak, as the releases of the wallet library count them. Each "
        + "has an advertisement of its own. 0.4 and 0.3 share their UUIDs, so only one of the two can be on the air."),
    Setting(
      "Verifier", "AdvertisingInterval", \.verifier.advertisingInterval,
      .duration(.milliseconds(20) ... .milliseconds(10_240)), .onRestart,
      "How often each advertisement is sent. Phones find the kiosk sooner with less, and the radio has less to do with "
        + "more."),
    Setting(
      "Verifier", "Decision", \.verifier.decision, .choice, .onReload,
      "Who answers the wallet when its credential has arrived: a D-Bus client, by Accept or Reject, or the service itself, "
        + "which accepts whatever arrived whole. It is kept until somebody fetches it."),
    Setting(
      "Verifier", "CredentialLimit", \.verifier.credentialLimit, .size(credentialLimits), .onRestart,
      "The largest credential to take, inflated. A larger one ends the transfer."),
    Setting(
      "Verifier", "ReportDelay", \.verifier.reportDelay, .duration(.zero ... .seconds(1)), .onReload,
      "How long to wait before telling the wallet which chunks are missing, so that chunks still on their way arrive."),
    Setting(
      "Verifier", "IdentifyTimeout", \.verifier.identifyTimeout, .duration(timeouts), .onReload,
      "How long a connected wallet may take to send its identity, which carries its key."),
    Setting(
      "Verifier", "IdleTimeout", \.verifier.idleTimeout, .duration(timeouts), .onReload,
      "How long a wallet may send nothing before it is disconnected."),
    Setting(
      "Verifier", "DecisionTimeout", \.verifier.decisionTimeout, .duration(timeouts), .onReload,
      "How long the wallet is kept waiting for Accept or Reject. After that it is asked to leave without a verdict; the credential goes on waiting for one."
    ),
    Setting(
      "Verifier", "LeaveTimeout", \.verifier.leaveTimeout, .duration(.milliseconds(100) ... .seconds(60)), .onReload,
      "How long the wallet may take to disconnect after the answer, before it is disconnected."),
    Setting(
      "Verifier", "KeptTransfers", \.verifier.keptTransfers, .number(1...1000), .onRestart,
      "How many transfers stay on D-Bus, the present one included, before the oldest that ended is forgotten. One whose "
        + "credential nobody has judged, or nobody has fetched, stays; when all are such, the next wallet is refused."),
    Setting(
      "Verifier", "VisitTimeout", \.verifier.visitTimeout, .duration(timeouts), .onReload,
      "How long a wallet may take for its whole credential, however lively it is."),
    Setting(
      "Verifier", "WaitingLinks", \.verifier.waitingLinks, .number(1...64), .onReload,
      "How many may be connected that have not said who they are. One more is disconnected at once."),
    Setting(
      "Verifier", "Links", \.verifier.links, .number(1...1024), .onReload,
      "How many may be connected in all, whoever they are. One more is disconnected at once; on BlueZ none is let in "
        + "beyond 64."),
    Setting(
      "Verifier", "LinksPerPeer", \.verifier.linksPerPeer, .number(1...64), .onReload,
      "How many links one address may have: a peer that is back may come before the end of its old link is known."),
  ]

  private static let walletKeys: [Setting<EarshotSettings>] = [
    Setting(
      "Wallet", "Enabled", \.wallet.enabled, .bool, .onRestart,
      "Whether D-Bus clients may present credentials to verifiers."),
    Setting(
      "Wallet", "CredentialLimit", \.wallet.credentialLimit, .size(credentialLimits), .onReload,
      "The largest credential to present, before it is compressed."),
    Setting(
      "Wallet", "ScanTimeout", \.wallet.scanTimeout, .duration(timeouts), .onReload,
      "How long to look for the verifier whose code was read."),
    Setting(
      "Wallet", "ConnectTimeout", \.wallet.connectTimeout, .duration(timeouts), .onReload,
      "How long connecting to the verifier may take, until it has answered who we are."),
    Setting(
      "Wallet", "ReportTimeout", \.wallet.reportTimeout, .duration(timeouts), .onReload,
      "How long to wait for the verifier's report of missing chunks before it is asked for again."),
    Setting(
      "Wallet", "IdleTimeout", \.wallet.idleTimeout, .duration(timeouts), .onReload,
      "How long there may be no sign of the verifier before the transfer has failed."),
    Setting(
      "Wallet", "TransferTimeout", \.wallet.transferTimeout, .duration(timeouts), .onReload,
      "How long a whole transfer may take, however lively the verifier is."),
    Setting(
      "Wallet", "Transfers", \.wallet.transfers, .number(1...64), .onReload,
      "How many transfers may be under way at one time. One more is refused."),
    Setting(
      "Wallet", "KeptTransfers", \.wallet.keptTransfers, .number(1...1000), .onReload,
      "How many transfers stay on D-Bus before the oldest that ended is forgotten."),
  ]

  private static let storeKeys: [Setting<EarshotSettings>] = [
    Setting(
      "Store", "Directory", \.store.directory, .optional(.path(isSocket: false)), .onRestart,
      "Where credentials that nobody has judged or fetched are kept, encrypted, over a restart. Empty: the directory that systemd "
        + "makes for the service, and memory alone where there is none."),
    Setting(
      "Store", "KeepFor", \.store.keepFor, .duration(.seconds(60) ... .seconds(31_536_000)), .onReload,
      "How long a credential waits for Accept or Reject, and to be fetched, before it is erased."),
    Setting(
      "Store", "Bytes", \.store.bytes, .size((1 << 20)...(1 << 30)), .onRestart,
      "How much all credentials that wait may take together, on the disk as well as in memory. One more is refused."),
  ]

  private static let busKeys: [Setting<EarshotSettings>] = [
    Setting(
      "Bus", "WaitingCallers", \.bus.waitingCallers, .number(1...4096), .onRestart,
      "Of how many callers it may be asked at one time who they are. The calls of one more are refused."),
    Setting(
      "Bus", "WaitingCalls", \.bus.waitingCalls, .number(1...4096), .onRestart,
      "How many calls of one caller wait until that is known. One more is refused."),
  ]

  private static let logKeys: [Setting<EarshotSettings>] = [
    Setting(
      "Log", "Level", \.log.level, .choice, .onReload,
      "The least important lines that are logged; debug tells most."),
    Setting(
      "Log", "LinesPerPeer", \.log.linesPerPeer, .number(1...10_000), .onReload,
      "How many warnings about one peer are written in a minute, and how many other lines. How many were left out is "
        + "told afterwards."),
  ]

  private static let dialects = ValueKind<[Verifier.Dialect]>.list().refusing { dialects in
    dialects.contains(.v04) && dialects.contains(.v03) ? "0.4 and 0.3 share their UUIDs, choose one of them" : nil
  }
}
