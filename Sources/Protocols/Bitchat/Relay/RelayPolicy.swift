import Common

/// How packets of others are passed on. Facts: bitchat.md section 8.2, bitchat-delta.md section 2.
public enum RelayPolicy: String, CaseIterable, Hashable, Sendable {
  /// As the iOS app does, to the letter: a phone's battery decides.
  case apps
  /// As a node on mains power does: every packet goes on to all links on which it was not heard, until three copies of it
  /// were.
  case mains
  /// Nothing is passed on.
  case off
}

/// What a relay looks at of a packet.
struct RelaySubject: Hashable, Sendable {
  var type: MessageType
  var timeToLive: UInt8
  /// Whether the packet is for one peer.
  var isDirected: Bool
  /// Whether it is an announce of a peer that was known before.
  var isOfKnown = false
}

/// How one packet is passed on.
struct RelayDecision: Hashable, Sendable {
  /// Passed on with this time to live.
  var timeToLive: UInt8
  /// Milliseconds until then, drawn from this range.
  var delay: ClosedRange<Int64>
  /// So many copies heard, the first included, make it superfluous.
  var copiesEnough: Int
  /// Whether it goes to a part of the links only.
  var isForSome: Bool
}

extension RelayPolicy {
  /// The number of links from which on the iOS app calls its surroundings dense.
  static let dense = 6

  /// - Parameters:
  ///   - degree: links with peers.
  ///   - encryptedLimit: the highest time to live that an encrypted packet is passed on with; nil for no limit.
  /// - Returns: nil for a packet that ends here.
  func decide(_ subject: RelaySubject, degree: Int, encryptedLimit: UInt8? = nil) -> RelayDecision? {
    guard self != .off, subject.type != .requestSync else { return nil }
    let timeToLive = min(subject.timeToLive, Limits.timeToLive)
    guard timeToLive > 1 else { return nil }
    var decision = self == .apps ? asApps(subject, timeToLive, degree) : onMains(subject, timeToLive)
    if subject.type == .noiseEncrypted, let encryptedLimit {
      decision.timeToLive = min(decision.timeToLive, encryptedLimit)
    }
    return decision.timeToLive > 0 ? decision : nil
  }

  private func asApps(_ subject: RelaySubject, _ timeToLive: UInt8, _ degree: Int) -> RelayDecision {
    let isDense = degree >= Self.dense
    // Where there are few links every one may be somebody's only one: copies cancel nothing.
    let copies = degree > 2 ? 2 : Int.max
    func decision(_ limit: UInt8, _ delay: ClosedRange<Int64>, isForSome: Bool = false) -> RelayDecision {
      RelayDecision(
        timeToLive: min(timeToLive, limit) - 1, delay: delay, copiesEnough: copies, isForSome: isForSome)
    }
    switch subject.type {
    case .noiseHandshake: return decision(7, 10...35)
    case .noiseEncrypted where subject.isDirected: return decision(7, 20...60)
    case .fragment where subject.isDirected: return decision(7, 20...60)
    case .fragment, .voiceFrame: return decision(isDense ? 5 : 7, 8...25)
    default:
      let isAnnounce = subject.type == .announce
      let limit: UInt8 = isDense ? 5 : degree <= 2 || isAnnounce ? 7 : 6
      return decision(limit, Self.appsDelay(degree), isForSome: !isAnnounce)
    }
  }

  private static func appsDelay(_ degree: Int) -> ClosedRange<Int64> {
    switch degree {
    case ...2: 10...40
    case ...5: 60...150
    case ...9: 80...180
    default: 100...220
    }
  }

  /// Number of copies that cancel the relay of a packet with new content.
  static let copiesOfNews = 3

  private func onMains(_ subject: RelaySubject, _ timeToLive: UInt8) -> RelayDecision {
    let delay: ClosedRange<Int64> =
      switch subject.type {
      // Nobody takes a line from a peer that it does not know, so announces of new peers overtake everything else.
      case .announce where !subject.isOfKnown: 0...15
      case .fragment: 20...120
      case _ where subject.isDirected: 20...120
      // The more nearly all wait alike, the likelier the copy that came the shortest way comes first.
      default: 60...120
      }
    // Who misses an announce of a peer that it knows loses nothing by it, and has the next one soon.
    let isNews = subject.type != .announce || !subject.isOfKnown
    return RelayDecision(
      timeToLive: timeToLive - 1, delay: delay, copiesEnough: isNews ? Self.copiesOfNews : 2, isForSome: false)
  }

  /// How many of `count` links the iOS app passes a public packet on to: as many as `count - 1` has binary digits, and one.
  static func someLinks(of count: Int) -> Int {
    guard count > 1 else { return count }
    return min(count, Int.bitWidth - (count - 1).leadingZeroBitCount + 1)
  }
}
