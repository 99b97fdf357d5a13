import Bytes
import Common
import Crypto

/// The verifier: peripheral, GATT server, receiver. It serves one wallet at a time, each with a key of its own, and goes
/// back to waiting after each, whatever became of it. Facts: tuvali.md sections 3 to 8.
///
/// A wallet becomes the visitor with its Identify. One that connected before the present key was on the air is refused:
/// it cannot know the key.
public struct VerifierEngine: Sendable {
  public var configuration: Configuration
  public private(set) var counters = Counters()
  /// What is on the air while a wallet is awaited; nil when stopped.
  public private(set) var invitation: Invitation?

  private var random: any RandomSource & Sendable
  private var key: X25519.PrivateKey?
  /// Counts keys, to tell which one a link can have seen.
  private var generation = 0
  private var waiting: [LinkID: WaitingLink] = [:]
  private var visit: Visit?

  /// A wallet, or somebody else, that has not said who it is.
  private struct WaitingLink {
    /// That of the latest key when it connected.
    let generation: Int
    var mtu: Int?
    /// Its MTU is too small: its end is told, and it has a moment to find out and leave by itself.
    var isHopeless = false
    var deadline: Instant
  }

  /// - Parameter random: where the keys come from.
  public init(configuration: Configuration, random: any RandomSource & Sendable) {
    self.configuration = configuration
    self.random = random
  }

  /// When `Event.timer` is due; nil when nothing is timed.
  public var deadline: Instant? {
    let links = waiting.values.lazy.map(\.deadline).min()
    guard let visit = visit?.deadline else { return links }
    return links.map { min($0, visit) } ?? visit
  }

  /// The link of the wallet that is being served.
  public var visitor: LinkID? { visit?.link }

  /// Links whose wallets have not said who they are.
  public var waitingLinks: Int { waiting.count }

  /// The figures of the visit under way.
  public var progress: Progress? { visit?.progress }

