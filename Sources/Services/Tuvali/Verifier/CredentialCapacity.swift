import Loop
import Transfers
import Tuvali

/// Stored credentials, and the remaining capacity.
///
/// All credentials without a verdict share a quota, because anyone with a radio can send one-byte credentials from new
/// addresses and disconnect. The rest of the capacity is for phones that wait for their verdict. Their credentials are
/// provisional: they are stored only while the phone stays connected.
struct CredentialCapacity {
  /// Load of the store, on which an operator may have to act.
  struct Load: Hashable {
    enum Kind: Hashable { case normal, crowded, full }

    let kind: Kind
    /// Problem and remedy; empty for `normal`.
    let sentence: String
  }

  private let limit: Int
  private let byteLimit: Int
  /// Number and bytes of the permanently stored credentials, and of those among them that have no verdict.
  private var kept = 0, keptBytes = 0, unjudged = 0, unjudgedBytes = 0
  private let quota: Int
  private let byteQuota: Int

  @LoopActor
  init(of transfers: [Transfer], _ settings: VerifierService.Settings, bytes: Int) {
    limit = settings.keptTransfers
    byteLimit = bytes
    quota = Self.quota(settings)
    let slots = settings.engine.visitors
    byteQuota = quota == limit ? bytes : bytes - min(bytes / 4, slots * settings.engine.credentialLimit)
    for transfer in transfers where !transfer.isProvisional {
      guard let text = transfer.text else { continue }
      let count = text.count + (transfer.verdictDocument?.count ?? 0)
      kept += 1
      keptBytes += count
      guard transfer.state == .received else { continue }
      unjudged += 1
      unjudgedBytes += count
    }
  }

  /// Maximum number of credentials without a verdict: the capacity minus one for each session slot. It is the whole
  /// capacity if less than half would be left, or if the service accepts credentials by itself.
  static func quota(_ settings: VerifierService.Settings) -> Int {
    let (limit, slots) = (settings.keptTransfers, settings.engine.visitors)
    return settings.decision == .accept || limit < 2 * slots ? limit : limit - slots
  }

  /// Capacity that is left for further credentials.
  var room: VerifierEngine.Room { .init(credentials: limit - kept, bytes: byteLimit - keptBytes) }

  /// Whether another credential of `count` bytes may be stored permanently without a verdict.
  func mayKeepUnjudged(_ count: Int) -> Bool {
    quota == limit || unjudged < quota && unjudgedBytes + count <= byteQuota
  }

  var load: Load {
    if room.isNone {
      return Load(
        kind: .full,
        sentence:
          "\(kept) credentials wait to be judged or fetched, and there is no capacity for more. No wallet is invited until one "
          + "of them is judged and fetched. List them with: earshot transfers")
    }
    guard mayKeepUnjudged(1) else {
      return Load(
        kind: .crowded,
        sentence:
          "\(unjudged) credentials wait for a verdict. Until some are judged, another one is stored only while its "
          + "phone is connected. List them with: earshot transfers")
    }
    return Load(kind: .normal, sentence: "")
  }
}
