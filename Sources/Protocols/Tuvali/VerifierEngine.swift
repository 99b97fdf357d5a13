import Bytes
import Common
import Crypto

/// Verifier: peripheral, GATT server, receiver. Facts: tuvali.md sections 3 to 8.
///
/// The verifier has sessions with several wallets at a time. A wallet gets a session with its Identify, and a session
/// slot with its first size. Between the two, while a person chooses a credential, the session uses only a link. When
/// all slots are in use, the session that uses its slot least loses the slot (`SessionHealth`). When a link is needed,
/// the session whose wallet has sent nothing for the longest time since its Identify ends. While there is no capacity
/// for a credential, no wallet is invited.
///
/// An Identify does not identify the code that the phone has read. The engine derives session keys for every code that
/// the phone may have read (`InvitationKeys`), and the frame shows which of them is right.
public struct VerifierEngine: Sendable {
  /// Configuration of later sessions. A session in progress uses the configuration with which it began.
  public var configuration: Configuration
  public private(set) var counters = Counters()

  private var random: any RandomSource & Sendable
  public private(set) var isStarted = false
  /// Capacity for credentials, as last reported by the service.
  private var room = Room.boundless
  /// Current code, and keys of earlier codes.
  private var keys = InvitationKeys()
  private var allowance = CodeAllowance()
  /// Sessions in order of their beginning.
  private var visits: [VerifierSession] = []
  /// Links whose wallets have no session: they sent no Identify yet, or were refused.
  private var waiting = WaitingLinks()

  /// - Parameter random: source of the keys.
  public init(configuration: Configuration, random: any RandomSource & Sendable) {
    self.configuration = configuration
    self.random = random
  }

  /// Time at which `Event.timer` is due; nil if nothing is scheduled.
  public var deadline: Instant? { [linkDeadline, keys.deadline].compactMap(\.self).min() }

  /// Next deadline of a link; nil if there is none.
  public var linkDeadline: Instant? {
    let visit = visits.lazy.map(\.deadline).min()
    return [waiting.deadline, visit].compactMap(\.self).min()
  }

  /// Advertised invitation for the next wallet; nil while no wallet is invited.
  public var invitation: Invitation? { keys.invitation }

  /// Links of sessions, in the order of their Identify.
  public var visitors: [LinkID] { visits.map(\.link) }

  /// Number of wallets that have a session slot.
  public var slotsInUse: Int { visits.count(where: \.hasSlot) }

  /// Number of links that wait for Identify or, if the MTU is too small, for the wallet to leave.
  public var waitingLinks: Int { waiting.count }

  /// Number of links that are cut once the refusal has reached the wallet.
  public var turnedDownLinks: Int { waiting.turnedDown }

  /// Figures of a session; nil if the link has none.
  public func progress(of link: LinkID) -> Progress? { index(of: link).map { visits[$0].progress } }

  /// The deadline of the verdict for the wallet of a link; nil if that wallet does not wait for a verdict.
  public func verdictEnd(of link: LinkID) -> Instant? { index(of: link).flatMap { visits[$0].verdictEnd } }

