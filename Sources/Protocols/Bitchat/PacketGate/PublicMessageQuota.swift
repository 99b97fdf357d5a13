import BitchatWire
import Common

/// Limits on public messages per sender and per origin of links: accepted ones, and relayed ones. Without them one peer
/// could fill the radio channel and the disks of all nodes.
///
/// From a burst of one peer, up to `ofSender` messages are accepted, and up to `passedOnOfSender` of these are relayed.
/// Neighbours get the rest by gossip sync. Signatures are checked before, so a sender cannot use up the limit of
/// another. The origin of a packet cannot be forged.
struct PublicMessageQuota: Sendable {
  /// Accepted messages of one sender per period. A burst may have as many.
  static let ofSender = Limits.publicMessagesPerMinute
  /// Accepted messages of strangers over links of one origin per period. A burst may have as many.
  static let ofOrigin = 2400
  /// Relayed messages of one sender per period. A burst may have as many.
  static let passedOnOfSender = 240
  /// Relayed messages of all senders over links of one origin per period. A burst may have as many.
  static let passedOnOfOrigin = 1200
  static let period = Duration.seconds(60)
  /// Maximum senders for which a token bucket is stored.
  private static let senderLimit = 2048
  /// Maximum origins for which a token bucket is stored.
  private static let originLimit = 256

  /// Token buckets by key. If there are too many, buckets that are full again are dropped.
  private struct Buckets<Key: Hashable & Sendable>: Sendable {
    let count: Int
    let limit: Int
    private var buckets: [Key: (bucket: TokenBucket, usedAt: Instant)] = [:]

    init(_ count: Int, limit: Int) { (self.count, self.limit) = (count, limit) }

    var keys: Int { buckets.count }

    mutating func take(_ key: Key, at now: Instant) -> Bool {
      if buckets[key] == nil, buckets.count >= limit { makeRoom(at: now) }
      var entry = buckets[key] ?? (TokenBucket(count, each: PublicMessageQuota.period), now)
      entry.usedAt = now
      defer { buckets[key] = entry }
      return entry.bucket.take(at: now)
    }

    mutating func giveBack(_ key: Key) { buckets[key]?.bucket.giveBack() }

    private mutating func makeRoom(at now: Instant) {
      buckets = buckets.filter { $0.value.usedAt.duration(to: now) < PublicMessageQuota.period }
      // Dropping a quarter at a time keeps the cost of sorting low.
      guard buckets.count >= limit else { return }
      let oldest = buckets.sorted { $0.value.usedAt < $1.value.usedAt }.prefix(limit / 4)
      for (key, _) in oldest { buckets[key] = nil }
    }
  }

  private var senders = Buckets<PeerID>(ofSender, limit: senderLimit)
  private var origins = Buckets<DeviceOrigin>(ofOrigin, limit: originLimit)
  private var sendersPassedOn = Buckets<PeerID>(passedOnOfSender, limit: senderLimit)
  private var originsPassedOn = Buckets<DeviceOrigin>(passedOnOfOrigin, limit: originLimit)

  /// Numbers of senders and origins with buckets.
  var counts: (senders: Int, origins: Int) { (senders.keys, origins.keys) }

  /// Whether a message is accepted. Counts the message.
  ///
  /// - Parameter isDear: whether its sender is a favourite or verified, and does not count for the origin.
  mutating func take(from peer: PeerID, isDear: Bool, over origin: DeviceOrigin, at now: Instant) -> Bool {
    guard isDear || origins.take(origin, at: now) else { return false }
    guard senders.take(peer, at: now) else {
      if !isDear { origins.giveBack(origin) }
      return false
    }
    return true
  }

  /// Whether this node may send one more message. Counts the message.
  mutating func takeOwn(_ own: PeerID, at now: Instant) -> Bool { senders.take(own, at: now) }

  /// Whether an accepted message is relayed. Counts the message.
  mutating func mayPassOn(from peer: PeerID, over origin: DeviceOrigin, at now: Instant) -> Bool {
    guard originsPassedOn.take(origin, at: now) else { return false }
    guard sendersPassedOn.take(peer, at: now) else {
      originsPassedOn.giveBack(origin)
      return false
    }
    return true
  }
}
