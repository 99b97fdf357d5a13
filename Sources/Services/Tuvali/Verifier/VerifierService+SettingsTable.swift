import Checking
import Config
import Tuvali

extension VerifierService.Settings {
  public static let section = "Verifier"

  private static let credentialLimits = (1 << 10)...(64 << 20)
  private static let timeouts = Duration.seconds(1)...Duration.seconds(3_600)

  /// Maximum memory in bytes: waiting credentials with their verdicts; per session a frame, its decrypted and its
  /// inflated form; and credentials being checked.
  public var memory: Int {
    vault.maximumBytes + engine.visitors * 3 * engine.credentialLimit
      + (check.isOn ? CheckQueue.width * (engine.credentialLimit + 8 * CheckReply.limit) : 0)
  }

  public static let keys: [Setting<VerifierService.Settings>] = [
    Setting(
      "Enabled", \.enabled, .bool, .onRestart,
      "Whether to wait for wallets as soon as the service starts. Otherwise a program has to ask for it over D-Bus."),
    Setting(
      "Name", \.engine.name, .text(upTo: Limits.nameBytes), .onRestart,
      "The name that is shown to people with a wallet and stands in the advertisement, which has no room for more."),
    Setting(
      "Dialects", \.dialects, dialectKind, .onRestart,
      "The versions of the Tuvali protocol that wallets may speak, as the releases of the wallet library count them. Each "
        + "has an advertisement of its own. 0.4 and 0.3 share their UUIDs, so only one of the two can be on the air."),
    Setting(
      "AdvertisingInterval", \.advertisingInterval,
      .duration(.milliseconds(20) ... .milliseconds(10_240)), .onRestart,
      "How often each advertisement is sent. Phones find the kiosk sooner with less, and the radio has less to do with "
        + "more."),
    Setting(
      "Decision", \.decision, .choice, .onReload,
      "Who answers the wallet when its credential has arrived: a program (client), by Accept or Reject; or the service itself. With "
        + "accept it accepts whatever arrived whole. With check it accepts a credential with the verdict valid, and rejects each "
        + "other one but those that OnUndecided= is about; it needs Check=yes. An accepted credential is kept until somebody "
        + "fetches it."),
    Setting(
      "Check", \.check.isOn, .bool, .onReload,
      "Whether each credential is checked by earshot-check, a package of its own: issuer, signature, dates and revocation. The verdict is "
        + "on D-Bus. Without the package each credential is undecided."),
    Setting(
      "OnUndecided", \.check.onUndecided, .choice, .onReload,
      "What Decision=check does with a credential on which the checker cannot decide (a format that is not supported, an unknown status, "
        + "a checker that failed): hold leaves it to the operator, reject rejects it. While no checker is installed, "
        + "credentials are held in any case."),
    Setting(
      "CheckSocket", \.check.socket, .path(isSocket: true), .onRestart,
      "Where the checker listens: the socket of earshot-check.socket."),
    Setting(
      "CheckTimeout", \.check.timeout, .duration(.seconds(1) ... .seconds(300)), .onRestart,
      "The time limit of a check. The unit earshot-check@.service has shorter limits, which a slow machine needs to raise as well "
        + "(docs/check.md, \"Slow machines\")."),
    Setting(
      "Visitors", \.engine.visitors, .number(1...32), .onRestart,
      "How many wallets may send at a time. A wallet counts from the announcement of its credential to the verdict. When one "
        + "more announces a credential, a transfer is ended that has had no progress for 5 s, is slower than 2 kB/s or is "
        + "older than 30 s. If there is none, the newest wallet is refused."),
    Setting(
      "CredentialLimit", \.engine.credentialLimit, .size(credentialLimits), .onRestart,
      "The largest credential to take, inflated. A larger one ends the transfer."),
    Setting(
      "ReportDelay", \.engine.reportDelay, .duration(.zero ... .seconds(1)), .onReload,
      "How long to wait before telling the wallet which chunks are missing, so that chunks still on their way arrive."),
    Setting(
      "IdentifyTimeout", \.engine.identifyTimeout, .duration(timeouts), .onReload,
      "How long a connected wallet may take to send its identity, which carries its key."),
    Setting(
      "AnnounceTimeout", \.engine.announceTimeout, .duration(timeouts), .onReload,
      "How long a wallet may take from its identity to the announcement of its credential, while a person chooses a card or "
        + "takes a photo. When another wallet needs a link, the wallet that has been silent longest is disconnected, at the "
        + "earliest 2 s after its identity."),
    Setting(
      "IdleTimeout", \.engine.idleTimeout, .duration(timeouts), .onReload,
      "How long a wallet that has announced a credential may send nothing new before it is disconnected."),
    Setting(
      "DecisionTimeout", \.engine.decisionTimeout, .duration(timeouts), .onReload,
      "How long the wallet is kept waiting for Accept or Reject. After that it is asked to leave without a verdict; the "
        + "credential goes on waiting for one."),
    Setting(
      "LeaveTimeout", \.engine.leaveTimeout, .duration(.milliseconds(100) ... .seconds(60)), .onReload,
      "How long the wallet may take to disconnect after the answer, before it is disconnected."),
    Setting(
      "KeptTransfers", \.keptTransfers, .number(1...1000), .onRestart,
      "How many transfers stay on D-Bus, the present ones included, before the oldest that ended is forgotten. One whose "
        + "credential is still to be judged or fetched stays; when all are such, no wallet is invited. Credentials "
        + "without a verdict leave capacity for Visitors more, which is for phones that wait for their verdict."),
    Setting(
      "KeepFor", \.vault.keepFor, .duration(.seconds(60) ... .seconds(31_536_000)), .onReload,
      "How long a credential waits for Accept or Reject, and to be fetched, before it is erased. On a machine without a "
        + "clock the time counts that the service runs.", erasesLeast: .seconds(31_536_000)),
    Setting(
      "KeptBytes", \.vault.maximumBytes, .size((1 << 20)...(1 << 30)), .onRestart,
      "How much all credentials that wait may take together, on the disk as well as in memory. One more is refused."),
    Setting(
      "VisitTimeout", \.engine.visitTimeout, .duration(timeouts), .onReload,
      "How long a wallet may take from the announcement of its credential to the last byte, however large the credential is. "
        + "A smaller one has less: a minute, and a second for each 1000 bytes."),
    Setting(
      "WaitingLinks", \.engine.waitingLinks, .number(1...64), .onReload,
      "How many connected wallets may wait before they identify themselves. When one more connects, the one that has waited "
        + "longest is disconnected if that is 4 s or more; otherwise the new one is. The limit is lower where they and the "
        + "wallets that have identified themselves would take all links of the radio."),
    Setting(
      "Links", \.links, .number(1...1024), .onReload,
      "How many may be connected in all, whoever they are. One more is disconnected at once; on BlueZ none is let in "
        + "beyond 64."),
    Setting(
      "LinksPerPeer", \.linksPerPeer, .number(1...64), .onReload,
      "How many links one address may have: a peer that is back may come before the end of its old link is known."),
  ]

  private static let dialectKind = ValueKind<[Dialect.Name]>.list().refusing { names in
    names.contains(.v04) && names.contains(.v03) ? "0.4 and 0.3 share their UUIDs, choose one of them" : nil
  }.converted(into: { $0.map(Dialect.named) }, back: { $0.map(\.name) })
}