  /// Handles an event. Writes are handled by `write`, because they are answered.
  public mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    switch event {
    case .start:
      isStarted = true
      return invitation == nil ? invite(at: now) : []
    case .stop: return stop(at: now)
    case .room(let room): return make(room, at: now)
    case .linkOpened(let link, let openedAt, let isDistrusted):
      return open(link, .init(openedAt: openedAt, isDistrusted: isDistrusted), at: now)
    case .linkChanged(let link, let mtu): return change(link, mtu: mtu, at: now)
    case .linkClosed(let link): return close(link, at: now)
    case .unsealed(let link, let result):
      return inVisit(link) { $0.unsealed(result, &$1, at: now) }
    case .kept(let link, let error, let isProvisional):
      return inVisit(link) { $0.kept(error, isProvisional: isProvisional, &$1, at: now) }
    case .decided(let link, let accepted):
      return inVisit(link) { $0.decided(accepted, &$1, at: now) }
    case .dismissed(let link):
      return inVisit(link) { $0.dismiss(&$1, at: now) }
    case .timer: return timer(at: now)
    }
  }

  /// Handles a write to a characteristic of a served dialect.
  ///
  /// - Returns: the answer to the write, and the actions.
  public mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, on link: LinkID, at now: Instant
  ) -> (answer: WriteAnswer, actions: [Action]) {
    if let index = index(of: link) {
      return writeInVisit(index, value, to: characteristic, of: dialect, at: now)
    }
    if characteristic == .identify {
      if let newcomer = waiting.newcomer(on: link) { return identify(value, of: dialect, on: link, newcomer, at: now) }
      if waiting.isMTUTooSmall(on: link) { return turnDown(link, .busy, isReported: true, at: now) }
    }
    counters.ignoredWrites += 1
    if waiting.isMTUTooSmall(on: link) { return (.accepted, []) }
    guard waiting.newcomer(on: link) != nil else { return (.refused(.busy), []) }
    // The originals answer every write with success; a wallet that cannot be served gets an error instead.
    return (invitation == nil ? .refused(.full) : .accepted, [])
  }

  // MARK: Waiting

  /// Shows a QR code with a new key. The previous code is never shown again.
  private mutating func invite(at now: Instant) -> [Action] {
    let wasShown = invitation != nil
    keys.withdraw(at: now)
    guard isStarted, !room.isNone else { return wasShown ? [.stopAdvertising] : [] }
    let key = X25519.PrivateKey(randomFrom: &random)
    // The name was validated by the settings; with an invalid one, there is no invitation.
    guard let invitation = try? Invitation(name: configuration.name, key: key.publicKey) else {
      return wasShown ? [.stopAdvertising] : []
    }
    keys.show(invitation, key, at: now)
    return [.advertise(invitation)]
  }

  /// Withdraws the invitation while there is no capacity for a credential.
  private mutating func make(_ room: Room, at now: Instant) -> [Action] {
    self.room = room
    return room.isNone == (invitation == nil) ? [] : invite(at: now)
  }

  private mutating func stop(at now: Instant) -> [Action] {
    guard isStarted else { return [] }
    var actions: [Action] = invitation == nil ? [] : [.stopAdvertising]
    for visit in visits {
      actions += [.notify(visit.link, .disconnect, visit.dialect, DisconnectRequest().bytes), .cut(visit.link)]
      if !visit.isOver {
        let stopped = TuvaliError(.verifierUnknown, .stopped, "The verifier was stopped during the transfer.")
        actions.append(failure(stopped, on: visit.link))
      }
      actions.append(.tell(visit.link, .ended))
    }
    actions += waiting.links.map { .cut($0) }
    (isStarted, visits) = (false, [])
    (keys, waiting) = (InvitationKeys(continuing: keys), WaitingLinks())
    return actions
  }

  private mutating func open(_ link: LinkID, _ newcomer: WaitingLinks.Newcomer, at now: Instant) -> [Action] {
    guard isStarted, !waiting.contains(link), index(of: link) == nil else { return [] }
    var actions: [Action] = []
    if waiting.count >= waitingLimit {
      guard let freeing = freeLink(for: newcomer, at: now) else {
        counters.refused += 1
        return [.tell(link, .refused(.busy)), .cut(link)]
      }
      actions = freeing
    }
    waiting.open(link, newcomer, until: now.advanced(by: configuration.identifyTimeout))
    return actions
  }

  /// Maximum number of waiting links: the links that sessions do not hold, but at least one.
  private var waitingLimit: Int { max(1, min(configuration.waitingLinks, configuration.links - heldLinks)) }

  /// Maximum number of links that sessions hold: all, or all but two while a wallet with a session is silent. Silent
  /// wallets therefore never occupy every link of the adapter: a new wallet can connect, and thereby show that a link
  /// is needed.
  private var sessionLimit: Int {
    let hasIdle = visits.contains { $0.idleSince != nil }
    return max(1, hasIdle ? configuration.links - 2 : configuration.links)
  }

  /// Number of links of sessions, except those that are being ended.
  private var heldLinks: Int { visits.count { !$0.isClosing } }

  /// Ends a link in favour of a new one: the waiting link that has been silent longest, or else a waiting link of a
  /// distrusted peer. If there is neither, it ends the session whose wallet has been silent longest. Nil if no link may
  /// be ended.
  private mutating func freeLink(for newcomer: WaitingLinks.Newcomer, at now: Instant) -> [Action]? {
    if let silent = waiting.longestSilent(configuration, at: now) {
      waiting.remove(silent)
      return cutSilent(silent)
    }
    if !newcomer.isDistrusted, let distrusted = waiting.firstDistrusted {
      waiting.remove(distrusted)
      counters.refused += 1
      return [.tell(distrusted, .refused(.busy)), .cut(distrusted)]
    }
    return waiting.count < configuration.waitingLinks ? endIdlest(for: newcomer, at: now) : nil
  }

  /// Ends the session of the wallet that has been silent longest since its Identify; nil if none may be ended. Sessions
  /// of distrusted peers end first, and a distrusted newcomer ends no session.
  private mutating func endIdlest(for newcomer: WaitingLinks.Newcomer, at now: Instant) -> [Action]? {
    guard !newcomer.isDistrusted else { return nil }
    let idle = visits.indices.compactMap { index -> (index: Int, since: Instant, isDistrusted: Bool)? in
      guard let since = visits[index].idleSince, since.duration(to: now) >= configuration.idleSafety else {
        return nil
      }
      return (index, since, visits[index].isDistrusted)
    }
    let first = idle.min { ($0.isDistrusted ? 0 : 1, $0.since) < ($1.isDistrusted ? 0 : 1, $1.since) }
    return first.map { visits[$0.index].giveLink(&counters, at: now) }
  }

  private mutating func cutSilent(_ link: LinkID) -> [Action] {
    counters.silentLinks += 1
    return [.tell(link, .silent), .cut(link)]
  }

  private mutating func change(_ link: LinkID, mtu: Int, at now: Instant) -> [Action] {
    guard index(of: link) == nil else {
      return inVisit(link) { $0.change(mtu: mtu, &$1, at: now) }
    }
    guard waiting.newcomer(on: link) != nil else { return [] }
    guard ChunkLayout(mtu: mtu).isUsable else {
      waiting.refuseMTU(on: link, cutAt: now.advanced(by: configuration.closeGuard))
      return [failure(.mtuTooSmall(mtu), on: link), .tell(link, .ended)]
    }
    waiting.change(mtu: mtu, on: link)
    return []
  }

  private mutating func close(_ link: LinkID, at now: Instant) -> [Action] {
    waiting.remove(link)
    guard let index = index(of: link) else { return [] }
    let visit = visits.remove(at: index)
    guard !visit.isOver else { return [.tell(link, .ended)] }
    let lost = TuvaliError(.verifierUnknown, .peerLost, "The link to the wallet was lost during the transfer.")
    return [failure(lost, on: link), .tell(link, .ended)]
  }

  private mutating func timer(at now: Instant) -> [Action] {
    var actions: [Action] = []
    keys.expire(at: now)
    for late in waiting.takeLate(at: now) { actions += late.isSilent ? cutSilent(late.link) : [.cut(late.link)] }
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

  /// Refuses a wallet's Identify, and ends its link after `answerTime`, when the answer has reached the wallet.
  ///
  /// - Parameter isReported: whether the reason of the refusal was reported before.
  private mutating func turnDown(
    _ link: LinkID, _ reason: Refusal, isReported: Bool = false, at now: Instant
  ) -> (WriteAnswer, [Action]) {
    counters.refused += 1
    waiting.turnDown(link, cutAt: now.advanced(by: configuration.answerTime))
    return (.refused(reason), isReported ? [] : [.tell(link, .refused(reason))])
  }

  private mutating func failure(_ error: TuvaliError, on link: LinkID) -> Action {
    counters.fail(for: error.reason)
    return .tell(link, .failed(error))
  }

  // MARK: Sessions

  /// Begins a session with a wallet, or refuses the wallet.
  private mutating func identify(
    _ value: [UInt8], of dialect: Dialect, on link: LinkID, _ newcomer: WaitingLinks.Newcomer, at now: Instant
  ) -> (WriteAnswer, [Action]) {
    guard invitation != nil else { return turnDown(link, .full, at: now) }
    guard let identify = try? Identify(reading: value) else {
      counters.ignoredWrites += 1
      return (.accepted, [])
    }
    guard let sessionKeys = sessionKeys(for: identify, newcomer.openedAt, at: now) else {
      counters.visits += 1
      waiting.turnDown(link, cutAt: now.advanced(by: configuration.answerTime))
      return (
        .accepted,
        [
          failure(.weakKey, on: link), .notify(link, .disconnect, dialect, DisconnectRequest().bytes),
          .tell(link, .ended),
        ]
      )
    }
    var actions: [Action] = []
    if heldLinks >= sessionLimit {
      guard let freeing = endIdlest(for: newcomer, at: now) else { return turnDown(link, .busy, at: now) }
      actions = freeing
    }
    counters.visits += 1
    waiting.remove(link)
    var visit = VerifierSession(
      link: link, dialect: dialect, identify: identify, keys: sessionKeys, newcomer, configuration: configuration,
      at: now)
    actions += replaceCode(for: &visit, at: now)
    visits.append(visit)
    return (.accepted, actions + [.tell(link, .secured(dialect))])
  }

  /// Derives the session keys for every code that the wallet may have read; nil if the wallet's public key is weak.
  private mutating func sessionKeys(for identify: Identify, _ openedAt: Instant, at now: Instant) -> [SessionKeys]? {
    keys.expire(at: now)
    return try? keys.keys(forLinkOpenedAt: openedAt).map { key throws(CryptoError) in
      try SessionKeys(own: key, peer: identify.walletKey, nonce: identify.nonce)
    }
  }

  /// Replaces the code for the next wallet, if this wallet has probably read the code that is shown.
  private mutating func replaceCode(for visit: inout VerifierSession, at now: Instant) -> [Action] {
    guard !keys.wasEarlierShown(at: visit.openedAt) else { return [] }
    guard !visit.isDistrusted, allowance.take(at: now) else {
      visit.code = .shown(keys.number)
      return []
    }
    visit.code = .replaced
    return invite(at: now)
  }

  /// Replaces the code after a wallet has taken a slot, if the wallet may have read the code that is now shown.
  private mutating func replaceCode(afterSlotOf index: Int, at now: Instant) -> [Action] {
    defer { visits[index].code = .old }
    switch visits[index].code {
    case .old: return []
    case .replaced:
      allowance.giveBack()
      return []
    case .shown(let number): return number == keys.number && invitation != nil ? invite(at: now) : []
    }
  }

  /// Handles a second Identify on the link of a session: the wallet begins another transfer on a link that another
  /// service holds open. The times after which the session may lose its slot continue.
  private mutating func identifyAgain(
    _ index: Int, _ value: [UInt8], of dialect: Dialect, at now: Instant
  ) -> (WriteAnswer, [Action]) {
    let old = visits[index]
    guard let identify = try? Identify(reading: value), old.mayBeginAgain(with: identify, at: now) else {
      counters.ignoredWrites += 1
      return (.accepted, [])
    }
    guard invitation != nil else { return (.refused(.full), visits[index].refuse(.full, &counters, at: now)) }
    guard let sessionKeys = sessionKeys(for: identify, old.openedAt, at: now) else {
      counters.ignoredWrites += 1
      return (.accepted, [])
    }
    let left = TuvaliError(.verifierUnknown, .peerEnded, "The wallet began another transfer on the same link.")
    let actions = old.isOver ? [] : [failure(left, on: old.link)]
    counters.visits += 1
    visits[index] = VerifierSession(after: old, dialect: dialect, identify: identify, keys: sessionKeys, at: now)
    visits[index].code = .shown(keys.number)
    return (.accepted, actions + [.tell(old.link, .ended), .tell(old.link, .secured(dialect))])
  }

  private mutating func writeInVisit(
    _ index: Int, _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, at now: Instant
  ) -> (WriteAnswer, [Action]) {
    if characteristic == .identify { return identifyAgain(index, value, of: dialect, at: now) }
    // Compares names only: this runs for every chunk, and comparing whole dialects takes as long as the checksum.
    guard visits[index].dialect.name == dialect.name else {
      counters.ignoredWrites += 1
      return (.accepted, [])
    }
    guard characteristic == .responseSize else {
      return (.accepted, visits[index].write(value, to: characteristic, &counters, at: now))
    }
    return announce(index, value, at: now)
  }

  /// Handles the size of the frame that a wallet announces. The first size takes a session slot.
  private mutating func announce(_ index: Int, _ value: [UInt8], at now: Instant) -> (WriteAnswer, [Action]) {
    let hadSlot = visits[index].hasSlot
    // The capacity claimed by other sessions is computed only when a size is announced.
    var actions = visits[index].announce(value, room.without(claims(but: index)), &counters, at: now)
    if !hadSlot, visits[index].hasSlot {
      if let parting = makeSlot(for: index, at: now) {
        actions = parting + replaceCode(afterSlotOf: index, at: now) + actions
      } else {
        actions = visits[index].refuse(.busy, &counters, at: now)
      }
    }
    return (visits[index].refusal.map { .refused($0) } ?? .accepted, actions)
  }

  /// Frees a slot if the sessions hold more slots than there are.
  ///
  /// - Returns: the actions to perform; nil if the newest session must be refused instead.
  private mutating func makeSlot(for newest: Int, at now: Instant) -> [Action]? {
    guard slotsInUse > configuration.visitors else { return [] }
    guard !visits[newest].isDistrusted else { return nil }
    let standings = visits.indices.map { $0 == newest ? nil : visits[$0].standing }
    return SessionHealth.worst(of: standings, configuration.patience, at: now).map {
      visits[$0.index].giveWay(for: $0.fault, &counters, at: now)
    }
  }

  private func claims(but index: Int) -> [Int] { visits.indices.compactMap { $0 == index ? nil : visits[$0].claim } }

  /// There are few sessions, so a linear search is faster than a table.
  private func index(of link: LinkID) -> Int? { visits.firstIndex { $0.link == link } }

  /// Calls `body` with the session of `link`, if there is one.
  private mutating func inVisit(
    _ link: LinkID, _ body: (inout VerifierSession, inout Counters) -> [Action]
  ) -> [Action] {
    guard let index = index(of: link) else { return [] }
    return visits[index].apply(body, &counters)
  }
}

