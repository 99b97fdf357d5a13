import Common

/// Confirmation of file packets by an Earshot neighbour.
struct FileConfirmation: Hashable, Sendable {
  /// Mark of a fragment, or nonce of a ping.
  let mark: UInt64
  /// Whether `mark` names a fragment; otherwise it is the nonce of an answered ping.
  let isOfFragment: Bool
}

/// Flow control for files on a link to an Earshot peer. The peer confirms every few fragments by the mark of the last
/// one, which also confirms all earlier ones.
///
/// A ping sets the confirmation interval. It follows the packets, and its answer confirms them. A ping is sent at
/// first, when the interval has changed much, behind files without fragments, and when everything must be confirmed.
///
/// The limit on unconfirmed packets keeps the link busy: the recent rate times the time of a confirmation on an empty
/// link, plus a margin. The margin is small beside chat, because nothing overtakes packets on the way. Otherwise it is
/// larger, because sending many packets at a time costs less per packet.
///
/// The confirmation time is measured with the first packet and again every ten seconds. For the measurement, the link
/// first drains. Otherwise a link that is always full would be mistaken for a slow one.
struct Confirming: Sendable {
  /// Smallest and largest number of packets that may be unconfirmed at a time.
  static let limits = 4...96
  /// Maximum queueing time of file packets while there is chat. Half a confirmation time applies if that is longer.
  static let wait = Duration.milliseconds(40)
  /// Maximum queueing time without chat. The first chat message afterwards may wait as long.
  static let waitWithoutChat = Duration.milliseconds(400)
  /// Minimum timeout of a confirmation, which can be lost.
  static let time = Duration.seconds(1)
  /// Interval between measurements on an empty link, or 64 confirmation times if that is longer.
  static let period = Duration.seconds(10)
  /// Number of latest confirmations of which the best rate counts as the speed of the link.
  private static let rateCount = 10
  /// Minimum measured time, because of the resolution of the clock.
  private static let shortestTime = Duration.milliseconds(1)

  /// A file packet or a ping that was sent and is not confirmed yet.
  private struct Sent: Sendable {
    /// Value that the confirmation names; nil for a packet that is not a fragment.
    let mark: UInt64?
    let isQuestion: Bool
    let at: Instant
    /// Number of packets that were confirmed at the time of sending.
    let confirmed: Int

    func isMeant(by confirmation: FileConfirmation) -> Bool {
      mark == confirmation.mark && isQuestion != confirmation.isOfFragment
    }
  }

  /// The shortest time from a packet to its confirmation that was measured lately.
  private struct Shortest: Sendable {
    let time: Duration
    /// Time of the measurement on an empty link.
    let measuredAt: Instant
    /// End of validity, stored because each packet compares it.
    let until: Instant

    init(_ time: Duration, measuredAt: Instant) {
      (self.time, self.measuredAt) = (time, measuredAt)
      until = measuredAt.advanced(by: max(Confirming.period, time * 64))
    }
  }

  /// Packets and pings that were sent and are not confirmed, in the order of sending.
  private var way: [Sent] = []
  /// Packets that were last counted as lost. A late confirmation of one of them shows the real confirmation time.
  private var overdue: [Sent] = []
  /// Number of packets sent since the last ping.
  private var unasked = 0
  private var lastAt = Instant.zero
  private var confirmed = 0
  /// Shortest confirmation time; nil before the first confirmation.
  private var shortest: Shortest?
  /// Packets per second, as measured by the latest confirmations.
  private var rates: [Double] = []
  /// Whether sending pauses until the link is empty, that is, until every packet is confirmed.
  private var isEmptying = false
  /// Whether the next confirmation measures the confirmation time.
  private var isMeasuring = true
  /// Number of packets on the link that were sent and are not confirmed.
  private(set) var unconfirmed = 0
  /// Maximum number of unconfirmed packets at present, adapted to the speed of the link.
  private(set) var limit = limits.lowerBound
  /// Number of packets after which the peer should confirm.
  private(set) var interval = interval(of: limits.lowerBound)
  /// Confirmation interval that was last sent to the peer; nil before the first ping.
  private var told: Int?
  /// Whether the link carries chat now, or may at any moment. A change takes effect with the next confirmation.
  var isBesideChat = true

