import Common
import Crypto

@testable import Tuvali

/// A verifier and a wallet on one simulated radio, in virtual time. Faults affect chunks; everything else arrives in
/// order.
struct Pair {
  /// Probabilities of faults of chunks, in thousandths.
  struct Weather {
    var loss = 0
    var corruption = 0
    var duplication = 0
    /// A chunk that is late by up to 30 ms, so that others and perhaps the report request overtake it.
    var delay = 0

    var isFair: Bool { loss + corruption + duplication + delay == 0 }
  }

  static let link = LinkID(1)

  private(set) var verifier: VerifierEngine
  private(set) var wallet: WalletEngine
  private(set) var now = Instant.zero
  private(set) var delivered: [[UInt8]] = []
  private(set) var invitations: [Invitation] = []
  private(set) var verifierNotices: [VerifierEngine.Notice] = []
  private(set) var walletNotices: [WalletEngine.Notice] = []
  private(set) var chunksSent = 0
  /// The maximum number of chunks that were queued in the radio.
  private(set) var largestBurst = 0

  private let dialect: Dialect
  private let mtu: Int
  private let weather: Weather
  /// Whether the verifier's radio reports the MTU; otherwise it is derived from chunks.
  private let verifierKnowsMTU: Bool
  private var dice: Dice
  private var queue = Timeline<Happening>()
  private var isLinked = false
  private var isScanning = false
  private var chunksWithRadio = 0
  private var radioIsFreeAt = Instant.zero

  private enum Happening {
    case verifier(VerifierEngine.Event)
    case wallet(WalletEngine.Event)
    /// A write has arrived at the verifier.
    case arrival([UInt8], Characteristic, needsResponse: Bool)
    /// A command has left the wallet's radio.
    case departure(Characteristic)
    case linkEnds
  }

  init(
    text: [UInt8], in dialect: Dialect, mtu: Int, weather: Weather = Weather(), seed: UInt64,
    verifierKnowsMTU: Bool = true, configuration: WalletEngine.Configuration = .init()
  ) throws {
    self.dialect = dialect
    self.mtu = mtu
    self.weather = weather
    self.verifierKnowsMTU = verifierKnowsMTU
    dice = Dice(seed)
    verifier = VerifierEngine(configuration: .init(name: "OVPMOSIP"), random: SeededRandom(seed: seed))
    let started = verifier.handle(.start, at: now)
    guard let invitation = verifier.invitation else { throw TuvaliError(.unknown, .stopped, "Nothing on the air.") }
    wallet = try WalletEngine(
      invitation: invitation.text(as: dialect.invitationForm), text: text, configuration: configuration,
      random: SeededRandom(seed: seed &+ 1))
    perform(started)
    happen(.wallet(.start), after: .milliseconds(1))
  }

  /// Runs until no event is left, at most for `limit`.
  mutating func run(limit: Duration) {
    let end = now.advanced(by: limit)
    while let next = [queue.first, verifier.linkDeadline, wallet.deadline].compactMap({ $0 }).min(), next <= end {
      now = max(now, next)
      if let happening = queue.take(upTo: now) { take(happening) }
      if let deadline = verifier.linkDeadline, deadline <= now { perform(verifier.handle(.timer, at: now)) }
      if let deadline = wallet.deadline, deadline <= now { perform(wallet.handle(.timer, at: now)) }
    }
  }

  /// Whether no event and no deadline is left.
  var isAtRest: Bool { queue.first == nil && verifier.linkDeadline == nil && wallet.deadline == nil }

  private mutating func happen(_ happening: Happening, after delay: Duration) {
    queue.add(happening, at: now.advanced(by: delay))
  }

  private mutating func take(_ happening: Happening) {
    switch happening {
    case .verifier(let event): perform(verifier.handle(event, at: now))
    case .wallet(let event): perform(wallet.handle(event, at: now))
    case .departure(let characteristic):
      if characteristic == .submitResponse { chunksWithRadio -= 1 }
      guard isLinked else { return }
      perform(wallet.handle(.written(characteristic, nil), at: now))
    case .arrival(let value, let characteristic, let needsResponse):
      guard isLinked else { return }
      let (answer, actions) = verifier.write(value, to: characteristic, of: dialect, on: Self.link, at: now)
      perform(actions)
      guard needsResponse else { return }
      if characteristic == .submitResponse { chunksWithRadio -= 1 }
      happen(.wallet(.written(characteristic, answer == .accepted ? nil : .busy)), after: .milliseconds(2))
    case .linkEnds:
      guard isLinked else { return }
      isLinked = false
      perform(verifier.handle(.linkClosed(Self.link), at: now))
      perform(wallet.handle(.disconnected, at: now))
    }
  }

  // MARK: The verifier's house

