import Bytes
import Common
import Crypto

/// The verifier: peripheral, GATT server, receiver. Facts: tuvali.md sections 3 to 8.
///
/// The verifier serves one wallet at a time. Each gets an invitation with a key of its own, and however its visit ends,
/// the verifier waits for the next wallet.
///
/// A wallet becomes the visitor with its Identify. The verifier refuses a wallet that connected before the present key
/// was on the air: such a wallet cannot know the key.
public struct VerifierEngine: Sendable {
  /// What governs the next visit; a visit under way keeps the configuration it began with.
  public var configuration: Configuration
  public private(set) var counters = Counters()

  private var random: any RandomSource & Sendable
  /// The invitation that wallets can know, and the visit that it led to; nil when stopped.
  private var offer: Offer?
  /// Every link but the visitor's.
  private var others: [LinkID: Other] = [:]

  private struct Offer {
    let invitation: Invitation
    let key: X25519.PrivateKey
    /// When the invitation came on the air.
    let advertisedAt: Instant
    var visit: Visit?
  }

  /// A link whose wallet is not the visitor.
  private enum Other {
    /// The wallet has until `end` to identify itself.
    case unidentified(openedAt: Instant, mtu: Int?, end: Instant)
    /// The MTU is too small for a transfer, which was reported. The wallet has until `cutAt` to leave by itself.
    case mtuTooSmall(cutAt: Instant)
    /// The wallet's Identify was turned down. The answer has until `cutAt` to reach the wallet.
    case turnedDown(cutAt: Instant)

    /// When the link is cut.
    var end: Instant {
      switch self {
      case .unidentified(_, _, let end): end
      case .mtuTooSmall(let cutAt), .turnedDown(let cutAt): cutAt
      }
    }

    /// Whether the link counts against `Configuration.waitingLinks`.
    var isWaiting: Bool {
      switch self {
      case .unidentified, .mtuTooSmall: true
      case .turnedDown: false
      }
    }
  }

  /// - Parameter random: where the keys come from.
  public init(configuration: Configuration, random: any RandomSource & Sendable) {
    self.configuration = configuration
    self.random = random
  }

  /// When `Event.timer` is due; nil when nothing is timed.
  public var deadline: Instant? {
    let cut = others.values.lazy.map(\.end).min()
    guard let visit = offer?.visit?.deadline else { return cut }
    return cut.map { min($0, visit) } ?? visit
  }

  /// The invitation that is on the air while the verifier waits, and that led to the visit while it serves; nil when
  /// stopped.
  public var invitation: Invitation? { offer?.invitation }

  /// The link of the wallet that is being served.
  public var visitor: LinkID? { offer?.visit?.link }

  /// How many links wait for their wallets to identify themselves or, where the MTU is too small, to leave.
  public var waitingLinks: Int { others.values.count { $0.isWaiting } }

  /// How many links are cut as soon as the refusal has reached the wallet.
  public var turnedDownLinks: Int { others.values.count { !$0.isWaiting } }

  /// The figures of the visit under way.
  public var progress: Progress? { offer?.visit?.progress }

  /// Takes in an event; a write goes through `write` instead, because it has an answer.
  public mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .start: return offer == nil ? invite(at: now) : []
    case .stop: return stop()
    case .linkOpened(let link, let openedAt): return open(link, openedAt: openedAt, at: now)
    case .linkChanged(let link, let mtu): return change(link, mtu: mtu, at: now)
    case .linkClosed(let link): return close(link, at: now)
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