  /// Whether a ping must be sent now.
  var isDue: Bool {
    guard unasked > 0 else { return false }
    if isEmptying || isMeasuring && !way.contains(where: \.isQuestion) { return true }
    // The peer does not confirm packets that are not fragments unless asked.
    return unasked >= interval && (!isTold || way.last?.mark == nil)
  }
  /// Earliest time at which the next file packet may be sent over the link.
  var next: Instant { hasRoom ? .zero : lastAt.advanced(by: patience) }

  private var hasRoom: Bool { isEmptying ? way.isEmpty : unconfirmed < limit }
  /// Confirmation timeout: four confirmation times on a slow link, so that a late confirmation does not count as lost.
  private var patience: Duration { max(Self.time, (shortest?.time ?? .zero) * 4) }
  /// Whether the interval known to the peer is within a third of `interval`.
  private var isTold: Bool { told.map { $0 * 3 >= interval * 2 && $0 * 3 <= interval * 4 } ?? false }

  /// Records that a packet was sent.
  ///
  /// - Parameter mark: mark of the fragment; nil for a packet that is not a fragment.
  mutating func sent(_ mark: UInt64?, at now: Instant) {
    if !hasRoom {
      // Confirmations have timed out: sending continues without them and measures again.
      limit = Self.limits.lowerBound
      interval = Self.interval(of: limit)
      (overdue, way, unasked, unconfirmed) = (way, [], 0, 0)
      (shortest, rates, told) = (nil, [], nil)
      (isEmptying, isMeasuring) = (false, true)
    } else if let shortest, !isMeasuring, now > shortest.until {
      isEmptying = true
    }
    way.append(Sent(mark: mark, isQuestion: false, at: now, confirmed: confirmed))
    unasked += 1
    unconfirmed += 1
    lastAt = now
  }

  /// Records a ping. The peer answers with the nonce, and from then on confirms every `interval` packets.
  mutating func ask(_ nonce: UInt64, at now: Instant) {
    way.append(Sent(mark: nonce, isQuestion: true, at: now, confirmed: confirmed))
    (unasked, told) = (0, interval)
  }

  /// Confirms a packet and all earlier ones.
  ///
  /// - Returns: whether the confirmed packet was on the way.
  mutating func confirm(_ confirmation: FileConfirmation, at now: Instant) -> Bool {
    guard let index = way.firstIndex(where: { $0.isMeant(by: confirmation) }) else {
      return isOverdue(confirmation, at: now)
    }
    let last = way[index]
    let taken = max(last.at.duration(to: now), Self.shortestTime)
    let packets = way[...index].count { !$0.isQuestion }
    confirmed += packets
    unconfirmed -= packets
    unasked = min(unasked, unconfirmed)
    way.removeFirst(index + 1)
    rates = rates.suffix(Self.rateCount - 1) + [Double(confirmed - last.confirmed) / (taken / .seconds(1))]
    if isEmptying, way.isEmpty {
      (isEmptying, isMeasuring) = (false, true)
    } else {
      if isMeasuring { shortest = Shortest(taken, measuredAt: now) }
      if let known = shortest, taken < known.time { shortest = Shortest(taken, measuredAt: known.measuredAt) }
      isMeasuring = false
    }
    adapt()
    return true
  }

  private mutating func adapt() {
    guard let shortest, let rate = rates.max() else { return }
    let wait = max(isBesideChat ? Self.wait : Self.waitWithoutChat, shortest.time / 2)
    let packets = rate * ((shortest.time + wait) / .seconds(1))
    limit = min(max(Int(packets.rounded()), Self.limits.lowerBound), Self.limits.upperBound)
    interval = Self.interval(of: limit, wait / (shortest.time + wait))
  }

  /// Returns the confirmation interval, at least 2. Confirmations cost as much radio time as packets. The interval
  /// stays below the packets that may queue, and at half the limit, so that one lost confirmation delays little.
  ///
  /// - Parameter share: fraction of the limit that may wait in queues.
  private static func interval(of limit: Int, _ share: Double = 1 / 3) -> Int {
    max(Int(Double(limit) * min(share, 1 / 2)), 2)
  }

  private mutating func isOverdue(_ confirmation: FileConfirmation, at now: Instant) -> Bool {
    guard let late = overdue.first(where: { $0.isMeant(by: confirmation) }) else { return false }
    (overdue, shortest) = ([], Shortest(late.at.duration(to: now), measuredAt: now))
    isMeasuring = false
    return true
  }
}