extension TuvaliError {
  static func mtuTooSmall(_ mtu: Int) -> TuvaliError {
    TuvaliError(
      .verifierMTU, .protocolViolation, "The MTU is \(mtu); a transfer needs at least \(Limits.minimumMTU).")
  }

  static let weakKey = TuvaliError(
    .verifierState, .protocolViolation, "The wallet's public key is weak: it makes the shared secret zero.")
}

extension VerifierEngine {
  /// Remaining capacity of the service for credentials.
  public struct Room: Hashable, Sendable {
    /// Number of further credentials that can be stored.
    public var credentials: Int
    /// Total size of further credentials that can be stored, in bytes.
    public var bytes: Int

    public init(credentials: Int, bytes: Int) {
      self.credentials = credentials
      self.bytes = bytes
    }

    public static let boundless = Room(credentials: .max, bytes: .max)

    /// Whether there is no capacity for any credential.
    public var isNone: Bool { credentials <= 0 || bytes <= 0 }

    /// Whether there is capacity for a frame of `size` bytes. Its inflated content may still exceed it.
    func holds(_ size: Int) -> Bool { credentials > 0 && bytes >= size }

    /// Returns the remaining capacity after frames of these sizes.
    func without(_ claims: [Int]) -> Room {
      guard self != .boundless else { return self }
      return Room(credentials: credentials - claims.count, bytes: claims.reduce(bytes) { $0 - $1 })
    }
  }
}

extension VerifierEngine.Refusal {
  /// Error that ends a session for lack of capacity.
  func error(_ configuration: VerifierEngine.Configuration) -> TuvaliError {
    switch self {
    case .wrongCode: .wrongCode
    case .busy:
      TuvaliError(
        .verifierUnknown, .busy, "All \(configuration.visitors) session slots are in use. The wallet may try again.")
    case .full: TuvaliError(.verifierUnknown, .noCapacity, "There is no capacity for another credential.")
    }
  }
}
