import Common
import Crypto

/// When a neighbour is asked what it has, and how often one that asks is answered. Facts: bitchat.md section 9.
struct SyncSchedule: Sendable {
  /// From a neighbour's first announce until it is asked.
  static let firstDelay = Duration.seconds(1)
  /// From one request to the next, give or take a fifth.
  static let period = Duration.seconds(15)
  /// The same two with a neighbour of dialect S.
  static let slowFirstDelay = Duration.seconds(5)
  static let slowPeriod = Duration.seconds(30)
  /// Fragments are asked for with every second request.
  static let fragmentsEvery = 2
  /// So many requests of a neighbour are answered within `answerPeriod`.
  static let answers = 8
  static let answerPeriod = Duration.seconds(30)
  /// So long after a request its answers are awaited.
  static let answerTime = Duration.seconds(30)

  private struct Neighbour: Sendable {
    var due: Instant
    var requests = 0
    var askedAt: Instant?
    var bucket = TokenBucket(SyncSchedule.answers, each: SyncSchedule.answerPeriod)
  }

  private var neighbours = LinkTable<Neighbour>()

  /// When a request is due next; nil without neighbours.
  var deadline: Instant? {
    var first: Instant?
    for neighbour in neighbours.values where first.map({ neighbour.due < $0 }) ?? true { first = neighbour.due }
    return first
  }

  /// A peer has announced itself over a link of its own for the first time.
  mutating func begin(_ link: LinkID, isSlow: Bool = false, at now: Instant) {
    guard neighbours[link] == nil else { return }
    neighbours[link] = Neighbour(due: now.advanced(by: isSlow ? Self.slowFirstDelay : Self.firstDelay))
  }

  mutating func end(_ link: LinkID) { neighbours[link] = nil }

  mutating func removeAll() { neighbours = LinkTable() }

  /// The links on which a request is due, what it is about, and how many went before it.
  ///
  /// - Parameter slow: the links whose neighbours are asked half as often.
  mutating func takeDue(
    _ random: inout some RandomSource, slow: Set<LinkID> = [], at now: Instant
  ) -> [(link: LinkID, types: SyncTypes, round: Int)] {
    var due: [(link: LinkID, types: SyncTypes, round: Int)] = []
    for link in neighbours.keys {
      guard var neighbour = neighbours[link], neighbour.due <= now else { continue }
      let withFragments = neighbour.requests.isMultiple(of: Self.fragmentsEvery)
      let types: SyncTypes = withFragments ? [.announce, .message, .fragment] : [.announce, .message]
      due.append((link, types, neighbour.requests))
      neighbour.requests += 1
      neighbour.askedAt = now
      neighbour.due = now.advanced(
        by: (slow.contains(link) ? Self.slowPeriod : Self.period) * Random.factor(0.8...1.2, &random))
      neighbours[link] = neighbour
    }
    return due
  }

  /// The neighbour is asked for something besides.
  mutating func ask(_ link: LinkID, at now: Instant) { neighbours[link]?.askedAt = now }

  /// Whether a request that came over this link is answered.
  mutating func takeAnswer(on link: LinkID, at now: Instant) -> Bool {
    neighbours[link]?.bucket.take(at: now) ?? false
  }

  /// Whether what comes over this link may be an answer: the neighbour was asked a short time ago.
  func awaitsAnswer(on link: LinkID, at now: Instant) -> Bool {
    neighbours[link]?.askedAt.map { $0.duration(to: now) <= Self.answerTime } ?? false
  }
}
