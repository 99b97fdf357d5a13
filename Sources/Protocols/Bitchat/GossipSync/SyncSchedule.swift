import BitchatWire
import Common
import Crypto

/// Schedules sync requests to neighbours, and limits the answers to theirs. Facts: bitchat.md section 9.
struct SyncSchedule: Sendable {
  /// Time from a neighbour's first announce to the first request.
  static let firstDelay = Duration.seconds(1)
  /// Average time between two sync requests to a neighbour; each time is up to 20 % shorter or longer.
  static let period = Duration.seconds(15)
  /// Delay of the first request to a neighbour that is asked half as often.
  static let slowFirstDelay = Duration.seconds(5)
  /// Time between requests to such a neighbour.
  static let slowPeriod = Duration.seconds(30)
  /// Every second request, beginning with the first, asks for fragments.
  static let fragmentsEvery = 2
  /// Maximum requests of one neighbour that are answered per `answerPeriod`.
  static let answers = 8
  static let answerPeriod = Duration.seconds(30)
  /// Time after a request in which packets count as its answers.
  static let answerTime = Duration.seconds(30)

  private struct Neighbour: Sendable {
    var due: Instant
    var requests = 0
    var askedAt: Instant?
    var bucket = TokenBucket(SyncSchedule.answers, each: SyncSchedule.answerPeriod)
  }

  private var neighbours = LinkTable<Neighbour>()

  /// Next time at which a request is due; nil without neighbours.
  var deadline: Instant? {
    var first: Instant?
    for neighbour in neighbours.values where first.map({ neighbour.due < $0 }) ?? true { first = neighbour.due }
    return first
  }

  /// Starts the schedule of a link at the first direct announce of its peer.
  mutating func begin(_ link: LinkID, isSlow: Bool = false, at now: Instant) {
    guard neighbours[link] == nil else { return }
    neighbours[link] = Neighbour(due: now.advanced(by: isSlow ? Self.slowFirstDelay : Self.firstDelay))
  }

  mutating func end(_ link: LinkID) { neighbours[link] = nil }

  mutating func removeAll() { neighbours = LinkTable() }

  /// Returns the links on which a request is due, with the requested types and the number of earlier requests.
  ///
  /// - Parameter slow: links whose neighbours are asked half as often.
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
        by: (slow.contains(link) ? Self.slowPeriod : Self.period) * random.factor(in: 0.8...1.2))
      neighbours[link] = neighbour
    }
    return due
  }

  /// Records a request to the neighbour outside the schedule.
  mutating func ask(_ link: LinkID, at now: Instant) { neighbours[link]?.askedAt = now }

  /// Whether a request from this link may be answered; counts it if so.
  mutating func takeAnswer(on link: LinkID, at now: Instant) -> Bool {
    neighbours[link]?.bucket.take(at: now) ?? false
  }

  /// Whether packets from this link may be answers: the last request is at most `answerTime` ago.
  func awaitsAnswer(on link: LinkID, at now: Instant) -> Bool {
    neighbours[link]?.askedAt.map { $0.duration(to: now) <= Self.answerTime } ?? false
  }
}
