import Bytes
import Common
import Crypto

/// The verifier: peripheral, GATT server, receiver. Facts: tuvali.md sections 3 to 8.
///
/// The verifier serves several wallets at a time, and each has an invitation with a key of its own: as soon as a wallet has
/// identified itself, the next invitation is on the air. When all places are taken, a visit that makes no use of its place
/// gives way (`Standing`). While there is no room for a credential, nobody is invited.
///
/// A wallet becomes a visitor with its Identify. The verifier refuses a wallet that connected before the present key
/// was on the air: such a wallet cannot know the key.
public struct VerifierEngine: Sendable {
  /// What governs the next visit; a visit under way keeps the configuration it began with.
  public var configuration: Configuration
  public private(set) var counters = Counters()

  private var random: any RandomSource & Sendable
  public private(set) var isStarted = false
  /// What can be kept of what wallets bring, as the service said last.
  private var room = Room.boundless
  /// The invitation that is on the air; nil while nobody is invited.
  private var offer: Offer?
  /// In the order of their beginnings.
  private var visits: [Visit] = []
  /// Every link but the visitors'.
  private var others: [LinkID: Other] = [:]
  /// The links of `others` whose peers get no place from another visitor.
  private var distrusted: Set<LinkID> = []

  private struct Offer {
    let invitation: Invitation
    let key: X25519.PrivateKey
    /// When the invitation came on the air.
    let advertisedAt: Instant
  }

