import Common

/// What a neighbour of this kind says to confirm packets of files.
struct FileConfirmation: Hashable, Sendable {
  /// The mark of a fragment, or what was asked with.
  let mark: UInt64
  /// Whether it names a fragment; else it is the answer to a question.
  let isOfFragment: Bool
}

/// How much of what went over a link to a node of this kind its other end has taken. It confirms every few fragments, by the
/// mark of the last one, and with it all that went before. A value.
///
/// The other end is told after how many with a question: a ping, which goes behind the packets and whose answer confirms them. It is
/// asked at first, when that number has changed much, behind small files, which are no fragments, and when all is to be confirmed.
///
/// As many packets may be unconfirmed as keep the link busy, and more: what the link has taken of late in the time that a
/// confirmation needs on an empty one, and beyond. Nothing overtakes what waits on the way, so beside chat that is little; else more,
/// for what many packets at a time cost each program on the way, and the confirmations, is less. How long a confirmation needs is
/// measured with the first packet, and anew every ten seconds: then all is confirmed before the next packet goes. Without that a link
/// that is always full would pass for one that is slow.
struct Confirming: Sendable {
  /// The fewest and the most packets that may be unconfirmed.
  static let limits = 4...96
  /// So long packets may wait on the way beside chat, or for half the time that a confirmation needs where that is longer.
  static let wait = Duration.milliseconds(40)
  /// The same where nobody chats: the first line after that may wait so long.
  static let waitWithoutChat = Duration.milliseconds(400)
  /// So long a confirmation is waited for at least. It can be lost.
  static let time = Duration.seconds(1)
  /// From one measurement on an empty link to the next; where a confirmation takes more than a 64th of this, 64 times its time.
  static let period = Duration.seconds(10)
  /// How fast the link is, is the best that so many confirmations have shown.
  private static let rateCount = 10
  /// Nothing is faster than the clock can tell.
  private static let shortestTime = Duration.milliseconds(1)

  /// A packet of a file, or a question behind some.
  private struct Sent: Sendable {
    /// What the confirmation names; nil for a packet that is no fragment.
    let mark: UInt64?
    let isQuestion: Bool
    let at: Instant
    /// How many packets were confirmed by then.
    let confirmed: Int

    func isMeant(by confirmation: FileConfirmation) -> Bool {
      mark == confirmation.mark && isQuestion != confirmation.isOfFragment
    }
  }

  /// The shortest time that a confirmation took.
  private struct Shortest: Sendable {
    let time: Duration
    /// When it was measured on an empty link.
    let measuredAt: Instant
    /// Until when it holds. It is asked for with each packet.
    let until: Instant

    init(_ time: Duration, measuredAt: Instant) {
      (self.time, self.measuredAt) = (time, measuredAt)
      until = measuredAt.advanced(by: max(Confirming.period, time * 64))
    }
  }

  /// What is unconfirmed, in the order of its going.
  private var way: [Sent] = []
  /// What was given up last. A confirmation of it that comes too late shows how long they take.
  private var overdue: [Sent] = []
  /// Packets that went after the last question.
  private var unasked = 0
  private var lastAt = Instant.zero
  private var confirmed = 0
  /// Nil before the first confirmation.
  private var shortest: Shortest?
  /// Packets a second, as the last confirmations showed them.
  private var rates: [Double] = []
  /// Whether nothing more goes until all is confirmed.
  private var isEmptying = false
  /// Whether the next confirmation says how long they take.
  private var isMeasuring = true
  /// Packets on the way.
  private(set) var unconfirmed = 0
  /// The most packets that may be unconfirmed now.
  private(set) var limit = limits.lowerBound
  /// After so many packets the other end is to confirm.
  private(set) var interval = interval(of: limits.lowerBound)
  /// After how many it does, as it was told; nil before the first question.
  private var told: Int?
  /// Whether chat goes over the link, or may at any moment. The next confirmation makes use of it.
  var isBesideChat = true

  /// Whether the other end is to be asked now.
  var isDue: Bool {
    guard unasked > 0 else { return false }
    if isEmptying || isMeasuring && !way.contains(where: \.isQuestion) { return true }
    // It does not confirm what is no fragment by itself.
    return unasked >= interval && (!isTold || way.last?.mark == nil)
  }
  /// When the next packet may go.
  var next: Instant { hasRoom ? .zero : lastAt.advanced(by: patience) }

  private var hasRoom: Bool { isEmptying ? way.isEmpty : unconfirmed < limit }
  /// A link that is slow by nature is not taken for one that is lost.
  private var patience: Duration { max(Self.time, (shortest?.time ?? .zero) * 4) }
  /// Whether the other end confirms about as often as it is to.
  private var isTold: Bool { told.map { $0 * 3 >= interval * 2 && $0 * 3 <= interval * 4 } ?? false }

  /// - Parameter mark: that of the fragment; nil for a packet that is none.
  mutating func sent(_ mark: UInt64?, at now: Instant) {
    if !hasRoom {
      // Nobody confirms: it goes on without, and asks anew.
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

  /// A question goes: it has the other end answer with the nonce, and confirm after `interval` packets from then on.
  mutating func ask(_ nonce: UInt64, at now: Instant) {
    way.append(Sent(mark: nonce, isQuestion: true, at: now, confirmed: confirmed))
    (unasked, told) = (0, interval)
  }

  /// - Returns: whether what it names is on the way; all that went before is confirmed with it.
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

  /// Confirmations cost the link as much as packets do. One comes in time where no more packets go before it than may wait on the
  /// way, and where two are under way one that is lost holds up little.
  ///
  /// - Parameter share: that of the packets which may wait on the way.
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