  public mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .start: return invitation == nil ? invite() : []
    case .stop: return stop()
    case .linkOpened(let link): return open(link, at: now)
    case .linkChanged(let link, let mtu): return change(link, mtu: mtu, at: now)
    case .linkClosed(let link): return close(link)
    case .written(let link, let characteristic, let dialect, let value):
      return write(value, to: characteristic, of: dialect, on: link, at: now)
    case .unsealed(let link, let result):
      return inVisit(link) { $0.unsealed(result, &$1, at: now) }
    case .kept(let link, let error):
      return inVisit(link) { $0.kept(error, &$1, at: now) }
    case .decided(let link, let accepted):
      return inVisit(link) { visit, _ in visit.decided(accepted, at: now) }
    case .dismissed(let link):
      return inVisit(link) { $0.dismiss(&$1, at: now) }
    case .timer: return timer(at: now)
    }
  }

  // MARK: Waiting

  /// A fresh key, and the advertisement that shows it.
  private mutating func invite() -> [Action] {
    let key = X25519.PrivateKey(randomFrom: &random)
    generation += 1
    // The configuration's name was checked by whoever made it; with one that does not fit there is nothing to wait with.
    invitation = try? Invitation(name: configuration.name, key: key.publicKey)
    self.key = invitation == nil ? nil : key
    return invitation.map { [.advertise($0)] } ?? []
  }

  private mutating func stop() -> [Action] {
    guard invitation != nil else { return [] }
    var actions: [Action] = [.stopAdvertising]
    if let visit {
      actions += [.notify(visit.link, .disconnect, visit.dialect, [1]), .cut(visit.link)]
      if !visit.isOver {
        let stopped = TuvaliError(.verifierUnknown, .stopped, "The verifier was stopped during the transfer.")
        actions.append(failure(stopped, on: visit.link))
      }
      actions.append(.tell(visit.link, .ended))
    }
    actions += waiting.keys.sorted { $0.number < $1.number }.map { .cut($0) }
    (invitation, key, visit, waiting) = (nil, nil, nil, [:])
    return actions
  }

  private mutating func open(_ link: LinkID, at now: Instant) -> [Action] {
    guard invitation != nil, waiting[link] == nil, visit?.link != link else { return [] }
    guard waiting.count < configuration.waitingLinks else {
      counters.refused += 1
      return [.cut(link)]
    }
    waiting[link] = WaitingLink(
      generation: generation, deadline: now.advanced(by: configuration.identifyTimeout))
    return []
  }

  private mutating func change(_ link: LinkID, mtu: Int, at now: Instant) -> [Action] {
    if visit?.link == link {
      return inVisit(link) { $0.change(mtu: mtu, &$1, at: now) }
    }
    waiting[link]?.mtu = mtu
    guard let entry = waiting[link], !entry.isHopeless, !ChunkLayout(mtu: mtu).isUsable else { return [] }
    waiting[link]?.isHopeless = true
    waiting[link]?.deadline = now.advanced(by: configuration.closeGuard)
    return [failure(.mtuTooSmall(mtu), on: link), .tell(link, .ended)]
  }

  private mutating func close(_ link: LinkID) -> [Action] {
    waiting[link] = nil
    guard let visit, visit.link == link else { return [] }
    guard !visit.isOver else { return endVisit() }
    let lost = TuvaliError(.verifierUnknown, .peerLost, "The wallet is gone: the link was lost during the transfer.")
    return [failure(lost, on: link)] + endVisit()
  }

  /// The next wallet gets a key of its own.
  private mutating func endVisit() -> [Action] {
    guard let link = visit?.link else { return [] }
    visit = nil
    return [.tell(link, .ended)] + invite()
  }

  private mutating func timer(at now: Instant) -> [Action] {
    let late = waiting.filter { $0.value.deadline <= now }.sorted { $0.key.number < $1.key.number }
    for (link, _) in late { waiting[link] = nil }
    counters.silentLinks += late.count { !$0.value.isHopeless }
    let actions = late.flatMap { link, entry in (entry.isHopeless ? [] : [.tell(link, .silent)]) + [Action.cut(link)] }
    guard let link = visit?.link, let deadline = visit?.deadline, deadline <= now else { return actions }
    return actions + inVisit(link) { $0.timer(&$1, at: now) }
  }

  private mutating func failure(_ error: TuvaliError, on link: LinkID) -> Action {
    counters.fail(for: error.reason)
    return .tell(link, .failed(error))
  }

  // MARK: The visit

  /// Lets the visit of `link` handle something, and ends it if that was its last.
  private mutating func inVisit(
    _ link: LinkID, _ body: (inout Visit, inout Counters) -> [Action]
  ) -> [Action] {
    guard visit?.link == link else { return [] }
    var actions = visit?.apply(body, &counters) ?? []
    if visit?.isGone == true { actions += endVisit() }
    return actions
  }

  private mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, on link: LinkID, at now: Instant
  ) -> [Action] {
    if visit?.link == link {
      guard visit?.dialect == dialect else { return ignored() }
      if characteristic == .identify { return identifyAgain(value, on: link, at: now) }
      return inVisit(link) { $0.write(value, to: characteristic, &$1, at: now) }
    }
    guard let wallet = waiting[link], characteristic == .identify else {
      // The originals answer every write with success; but a wallet that cannot be served had better know.
      return ignored(waiting[link] == nil || visit != nil ? [.refuse] : [])
    }
    guard visit == nil, wallet.generation == generation, !wallet.isHopeless, let key else {
      waiting[link] = nil
      counters.refused += 1
      return [.refuse] + (wallet.isHopeless ? [] : [.tell(link, .refused)]) + [.cut(link)]
    }
    guard let identify = try? Identify(reading: value) else { return ignored() }
    waiting[link] = nil
    counters.visits += 1
    guard let keys = try? SessionKeys(own: key, peer: identify.walletKey, nonce: identify.nonce) else {
      return [
        failure(.weakKey, on: link), .notify(link, .disconnect, dialect, [1]), .cut(link), .tell(link, .ended),
      ]
    }
    visit = Visit(
      link: link, dialect: dialect, identify: identify, keys: keys, mtu: wallet.mtu ?? Limits.offeredMTU,
      configuration: configuration, at: now)
    return [.stopAdvertising, .tell(link, .secured(dialect))]
  }

  /// The wallet says again who it is: taken as long as it has announced nothing, else ignored.
  private mutating func identifyAgain(_ value: [UInt8], on link: LinkID, at now: Instant) -> [Action] {
    guard let key, let identify = try? Identify(reading: value),
      let keys = try? SessionKeys(own: key, peer: identify.walletKey, nonce: identify.nonce)
    else { return ignored() }
    return inVisit(link) { $0.identifyAgain(identify, keys: keys, &$1, at: now) }
  }

  private mutating func ignored(_ answer: [Action] = []) -> [Action] {
    counters.ignoredWrites += 1
    return answer
  }
}

extension TuvaliError {
  static func mtuTooSmall(_ mtu: Int) -> TuvaliError {
    TuvaliError(
      .verifierMTU, .protocolViolation, "The MTU is \(mtu), and a transfer needs \(Limits.minimumMTU) at least.")
  }

  static let weakKey = TuvaliError(
    .verifierState, .protocolViolation, "The wallet's public key is a weak one: it makes the shared secret zero.")
}
