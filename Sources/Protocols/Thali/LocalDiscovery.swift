import Common
import Crypto

/// Announces this machine's beacons on the local network by SSDP, and discovers those of other machines. The owner has
/// the sockets: it sends a multicast on each interface and to each group, with the location of the interface. Facts:
/// thali.md section 7.
public struct LocalDiscovery: Sendable {
  public enum Event: Hashable, Sendable {
    /// Publish other beacons under another name; nil means that nothing is announced.
    case publish(ServiceName?)
    /// An interface has got an address.
    case joined
    /// A datagram arrived.
    case received([UInt8], from: NetworkAddress, port: UInt16)
    /// Beacons could, or could not, be fetched from an address.
    case fetched(NetworkAddress, succeeded: Bool)
    /// A peer has connected to this machine, so the network passes unicast.
    case connected
    /// Whether a person uses the machine. It decides how often beacons are announced.
    case foreground(Bool)
    /// `deadline` is reached.
    case timer
  }

  public enum Intent: Hashable, Sendable {
    /// Multicast `SSDPMessage.alive`.
    case announce(ServiceName)
    /// Multicast `SSDPMessage.byebye`.
    case withdraw(ServiceName)
    /// Multicast `SSDPMessage.search`.
    case search(ServiceName?)
    /// Send `SSDPMessage.response` to an address.
    case answer(ServiceName, to: NetworkAddress, port: UInt16)
    /// A peer serves beacons of this name at the location.
    case sighted(Location, ServiceName)
    /// A peer at this address has withdrawn the beacons of this name.
    case left(ServiceName, NetworkAddress)
  }

  /// Event counters.
  public struct Counters: Hashable, Sendable {
    /// Datagrams that were not read, because there were more than 100 in a second, or more than 25 of one address.
    public var tooMany: UInt64 = 0
    /// Pauses because the network passes multicast but not unicast.
    public var unicastPauses: UInt64 = 0
    private var drops = [UInt64](repeating: 0, count: SSDPMessage.Drop.allCases.count)
    private var refusals = [UInt64](repeating: 0, count: Location.Refusal.allCases.count)

    public subscript(_ drop: SSDPMessage.Drop) -> UInt64 { drops[drop.rawValue] }
    public subscript(_ refusal: Location.Refusal) -> UInt64 { refusals[refusal.rawValue] }

    mutating func count(_ drop: SSDPMessage.Drop) { drops[drop.rawValue] += 1 }
    mutating func count(_ refusal: Location.Refusal) { refusals[refusal.rawValue] += 1 }

    /// All counters with their names.
    public var tallies: [Tally] {
      [Tally("TooManyDatagrams", tooMany), Tally("UnicastPauses", unicastPauses)]
        + SSDPMessage.Drop.allCases.map { Tally($0.name, self[$0]) }
        + Location.Refusal.allCases.map { Tally($0.name, self[$0]) }
    }
  }

  private struct Answer: Hashable, Sendable {
    let address: NetworkAddress
    let port: UInt16
    let due: Instant
  }

  private static let pendingAnswers = 32

  private var random: any RandomSource & Sendable
  private var name: ServiceName?
  /// The last names of this machine, the oldest first.
  private var ownNames: [ServiceName] = []
  private var isForeground = false
  private var nextAnnouncement: Instant?
  private var lastSearch: Instant?
  private var answers: [Answer] = []
  private var bucket = TokenBucket(Limits.datagramsPerSecond)
  /// Each source address's share of the datagrams, so that one sender does not use up those of all.
  private var shares = ConnectionLimit<NetworkAddress>.datagrams
  /// Addresses with a failed fetch since the last success.
  private var unreachable: Set<NetworkAddress> = []
  private var lastSuccess: Instant?
  private var unicastPause: Instant?
  public private(set) var counters = Counters()

  /// Makes the state of discovery.
  ///
  /// - Parameter random: source of the delays of answers to searches.
  public init(random: any RandomSource & Sendable) { self.random = random }

  /// When `Event.timer` is due; nil if nothing is timed.
  public var deadline: Instant? { (answers.map(\.due) + [nextAnnouncement].compactMap { $0 }).min() }

  /// The end of the pause because of unicast; nil if there is none.
  public func pausedUntil(at now: Instant) -> Instant? { unicastPause.flatMap { now < $0 ? $0 : nil } }

  public mutating func handle(_ event: Event, at now: Instant) -> [Intent] {
    switch event {
    case .publish(let name): return publish(name, at: now)
    case .joined:
      let searches = lastSearch.map { $0.duration(to: now) >= Limits.searchPeriod } ?? true
      if searches { lastSearch = now }
      return (searches ? [.search(name)] : []) + announce(at: now)
    case .received(let datagram, let address, let port): return receive(datagram, address, port, at: now)
    case .fetched(_, succeeded: true), .connected: return proveUnicast(at: now)
    case .fetched(let address, succeeded: false):
      noteFailure(address, at: now)
      return []
    case .foreground(let isForeground):
      guard self.isForeground != isForeground else { return [] }
      self.isForeground = isForeground
      return isForeground ? announce(at: now) : []
    case .timer: return timer(at: now)
    }
  }