  /// Takes in what a wallet wrote to a characteristic of one of our dialects.
  ///
  /// - Returns: what the write is answered with, and what else is to be done.
  public mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, on link: LinkID, at now: Instant
  ) -> (answer: WriteAnswer, actions: [Action]) {
    if offer?.visit?.link == link {
      return (.accepted, writeInVisit(value, to: characteristic, of: dialect, at: now))
    }
    switch (others[link], characteristic) {
    case (.unidentified(let openedAt, let mtu, _), .identify):
      return identify(value, of: dialect, on: link, openedAt: openedAt, mtu: mtu, at: now)
    case (.mtuTooSmall, .identify):
      return (.refused, turnDown(link, at: now))
    case (.unidentified, _), (.mtuTooSmall, _):
      counters.ignoredWrites += 1
      // The originals answer every write with success; but a wallet that cannot be served had better know.
      return (offer?.visit == nil ? .accepted : .refused, [])
    case (.turnedDown, _), (nil, _):
      counters.ignoredWrites += 1
      return (.refused, [])
    }
  }

  // MARK: Waiting

  /// Makes a fresh key, and the advertisement that shows it.
  private mutating func invite(at now: Instant) -> [Action] {
    let key = X25519.PrivateKey(randomFrom: &random)
    // Settings are checked before they get here; with a name that does not fit there is nothing to wait with.
    guard let invitation = try? Invitation(name: configuration.name, key: key.publicKey) else {
      offer = nil
      return []
    }
    offer = Offer(invitation: invitation, key: key, advertisedAt: now)
    return [.advertise(invitation)]
  }

  private mutating func stop() -> [Action] {
    guard let offer else { return [] }
    var actions: [Action] = [.stopAdvertising]
    if let visit = offer.visit {
      actions += [.notify(visit.link, .disconnect, visit.dialect, DisconnectRequest().bytes), .cut(visit.link)]
      if !visit.isOver {
        let stopped = TuvaliError(.verifierUnknown, .stopped, "The verifier was stopped during the transfer.")
        actions.append(failure(stopped, on: visit.link))
      }
      actions.append(.tell(visit.link, .ended))
    }
    actions += others.keys.sorted { $0.number < $1.number }.map { .cut($0) }
    self.offer = nil
    others = [:]
    return actions
  }

  private mutating func open(_ link: LinkID, openedAt: Instant, at now: Instant) -> [Action] {
    guard let offer, others[link] == nil, offer.visit?.link != link else { return [] }
    guard waitingLinks < configuration.waitingLinks else {
      counters.refused += 1
      return [.cut(link)]
    }
    others[link] = .unidentified(
      openedAt: openedAt, mtu: nil, end: now.advanced(by: configuration.identifyTimeout))
    return []
  }

  private mutating func change(_ link: LinkID, mtu: Int, at now: Instant) -> [Action] {
    guard offer?.visit?.link != link else {
      return inVisit(link) { $0.change(mtu: mtu, &$1, at: now) }
    }
    guard case .unidentified(let openedAt, _, let end) = others[link] else { return [] }
    guard ChunkLayout(mtu: mtu).isUsable else {
      others[link] = .mtuTooSmall(cutAt: now.advanced(by: configuration.closeGuard))
      return [failure(.mtuTooSmall(mtu), on: link), .tell(link, .ended)]
    }
    others[link] = .unidentified(openedAt: openedAt, mtu: mtu, end: end)
    return []
  }

  private mutating func close(_ link: LinkID, at now: Instant) -> [Action] {
    others[link] = nil
    guard let visit = offer?.visit, visit.link == link else { return [] }
    guard !visit.isOver else { return endVisit(at: now) }
    let lost = TuvaliError(.verifierUnknown, .peerLost, "The wallet is gone: the link was lost during the transfer.")
    return [failure(lost, on: link)] + endVisit(at: now)
  }

  private mutating func timer(at now: Instant) -> [Action] {
    var actions: [Action] = []
    let late = others.filter { $0.value.end <= now }.sorted { $0.key.number < $1.key.number }
    for (link, other) in late {
      others[link] = nil
      if case .unidentified = other {
        counters.silentLinks += 1
        actions.append(.tell(link, .silent))
      }
      actions.append(.cut(link))
    }
    guard let link = visitor, let deadline = offer?.visit?.deadline, deadline <= now else { return actions }
    guard offer?.visit?.isClosing == false else { return actions + [.cut(link)] + endVisit(at: now) }
    return actions + inVisit(link) { $0.timer(&$1, at: now) }
  }

  /// Ends the link of a wallet whose Identify was answered, when the answer has had the time to reach the wallet.
  private mutating func cutAfterAnswer(_ link: LinkID, at now: Instant) {
    others[link] = .turnedDown(cutAt: now.advanced(by: configuration.answerTime))
  }

  private mutating func turnDown(_ link: LinkID, at now: Instant, _ actions: [Action] = []) -> [Action] {
    counters.refused += 1
    cutAfterAnswer(link, at: now)
    return actions
  }

  private mutating func failure(_ error: TuvaliError, on link: LinkID) -> Action {
    counters.fail(for: error.reason)
    return .tell(link, .failed(error))
  }

  // MARK: The visit

  /// Makes a wallet the visitor, or turns it down.
  private mutating func identify(
    _ value: [UInt8], of dialect: Dialect, on link: LinkID, openedAt: Instant, mtu: Int?, at now: Instant
  ) -> (WriteAnswer, [Action]) {
    // The advertisement goes out after the engine has asked for it: a link of that very moment is too early as well.
    guard let offer, offer.visit == nil, openedAt > offer.advertisedAt else {
      return (.refused, turnDown(link, at: now, [.tell(link, .refused)]))
    }
    guard let identify = try? Identify(reading: value) else {
      counters.ignoredWrites += 1
      return (.accepted, [])
    }
    counters.visits += 1
    guard let keys = try? SessionKeys(own: offer.key, peer: identify.walletKey, nonce: identify.nonce) else {
      cutAfterAnswer(link, at: now)
      return (
        .accepted,
        [
          failure(.weakKey, on: link), .notify(link, .disconnect, dialect, DisconnectRequest().bytes),
          .tell(link, .ended),
        ]
      )
    }
    others[link] = nil
    self.offer?.visit = Visit(
      link: link, dialect: dialect, identify: identify, keys: keys, mtu: mtu ?? Limits.offeredMTU,
      configuration: configuration, at: now)
    return (.accepted, [.stopAdvertising, .tell(link, .secured(dialect))])
  }

  private mutating func writeInVisit(
    _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, at now: Instant
  ) -> [Action] {
    // For every chunk: the names are compared, because a whole dialect takes as long as the chunk's checksum does.
    guard offer?.visit?.dialect.name == dialect.name else {
      counters.ignoredWrites += 1
      return []
    }
    guard characteristic != .identify else { return identifyAgain(value, at: now) }
    return offer?.visit?.write(value, to: characteristic, &counters, at: now) ?? []
  }

  /// The visitor identifies itself again. This counts as long as the visitor has announced no size.
  private mutating func identifyAgain(_ value: [UInt8], at now: Instant) -> [Action] {
    guard let key = offer?.key, let identify = try? Identify(reading: value),
      let keys = try? SessionKeys(own: key, peer: identify.walletKey, nonce: identify.nonce)
    else {
      counters.ignoredWrites += 1
      return []
    }
    return offer?.visit?.identifyAgain(identify, keys: keys, &counters, at: now) ?? []
  }

  /// Lets the visit of `link` handle something, if there is one.
  private mutating func inVisit(
    _ link: LinkID, _ body: (inout Visit, inout Counters) -> [Action]
  ) -> [Action] {
    guard visitor == link else { return [] }
    return offer?.visit?.apply(body, &counters) ?? []
  }

  /// Ends the visit, and invites the next wallet with a key of its own.
  private mutating func endVisit(at now: Instant) -> [Action] {
    guard let link = visitor else { return [] }
    return [.tell(link, .ended)] + invite(at: now)
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
