import BitchatWire
import Common

/// Policy for relaying packets of other nodes. Facts: bitchat.md section 8.2, bitchat-delta.md section 2.
public enum RelayPolicy: String, CaseIterable, Hashable, Sendable {
  /// Exactly as the iOS app, which saves battery.
  case apps
  /// For mains power: relays each packet to all links from which it was not received, unless three copies arrive
  /// before.
  case mains
  /// The node relays no packets of others.
  case off
}

/// Properties of a packet that decide about its relay.
struct RelaySubject: Hashable, Sendable {
  var type: MessageType
  var timeToLive: UInt8
  /// Whether the packet is addressed to one peer.
  var isDirected: Bool
  /// Whether the packet is an announce of a peer that was known before.
  var isOfKnown = false
}

/// How a packet is relayed: with which TTL, after which delay, and to which part of the links.
struct RelayDecision: Hashable, Sendable {
  /// TTL that the relayed packet gets.
  var timeToLive: UInt8
  /// Range of the random delay, in milliseconds.
  var delay: ClosedRange<Int64>
  /// Number of received copies, including the first, that makes the relay superfluous.
  var copiesEnough: Int
  /// Whether the packet is sent to a subset of the links.
  var isForSome: Bool
  /// Further delay until the node wakes up for the relay alone.
  var slack = Duration.zero
}

extension RelayPolicy {
  /// Number of links at which the iOS app considers the network dense.
  static let dense = 6

  /// Decides whether and how a packet is relayed.
  ///
  /// - Parameters:
  ///   - degree: number of links with peers.
  ///   - encryptedLimit: maximum TTL of a relayed encrypted packet; nil for no limit.
  /// - Returns: nil for a packet that is not relayed.
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
    // With two links or fewer, this node may be the only path to a peer, so copies cancel nothing.
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

  /// Slack of the relay of an announce of a known peer.
  static let slackOfKnown = Duration.milliseconds(250)

  /// Number of copies that cancel the relay of a packet with new content.
  static let copiesOfNews = 3

  private func onMains(_ subject: RelaySubject, _ timeToLive: UInt8) -> RelayDecision {
    let delay: ClosedRange<Int64> =
      switch subject.type {
      // Nodes reject public messages of unknown peers, so announces of new peers overtake everything else.
      case .announce where !subject.isOfKnown: 0...15
      case .fragment: 20...120
      case _ where subject.isDirected: 20...120
      // The narrower the range of delays, the likelier the copy over the shortest path arrives first.
      default: 60...120
      }
    // A missed announce of a known peer is harmless: the next one follows soon.
    let isNews = subject.type != .announce || !subject.isOfKnown
    return RelayDecision(
      timeToLive: timeToLive - 1, delay: delay, copiesEnough: isNews ? Self.copiesOfNews : 2, isForSome: false,
      slack: isNews ? .zero : Self.slackOfKnown)
  }

  /// Number of links, of `count`, to which the iOS app relays a public packet: the binary digits of `count - 1`, plus
  /// one.
  static func someLinks(of count: Int) -> Int {
    guard count > 1 else { return count }
    return min(count, Int.bitWidth - (count - 1).leadingZeroBitCount + 1)
  }
}