  private var period: Duration { isForeground ? Limits.foregroundPeriod : Limits.backgroundPeriod }

  private mutating func publish(_ name: ServiceName?, at now: Instant) -> [Intent] {
    guard name != self.name else { return [] }
    let old = self.name
    self.name = name
    guard let name else {
      (nextAnnouncement, answers) = (nil, [])
      return old.map { [.withdraw($0)] } ?? []
    }
    ownNames.append(name)
    if ownNames.count > Limits.ownNames { ownNames.removeFirst() }
    // The old name is not withdrawn: those who fetch it at this moment get the new beacons.
    return announce(at: now)
  }

  private mutating func announce(at now: Instant) -> [Intent] {
    guard let name else { return [] }
    if let paused = pausedUntil(at: now) {
      nextAnnouncement = paused
      return []
    }
    nextAnnouncement = now.advanced(by: period)
    return [.announce(name)]
  }

  private mutating func timer(at now: Instant) -> [Intent] {
    let due = answers.filter { $0.due <= now }
    answers.removeAll { $0.due <= now }
    let intents = name.map { name in due.map { Intent.answer(name, to: $0.address, port: $0.port) } } ?? []
    guard let nextAnnouncement, nextAnnouncement <= now else { return intents }
    return intents + announce(at: now)
  }

  // MARK: Datagrams

  private mutating func receive(
    _ datagram: [UInt8], _ address: NetworkAddress, _ port: UInt16, at now: Instant
  ) -> [Intent] {
    guard shares.admit(address, at: now), bucket.take(at: now) else {
      counters.tooMany += 1
      return []
    }
    do throws(SSDPMessage.Drop) {
      switch try SSDPMessage(reading: datagram) {
      case .alive(let name, let location), .response(let name, let location):
        guard !ownNames.contains(name) else { return [] }
        return sight(name, location, address)
      case .byebye(let name): return ownNames.contains(name) ? [] : [.left(name, address)]
      case .search(let name, let wait):
        guard name.map({ !ownNames.contains($0) }) ?? true else { return [] }
        answer(address, port, within: wait, at: now)
        return []
      }
    } catch {
      counters.count(error)
      return []
    }
  }

  private mutating func sight(_ name: ServiceName, _ text: String, _ address: NetworkAddress) -> [Intent] {
    do throws(Location.Refusal) {
      return [.sighted(try Location(text, from: address), name)]
    } catch {
      counters.count(error)
      return []
    }
  }

  /// Answers a search at a random moment, so that the answers of many machines are spread. A searcher gets one answer
  /// at a time.
  private mutating func answer(_ address: NetworkAddress, _ port: UInt16, within seconds: Int, at now: Instant) {
    // Also in the pause because of unicast: an answer is unicast, and a peer that gets it proves that it works.
    guard name != nil, answers.count < Self.pendingAnswers, !answers.contains(where: { $0.address == address })
    else { return }
    let fraction = Int64(random.bytes(2).reduce(0) { $0 << 8 | UInt32($1) })
    let delay = Duration.milliseconds(Int64(seconds) * 1000 * fraction / 65_536)
    answers.append(Answer(address: address, port: port, due: now.advanced(by: delay)))
  }

  // MARK: Unicast

  /// Ends the pause, if there is one: announcements continue at once.
  private mutating func proveUnicast(at now: Instant) -> [Intent] {
    let wasPaused = pausedUntil(at: now) != nil
    unreachable = []
    (lastSuccess, unicastPause) = (now, nil)
    return wasPaused ? announce(at: now) : []
  }

  /// Pauses announcements if no address can be reached, because the network then passes multicast but not unicast.
  /// Forged datagrams with three addresses can cause this as well, so the pause ends with the first connection in
  /// either direction.
  private mutating func noteFailure(_ address: NetworkAddress, at now: Instant) {
    guard pausedUntil(at: now) == nil else { return }
    unreachable.insert(address)
    let isFresh = lastSuccess.map { $0.duration(to: now) < Limits.unicastPause } ?? false
    guard unreachable.count >= Limits.unreachableAddresses, !isFresh else {
      // Addresses that fail while others succeed are not stored without a limit.
      if unreachable.count > Limits.waysOfOneKind { unreachable = [] }
      return
    }
    unreachable = []
    unicastPause = now.advanced(by: Limits.unicastPause)
    counters.unicastPauses += 1
  }
}