  private mutating func perform(_ actions: [VerifierEngine.Action]) {
    for action in actions {
      switch action {
      case .advertise(let invitation):
        invitations.append(invitation)
        sight()
      case .notify(_, let characteristic, _, let value):
        if isLinked { happen(.wallet(.notified(characteristic, value)), after: .milliseconds(3)) }
      case .cut: happen(.linkEnds, after: .milliseconds(1))
      case .unseal(let link, let job): happen(.verifier(.unsealed(link, job.run())), after: .milliseconds(5))
      case .deliver(let link, let text):
        delivered.append(text)
        happen(.verifier(.kept(link, nil)), after: .milliseconds(5))
      case .tell(let link, let notice):
        verifierNotices.append(notice)
        if notice == .received { happen(.verifier(.decided(link, accepted: true)), after: .milliseconds(50)) }
      case .stopAdvertising: break
      }
    }
  }

  // MARK: The wallet's radio

  private mutating func perform(_ actions: [WalletEngine.Action]) {
    for action in actions {
      switch action {
      case .scan:
        isScanning = true
        sight()
      case .stopScanning: isScanning = false
      case .connect:
        isLinked = true
        perform(verifier.handle(.linkOpened(Self.link, at: now), at: now))
        happen(.wallet(.connected), after: .milliseconds(10))
      case .discover:
        let characteristics = Characteristic.allCases.map(dialect.uuid(of:))
        happen(.wallet(.discovered([dialect.service: Set(characteristics)])), after: .milliseconds(50))
      case .exchangeMTU:
        if verifierKnowsMTU { happen(.verifier(.linkChanged(Self.link, mtu: mtu)), after: .milliseconds(5)) }
        happen(.wallet(.mtuChanged(mtu)), after: .milliseconds(10))
      case .subscribe(let characteristic, _): happen(.wallet(.subscribed(characteristic)), after: .milliseconds(10))
      case .write(let value, let characteristic, _, let withResponse):
        write(value, to: characteristic, withResponse: withResponse)
      case .seal(let job): happen(.wallet(.sealed(job.run())), after: .milliseconds(5))
      case .disconnect: happen(.linkEnds, after: .milliseconds(1))
      case .tell(let notice): walletNotices.append(notice)
      }
    }
  }

  private mutating func sight() {
    guard isScanning, let invitation = invitations.last else { return }
    let data = [
      dialect.service: invitation.advertisedServiceData, dialect.scanResponse: invitation.scanResponseServiceData,
    ]
    happen(.wallet(.sighted(token: 1, serviceData: data)), after: .milliseconds(100))
  }

  /// Queues a write behind the others; each takes half a millisecond.
  private mutating func write(_ value: [UInt8], to characteristic: Characteristic, withResponse: Bool) {
    radioIsFreeAt = max(radioIsFreeAt, now).advanced(by: .microseconds(500))
    let sent = now.duration(to: radioIsFreeAt)
    let isChunk = characteristic == .submitResponse
    if isChunk {
      chunksSent += 1
      chunksWithRadio += 1
      largestBurst = max(largestBurst, chunksWithRadio)
    }
    if !withResponse { happen(.departure(characteristic), after: sent) }
    guard isChunk else {
      happen(.arrival(value, characteristic, needsResponse: withResponse), after: sent + .milliseconds(2))
      return
    }
    if dice.rolls(weather.loss) {
      // A request that the peer's stack answered and then lost.
      if withResponse { happen(.departure(characteristic), after: sent + .milliseconds(4)) }
      return
    }
    var value = value
    if dice.rolls(weather.corruption) { value[dice.below(value.count)] ^= 1 << UInt8(dice.below(8)) }
    let late = dice.rolls(weather.delay) ? Duration.milliseconds(1 + dice.below(30)) : .zero
    happen(.arrival(value, characteristic, needsResponse: withResponse), after: sent + .milliseconds(2) + late)
    guard dice.rolls(weather.duplication) else { return }
    happen(.arrival(value, characteristic, needsResponse: false), after: sent + .milliseconds(2 + dice.below(30)))
  }
}

/// Future events, ordered by time, and at equal times by insertion.
struct Timeline<Element> {
  private var entries: [(at: Instant, element: Element)] = []
  private var taken = 0

  var first: Instant? { taken < entries.count ? entries[taken].at : nil }

  mutating func add(_ element: Element, at time: Instant) {
    var index = entries.count
    while index > taken, entries[index - 1].at > time { index -= 1 }
    entries.insert((time, element), at: index)
  }

  mutating func take(upTo now: Instant) -> Element? {
    guard let first, first <= now else { return nil }
    defer {
      taken += 1
      if taken > 1000 {
        entries.removeFirst(taken)
        taken = 0
      }
    }
    return entries[taken].element
  }
}

/// SplitMix64: fast, and deterministic by its seed.
struct Dice {
  private var state: UInt64

  init(_ seed: UInt64) {
    // Mixed, because otherwise adjacent seeds would give one sequence, shifted by a draw.
    state = Self.mix(seed &+ 1)
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    return Self.mix(state)
  }

  private static func mix(_ value: UInt64) -> UInt64 {
    var mixed = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    return mixed ^ mixed >> 31
  }

  mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

  mutating func rolls(_ thousandths: Int) -> Bool { thousandths > 0 && below(1000) < thousandths }

  mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) } }
}
