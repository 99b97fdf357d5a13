import Common
import Crypto

/// Key pairs of the current QR code and of earlier ones.
///
/// A phone may scan a code, connect, and send its Identify after the code was replaced. For such phones, earlier
/// private keys are stored: at most `earlierLimit`, each for `earlierTime` after its code was replaced.
struct InvitationKeys: Sendable {
  /// Maximum number of private keys of earlier codes that are stored.
  static let earlierLimit = 4
  /// Time for which an earlier key is stored, from the replacement of its code.
  static let earlierTime = Duration.seconds(20)
  /// Maximum time from the replacement of a code to a link of a phone that found the verifier by that code's
  /// advertisement.
  static let connectTime = Duration.seconds(5)

  private struct Shown: Sendable {
    let key: X25519.PrivateKey
    /// When the engine requested the advertisement.
    let advertisedAt: Instant
    /// When the code was replaced or withdrawn.
    var withdrawnAt = Instant.zero

    /// When the private key is destroyed.
    var end: Instant { withdrawnAt.advanced(by: InvitationKeys.earlierTime) }
  }

  /// Invitation that is shown; nil while no wallet is invited.
  private(set) var invitation: Invitation?
  /// Number of codes shown so far.
  private(set) var number = 0
  private var present: Shown?
  /// Private keys of earlier codes, the oldest first.
  private var earlier: [Shown] = []

  init() {}

  /// Starts without keys, and continues the numbering of codes, so that no number is reused.
  init(continuing before: InvitationKeys) { number = before.number }

  /// When the next earlier key is destroyed; nil if there is none.
  var deadline: Instant? { earlier.first?.end }

  /// Number of stored private keys, with that of the present code.
  var count: Int { earlier.count + (present == nil ? 0 : 1) }

  /// Shows a code in place of the current one.
  mutating func show(_ invitation: Invitation, _ key: X25519.PrivateKey, at now: Instant) {
    withdraw(at: now)
    self.invitation = invitation
    number += 1
    present = Shown(key: key, advertisedAt: now)
  }

  /// Withdraws the present code, whose key is stored as an earlier one for a while.
  mutating func withdraw(at now: Instant) {
    expire(at: now)
    guard var shown = present else { return }
    shown.withdrawnAt = now
    earlier.append(shown)
    if earlier.count > Self.earlierLimit { earlier.removeFirst() }
    (invitation, present) = (nil, nil)
  }

  /// Destroys the earlier keys that have expired.
  mutating func expire(at now: Instant) { earlier.removeAll { $0.end <= now } }

  /// Keys that the phone of a link may have scanned, the likeliest first.
  ///
  /// A phone connects after it has received the advertisement of its code. A link that is older than every code also
  /// serves another purpose, such as the mesh, and its phone may have scanned any of the codes.
  func keys(forLinkOpenedAt openedAt: Instant) -> [X25519.PrivateKey] {
    guard let present else { return [] }
    let known = earlier.filter { $0.withdrawnAt.advanced(by: Self.connectTime) > openedAt }.map(\.key)
    return wasEarlierShown(at: openedAt) ? known + [present.key] : [present.key] + known.reversed()
  }

  /// Whether a code that has since been replaced was shown when a link came up. The advertisement of a code starts
  /// after the engine has requested it, so a link of that same moment belongs to the previous code.
  func wasEarlierShown(at openedAt: Instant) -> Bool {
    earlier.contains { $0.advertisedAt < openedAt && openedAt <= $0.withdrawnAt }
  }
}

/// Limits how often wallets that take no session slot replace the QR code, because a person needs a second or two to
/// scan it.
///
/// Each Identify that replaces the code uses one unit of the allowance; without a unit the code stays. A wallet that
/// gets a session slot returns its unit.
struct CodeAllowance: Sendable {
  /// Maximum number of units, that is, of codes that can be replaced without a pause.
  static let limit = 4
  /// Time after which a used unit returns.
  static let interval = Duration.seconds(5)

  private var left = CodeAllowance.limit
  private var since = Instant.zero

  /// Whether the code may be replaced now; counts the replacement.
  mutating func take(at now: Instant) -> Bool {
    refill(at: now)
    guard left > 0 else { return false }
    if left == Self.limit { since = now }
    left -= 1
    return true
  }

  mutating func giveBack() { left = min(Self.limit, left + 1) }

  private mutating func refill(at now: Instant) {
    while left < Self.limit, since.advanced(by: Self.interval) <= now {
      left += 1
      since = since.advanced(by: Self.interval)
    }
  }
}
