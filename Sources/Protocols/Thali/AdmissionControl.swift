import Common

/// Pauses discovery when there are too many new announcements: a flood then costs discovery, but not processor time or
/// battery. Facts: thali.md section 8.
///
/// More than 50 new announcements in a second pause discovery for 30 s. Each further pause is twice as long, up to 10
/// min. After 10 min without a pause, the next one lasts 30 s again.
public struct AnnouncementGate: Sendable {
  private var bucket = TokenBucket(Limits.announcementsPerSecond)
  private var backoff = Backoff(from: Limits.firstPause, upTo: Limits.longestPause)
  /// The end of the current pause of discovery, or of the last one; nil before the first pause.
  private var resumption: Instant?
  /// Number of pauses of discovery.
  public private(set) var pauses: UInt64 = 0
  /// New announcements that were ignored because discovery was paused.
  public private(set) var ignored: UInt64 = 0

  public init() {}

  /// The end of the pause of discovery; nil if there is none.
  public func pausedUntil(at now: Instant) -> Instant? {
    resumption.flatMap { now < $0 ? $0 : nil }
  }

  /// Counts a new announcement, and begins a pause above the limit. Returns false while discovery is paused.
  public mutating func admit(at now: Instant) -> Bool {
    guard pausedUntil(at: now) == nil else {
      ignored += 1
      return false
    }
    if let resumption, resumption.duration(to: now) >= Limits.longestPause { backoff.reset() }
    guard !bucket.take(at: now) else { return true }
    ignored += 1
    pauses += 1
    resumption = now.advanced(by: backoff.next())
    return false
  }
}

/// Reason why a connection is refused.
public enum ConnectionRefusal: Int, CaseIterable, Error, Hashable, Sendable {
  /// The maximum number of connections is open.
  case tooMany
  /// The address has its maximum number of open connections.
  case tooManyOfAddress
  /// The address has opened the maximum number of connections in the current period.
  case tooFast

  /// The name of the reason's counter.
  public var name: String {
    switch self {
    case .tooMany: "TooManyConnections"
    case .tooManyOfAddress: "TooManyConnectionsOfOne"
    case .tooFast: "ConnectionsTooFast"
    }
  }
}

/// Limits the connections of one kind: open ones in total, open ones of one address, and new ones of one address in a
/// period. Facts: thali.md section 8.
public struct ConnectionLimit<Address: Hashable & Sendable>: Sendable {
  private struct Use: Sendable {
    var open = 0
    var bucket: TokenBucket?
    var lastOpened: Instant
  }

  private let total: Int
  private let ofOneAddress: Int
  private let rate: (count: Int, period: Duration)?
  private var uses: [Address: Use] = [:]
  /// Number of open connections.
  public private(set) var count = 0

  /// - Parameters:
  ///   - total: maximum number of open connections.
  ///   - ofOneAddress: maximum number of open connections of one address; nil means `total`.
  ///   - rate: maximum number of new connections of one address in a period; nil means no limit.
  public init(total: Int, ofOneAddress: Int? = nil, rate: (count: Int, period: Duration)? = nil) {
    (self.total, self.ofOneAddress, self.rate) = (total, ofOneAddress ?? total, rate)
  }

  /// Counts a new connection.
  ///
  /// - Throws: a `ConnectionRefusal`; `close` must then not be called.
  public mutating func open(_ address: Address, at now: Instant) throws(ConnectionRefusal) {
    guard count < total else { throw .tooMany }
    forgetIdle(at: now)
    var use = uses[address] ?? Use(bucket: rate.map { TokenBucket($0.count, each: $0.period) }, lastOpened: now)
    guard use.open < ofOneAddress else { throw .tooManyOfAddress }
    let mayOpen = use.bucket?.take(at: now) ?? true
    if mayOpen {
      use.open += 1
      use.lastOpened = now
      count += 1
    }
    uses[address] = use
    guard mayOpen else { throw .tooFast }
  }

  /// Counts a message of an address that has no connection: whether it is within the rate of new connections.
  public mutating func admit(_ address: Address, at now: Instant) -> Bool {
    do throws(ConnectionRefusal) { try open(address, at: now) } catch { return false }
    close(address)
    return true
  }

  /// Counts the end of a connection that `open` admitted.
  public mutating func close(_ address: Address) {
    guard let use = uses[address], use.open > 0 else { return }
    uses[address]?.open -= 1
    count -= 1
    if use.open == 1, rate == nil { uses[address] = nil }
  }

  /// Number of addresses with a stored record.
  var addresses: Int { uses.count }

  /// Removes records if there are too many: those whose rate limit is unused or, if there are none, all without an open
  /// connection.
  private mutating func forgetIdle(at now: Instant) {
    guard uses.count >= Limits.countedAddresses else { return }
    let period = rate?.period ?? .zero
    uses = uses.filter { $0.value.open > 0 || $0.value.lastOpened.duration(to: now) < period }
    guard uses.count >= Limits.countedAddresses else { return }
    uses = uses.filter { $0.value.open > 0 }
  }
}

extension ConnectionLimit {
  /// The limits of incoming RFCOMM links.
  public static var rfcommLinks: ConnectionLimit {
    ConnectionLimit(
      total: Limits.rfcommLinks, rate: (Limits.rfcommLinksPerMinute, .seconds(60)))
  }

  /// The limits of incoming HTTP connections, which fetch beacons.
  public static var httpConnections: ConnectionLimit {
    ConnectionLimit(total: Limits.httpConnections, ofOneAddress: Limits.httpConnectionsOfOneAddress)
  }

  /// The limit of datagrams of one address.
  static var datagrams: ConnectionLimit {
    ConnectionLimit(total: 1, rate: (Limits.datagramsOfOneAddress, .seconds(1)))
  }

  /// The limit of TLS handshakes that are under way.
  public static var tlsHandshakes: ConnectionLimit {
    ConnectionLimit(
      total: Limits.tlsHandshakes, ofOneAddress: Limits.tlsHandshakesOfOneAddress,
      rate: (Limits.tlsHandshakesPerSecond, .seconds(1)))
  }
}
