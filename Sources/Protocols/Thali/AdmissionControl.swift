import Common

/// Stops discovery for a while when there are too many new announcements: the cost of a flood is then a loss of
/// discovery and not of processor time or battery. Facts: thali.md section 8.
///
/// More than 50 new announcements in a second stop discovery for 30 s. Each further time doubles the pause, up to 10
/// min. After 10 min of discovery without a pause the next one has 30 s again.
public struct AnnouncementGate: Sendable {
  private var bucket = TokenBucket(Limits.announcementsPerSecond)
  private var nextPause = Limits.firstPause
  /// The end of the current or last pause.
  private var resumption: Instant?
  /// How often discovery was stopped.
  public private(set) var pauses: UInt64 = 0
  /// New announcements that were ignored.
  public private(set) var ignored: UInt64 = 0

  public init() {}

  /// The end of the pause; nil if there is none.
  public func pausedUntil(at now: Instant) -> Instant? {
    resumption.flatMap { now < $0 ? $0 : nil }
  }

  /// Whether a new announcement may be looked at.
  public mutating func admit(at now: Instant) -> Bool {
    guard pausedUntil(at: now) == nil else {
      ignored += 1
      return false
    }
    if let resumption, resumption.duration(to: now) >= Limits.longestPause { nextPause = Limits.firstPause }
    guard !bucket.take(at: now) else { return true }
    ignored += 1
    pauses += 1
    resumption = now.advanced(by: nextPause)
    nextPause = min(nextPause * 2, Limits.longestPause)
    return false
  }
}

/// Why a connection is refused.
public enum ConnectionRefusal: Int, CaseIterable, Error, Hashable, Sendable {
  /// As many connections as there may be are open.
  case tooMany
  /// The address has as many open connections as it may.
  case tooManyOfAddress
  /// The address opens connections too fast.
  case tooFast

  /// The name of its counter.
  public var name: String {
    switch self {
    case .tooMany: "TooManyConnections"
    case .tooManyOfAddress: "TooManyConnectionsOfOne"
    case .tooFast: "ConnectionsTooFast"
    }
  }
}

/// Limits the connections of one kind: how many at a time, how many of one address at a time, and how many new ones
/// of one address in a period. Facts: thali.md section 8.
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
  /// Connections that are open.
  public private(set) var count = 0

  /// - Parameters:
  ///   - total: connections at a time.
  ///   - ofOneAddress: connections of one address at a time; nil: as many as `total`.
  ///   - rate: new connections of one address in a period; nil: any number.
  public init(total: Int, ofOneAddress: Int? = nil, rate: (count: Int, period: Duration)? = nil) {
    (self.total, self.ofOneAddress, self.rate) = (total, ofOneAddress ?? total, rate)
  }

  /// Opens a connection.
  ///
  /// - Throws: a `ConnectionRefusal`; then there is nothing to close.
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

  /// Closes a connection that was opened.
  public mutating func close(_ address: Address) {
    guard let use = uses[address], use.open > 0 else { return }
    uses[address]?.open -= 1
    count -= 1
    if use.open == 1, rate == nil { uses[address] = nil }
  }

  /// Addresses whose use is remembered.
  var addresses: Int { uses.count }

  /// Makes room when too many addresses are remembered: those go whose rate is full again, and if there is none, all
  /// without an open connection.
  private mutating func forgetIdle(at now: Instant) {
    guard uses.count >= Limits.countedAddresses else { return }
    let period = rate?.period ?? .zero
    uses = uses.filter { $0.value.open > 0 || $0.value.lastOpened.duration(to: now) < period }
    guard uses.count >= Limits.countedAddresses else { return }
    uses = uses.filter { $0.value.open > 0 }
  }
}

extension ConnectionLimit {
  /// The limit of incoming RFCOMM links.
  public static var rfcommLinks: ConnectionLimit {
    ConnectionLimit(
      total: Limits.rfcommLinks, rate: (Limits.rfcommLinksPerMinute, .seconds(60)))
  }

  /// The limit of HTTP connections.
  public static var httpConnections: ConnectionLimit {
    ConnectionLimit(total: Limits.httpConnections, ofOneAddress: Limits.httpConnectionsOfOneAddress)
  }

  /// The limit of TLS handshakes that are under way.
  public static var tlsHandshakes: ConnectionLimit {
    ConnectionLimit(
      total: Limits.tlsHandshakes, ofOneAddress: Limits.tlsHandshakesOfOneAddress,
      rate: (Limits.tlsHandshakesPerSecond, .seconds(1)))
  }
}