  /// A link whose wallet is not a visitor.
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
    guard let visit = visits.lazy.map(\.deadline).min() else { return cut }
    return cut.map { min($0, visit) } ?? visit
  }

  /// The invitation that is on the air, for the next wallet; nil while nobody is invited.
  public var invitation: Invitation? { offer?.invitation }

  /// The links of the wallets that are being served, in the order in which they identified themselves.
  public var visitors: [LinkID] { visits.map(\.link) }

  /// How many links wait for their wallets to identify themselves or, where the MTU is too small, to leave.
  public var waitingLinks: Int { others.values.count { $0.isWaiting } }

  /// How many links are cut as soon as the refusal has reached the wallet.
  public var turnedDownLinks: Int { others.values.count { !$0.isWaiting } }

  /// The figures of a visit; nil where the link has none.
  public func progress(of link: LinkID) -> Progress? { index(of: link).map { visits[$0].progress } }

  /// Until when the wallet of a link waits for a verdict; nil where it does not.
  public func verdictEnd(of link: LinkID) -> Instant? { index(of: link).flatMap { visits[$0].verdictEnd } }

  /// Takes in an event; a write goes through `write` instead, because it has an answer.
  public mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .start:
      isStarted = true
      return offer == nil ? invite(at: now) : []
    case .stop: return stop()
    case .room(let room): return make(room, at: now)
    case .linkDistrusted(let link):
      if others[link] != nil { distrusted.insert(link) }
      return []
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
    if let index = index(of: link) {
      return (.accepted, writeInVisit(index, value, to: characteristic, of: dialect, at: now))
    }
    switch (others[link], characteristic) {
    case (.unidentified(let openedAt, let mtu, _), .identify):
      return identify(value, of: dialect, on: link, openedAt: openedAt, mtu: mtu, at: now)
    case (.mtuTooSmall, .identify):
      return (.refused, turnDown(link, nil, at: now))
    case (.unidentified(let openedAt, _, _), _):
      counters.ignoredWrites += 1
      // The originals answer every write with success; but a wallet that cannot be served had better know.
      return (isInvited(openedAt) ? .accepted : .refused, [])
    case (.mtuTooSmall, _):
      counters.ignoredWrites += 1
      return (.accepted, [])
    case (.turnedDown, _), (nil, _):
      counters.ignoredWrites += 1
      return (.refused, [])
    }
  }

  // MARK: Waiting

  /// Makes a fresh key, and the advertisement that shows it. The key before it is never shown again.
  private mutating func invite(at now: Instant) -> [Action] {
    let wasShown = offer != nil
    offer = nil
    guard isStarted, !room.isNone else { return wasShown ? [.stopAdvertising] : [] }
    let key = X25519.PrivateKey(randomFrom: &random)
    // Settings are checked before they get here; with a name that does not fit there is nothing to wait with.
    guard let invitation = try? Invitation(name: configuration.name, key: key.publicKey) else {
      return wasShown ? [.stopAdvertising] : []
    }
    offer = Offer(invitation: invitation, key: key, advertisedAt: now)
    return [.advertise(invitation)]
  }

  /// Whether a wallet whose link came up then can know the present key. The advertisement goes out after the engine has asked
  /// for it: a link of that very moment is too early as well.
  private func isInvited(_ openedAt: Instant) -> Bool { offer.map { openedAt > $0.advertisedAt } ?? false }

  /// Invites nobody while there is no room for a credential.
  private mutating func make(_ room: Room, at now: Instant) -> [Action] {
    self.room = room
    return room.isNone == (offer == nil) ? [] : invite(at: now)
  }

  private mutating func stop() -> [Action] {
    guard isStarted else { return [] }
    var actions: [Action] = offer == nil ? [] : [.stopAdvertising]
    for visit in visits {
      actions += [.notify(visit.link, .disconnect, visit.dialect, DisconnectRequest().bytes), .cut(visit.link)]
      if !visit.isOver {
        let stopped = TuvaliError(.verifierUnknown, .stopped, "The verifier was stopped during the transfer.")
        actions.append(failure(stopped, on: visit.link))
      }
      actions.append(.tell(visit.link, .ended))
    }
    actions += others.keys.sorted { $0.number < $1.number }.map { .cut($0) }
    (isStarted, offer, visits, others, distrusted) = (false, nil, [], [:], [])
    return actions
  }

  private mutating func open(_ link: LinkID, openedAt: Instant, at now: Instant) -> [Action] {
    guard isStarted, others[link] == nil, index(of: link) == nil else { return [] }
    var actions: [Action] = []
    if waitingLinks >= waitingLimit {
      guard let silent = longestSilent(at: now) else {
        counters.refused += 1
        return [.cut(link)]
      }
      actions = cutSilent(silent)
    }
    others[link] = .unidentified(
      openedAt: openedAt, mtu: nil, end: now.advanced(by: configuration.identifyTimeout))
    return actions
  }

  /// How many links may wait: as many as the visitors leave.
  private var waitingLimit: Int { max(1, min(configuration.waitingLinks, configuration.links - visits.count)) }

  /// The link that has waited for its Identify longest, if it has for `Configuration.arrivalTime`: it makes room for a new one.
  private func longestSilent(at now: Instant) -> LinkID? {
    let latest = now.advanced(by: configuration.identifyTimeout - configuration.arrivalTime)
    let silent = others.compactMap { link, other -> (end: Instant, link: LinkID)? in
      guard case .unidentified(_, _, let end) = other, end <= latest else { return nil }
      return (end, link)
    }
    return silent.min { ($0.end, $0.link.number) < ($1.end, $1.link.number) }?.link
  }

  private mutating func cutSilent(_ link: LinkID) -> [Action] {
    others[link] = nil
    counters.silentLinks += 1
    return [.tell(link, .silent), .cut(link)]
  }

  private mutating func change(_ link: LinkID, mtu: Int, at now: Instant) -> [Action] {
    guard index(of: link) == nil else {
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
    distrusted.remove(link)
    guard let index = index(of: link) else { return [] }
    let visit = visits.remove(at: index)
    guard !visit.isOver else { return [.tell(link, .ended)] }
    let lost = TuvaliError(.verifierUnknown, .peerLost, "The wallet is gone: the link was lost during the transfer.")
    return [failure(lost, on: link), .tell(link, .ended)]
  }

  private mutating func timer(at now: Instant) -> [Action] {
    var actions: [Action] = []
    let late = others.filter { $0.value.end <= now }.sorted { $0.key.number < $1.key.number }
    for (link, other) in late {
      if case .unidentified = other {
        actions += cutSilent(link)
      } else {
        others[link] = nil
        actions.append(.cut(link))
      }
    }
    for visit in visits where visit.deadline <= now {
      if visit.isClosing {
        visits.removeAll { $0.link == visit.link }
        actions += [.cut(visit.link), .tell(visit.link, .ended)]
      } else {
        actions += inVisit(visit.link) { $0.timer(&$1, at: now) }
      }
    }
    return actions
  }

  /// Ends the link of a wallet whose Identify was answered, when the answer has had the time to reach the wallet.
  private mutating func cutAfterAnswer(_ link: LinkID, at now: Instant) {
    others[link] = .turnedDown(cutAt: now.advanced(by: configuration.answerTime))
  }

  /// Refuses a wallet's Identify.
  ///
  /// - Parameter reason: nil where the reason was reported before.
  private mutating func turnDown(_ link: LinkID, _ reason: Refusal?, at now: Instant) -> [Action] {
    counters.refused += 1
    cutAfterAnswer(link, at: now)
    return reason.map { [.tell(link, .refused($0))] } ?? []
  }

  private mutating func failure(_ error: TuvaliError, on link: LinkID) -> Action {
    counters.fail(for: error.reason)
    return .tell(link, .failed(error))
  }

  // MARK: Visits

  /// Makes a wallet a visitor, or turns it down.
  private mutating func identify(
    _ value: [UInt8], of dialect: Dialect, on link: LinkID, openedAt: Instant, mtu: Int?, at now: Instant
  ) -> (WriteAnswer, [Action]) {
    guard let offer else { return (.refused, turnDown(link, .full, at: now)) }
    guard isInvited(openedAt) else { return (.refused, turnDown(link, .wrongCode, at: now)) }
    guard let identify = try? Identify(reading: value) else {
      counters.ignoredWrites += 1
      return (.accepted, [])
    }
    let isFull = visits.count(where: \.takesPlace) >= configuration.visitors
    let leaver = isFull ? whoGivesWay(to: link, at: now) : nil
    guard !isFull || leaver != nil else { return (.refused, turnDown(link, .busy, at: now)) }
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
    let parting = leaver.map { visits[$0.index].giveWay(for: $0.fault, &counters, at: now) } ?? []
    others[link] = nil
    visits.append(
      Visit(
        link: link, dialect: dialect, keys: keys, mtu: mtu ?? Limits.offeredMTU, configuration: configuration, at: now))
    return (.accepted, parting + invite(at: now) + [.tell(link, .secured(dialect))])
  }

  /// The visit that gives way to the wallet of `link`, and why; nil when it is that wallet that has to go.
  private func whoGivesWay(to link: LinkID, at now: Instant) -> (index: Int, fault: Standing.Fault)? {
    guard !distrusted.contains(link) else { return nil }
    return Standing.worst(of: visits.map(\.standing), configuration.patience, at: now)
  }

  private mutating func writeInVisit(
    _ index: Int, _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, at now: Instant
  ) -> [Action] {
    // For every chunk: the names are compared, because a whole dialect takes as long as the chunk's checksum does.
    guard visits[index].dialect.name == dialect.name else {
      counters.ignoredWrites += 1
      return []
    }
    // What the other visits' frames need is looked at only where a size is announced.
    let room = characteristic == .responseSize ? self.room.without(claims(but: index)) : self.room
    return visits[index].write(value, to: characteristic, room: room, &counters, at: now)
  }

  private func claims(but index: Int) -> [Int] { visits.indices.compactMap { $0 == index ? nil : visits[$0].claim } }

  /// There are a few visits at most: to look through them is faster than a table.
  private func index(of link: LinkID) -> Int? { visits.firstIndex { $0.link == link } }

  /// Lets the visit of `link` handle something, if there is one.
  private mutating func inVisit(
    _ link: LinkID, _ body: (inout Visit, inout Counters) -> [Action]
  ) -> [Action] {
    guard let index = index(of: link) else { return [] }
    return visits[index].apply(body, &counters)
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
