import Common

/// Links of wallets without a session: those that have not sent Identify, and those being disconnected.
struct WaitingLinks: Sendable {
  typealias Configuration = VerifierEngine.Configuration

  /// Wallet that has not sent Identify.
  struct Newcomer: Sendable {
    let openedAt: Instant
    /// Whether another session of this peer failed recently.
    let isDistrusted: Bool
    var mtu: Int?
  }

  private enum Stage: Sendable {
    /// The wallet must send Identify until `end`.
    case unidentified(Newcomer, end: Instant)
    /// The MTU is too small for a transfer, which was reported. The wallet may disconnect until `cutAt`.
    case mtuTooSmall(cutAt: Instant)
    /// The wallet was refused. The answer has until `cutAt` to reach the wallet.
    case turnedDown(cutAt: Instant)

    /// When the link is cut if the wallet does nothing before.
    var end: Instant {
      switch self {
      case .unidentified(_, let end): end
      case .mtuTooSmall(let cutAt), .turnedDown(let cutAt): cutAt
      }
    }
  }

  private var stages: [LinkID: Stage] = [:]

  /// When the next link must be cut.
  var deadline: Instant? { stages.values.lazy.map(\.end).min() }

  /// Number of links that count against `Configuration.waitingLinks`.
  var count: Int { stages.count - turnedDown }

  /// Number of links of refused wallets, which are disconnected when the answer has reached the wallet.
  var turnedDown: Int { stages.values.count { if case .turnedDown = $0 { true } else { false } } }

  /// All links without a session, sorted by number.
  var links: [LinkID] { stages.keys.sorted { $0.number < $1.number } }

  func contains(_ link: LinkID) -> Bool { stages[link] != nil }

  /// Wallet of a link, while it may send Identify.
  func newcomer(on link: LinkID) -> Newcomer? {
    guard case .unidentified(let newcomer, _)? = stages[link] else { return nil }
    return newcomer
  }

  /// Whether the MTU of a link was found to be too small.
  func isMTUTooSmall(on link: LinkID) -> Bool {
    guard case .mtuTooSmall? = stages[link] else { return false }
    return true
  }

  mutating func open(_ link: LinkID, _ newcomer: Newcomer, until end: Instant) {
    stages[link] = .unidentified(newcomer, end: end)
  }

  mutating func change(mtu: Int, on link: LinkID) {
    guard case .unidentified(var newcomer, let end)? = stages[link] else { return }
    newcomer.mtu = mtu
    stages[link] = .unidentified(newcomer, end: end)
  }

  mutating func refuseMTU(on link: LinkID, cutAt: Instant) { stages[link] = .mtuTooSmall(cutAt: cutAt) }

  mutating func turnDown(_ link: LinkID, cutAt: Instant) { stages[link] = .turnedDown(cutAt: cutAt) }

  mutating func remove(_ link: LinkID) { stages[link] = nil }

  /// The link that has waited longest for its Identify, if it has waited for `Configuration.arrivalTime`.
  func longestSilent(_ configuration: Configuration, at now: Instant) -> LinkID? {
    let latest = now.advanced(by: configuration.identifyTimeout - configuration.arrivalTime)
    let silent = stages.compactMap { link, stage -> (end: Instant, link: LinkID)? in
      guard case .unidentified(_, let end) = stage, end <= latest else { return nil }
      return (end, link)
    }
    return silent.min { ($0.end, $0.link.number) < ($1.end, $1.link.number) }?.link
  }

  /// The first link that waits for the Identify of a distrusted peer.
  var firstDistrusted: LinkID? { links.first { newcomer(on: $0)?.isDistrusted ?? false } }

  /// Removes the links whose deadline has passed.
  ///
  /// - Returns: these links, sorted by number; `isSilent` if the wallet did not send Identify.
  mutating func takeLate(at now: Instant) -> [(link: LinkID, isSilent: Bool)] {
    let late = stages.filter { $0.value.end <= now }.sorted { $0.key.number < $1.key.number }
    return late.map { link, stage in
      stages[link] = nil
      guard case .unidentified = stage else { return (link, false) }
      return (link, true)
    }
  }
}
