import Common
import Crypto

/// Filters received messages and returns the new ones. Facts: pblec.md section 3.
///
/// A peer is identified only by its address, and an attacker can use thousands. Stored peers are therefore served at
/// their own rate, and new ones up to a number per second and a total.
struct Receiver: Sendable {
  private(set) var peers: PeerTable
  private(set) var feed: Feed
  private var newPeers = TokenBucket(Limits.newPeersPerSecond)
  /// Messages of the last 4 s, by which a peer with a changed address is recognized; empty if address changes are not
  /// followed.
  private var recent: [Recent] = []

  private struct Recent: Sendable {
    let packet: MessagePacket
    let at: Instant
    let rssi: Int?

    /// Whether two signal strengths differ by at most 6 dB. An unknown one matches any.
    func isAsStrong(_ other: Int?) -> Bool {
      guard let rssi, let other else { return true }
      return abs(rssi - other) <= Limits.addressChange.decibels
    }
  }

  /// - Parameter last: messages are numbered from `last` + 1.
  init(randomFrom random: inout some RandomSource, after last: UInt64 = 0) {
    feed = Feed(after: last)
    peers = PeerTable(randomFrom: &random)
  }

  enum Verdict {
    case new(ReceivedBroadcast)
    case refused(Drop)
  }

  /// - Parameter followsAddresses: whether a message from a new address with equal text, digit and similar signal is a
  ///   copy. The assumption may be wrong, because two people can send an equal message at one time.
  mutating func judge(
    _ packet: MessagePacket, from advertiser: AdvertiserID, rssi: Int?, followsAddresses: Bool, at now: Instant,
    time: () -> CalendarTime
  ) -> Verdict {
    let alias: Int
    switch peers.judge(packet, from: advertiser, at: now) {
    case .refused(let drop): return .refused(drop)
    case .new(let known): alias = known
    case .unknown:
      guard peers.hasRoom(at: now) else { return .refused(.noRoom) }
      guard newPeers.take(at: now) else { return .refused(.tooManyNew) }
      if followsAddresses, let before = find(packet, rssi: rssi, at: now) {
        _ = peers.admit(advertiser, packet, firstHeard: before, at: now)
        return .refused(.moved)
      }
      alias = peers.admit(advertiser, packet, firstHeard: now, at: now)
    }
    if followsAddresses {
      forget(at: now)
      recent.append(Recent(packet: packet, at: now, rssi: rssi))
    }
    let message = feed.add { number in
      ReceivedBroadcast(number: number, time: time().milliseconds, alias: alias, text: packet.text, rssi: rssi)
    }
    return .new(message)
  }

  /// Records that a packet of a stored peer was received.
  mutating func heard(_ advertiser: AdvertiserID, at now: Instant) { peers.heard(advertiser, at: now) }

  mutating func prune(at now: Instant) { peers.prune(at: now) }

  /// Time of the first report of an equal message with a similar signal strength in the last 4 s; nil if there is none.
  private mutating func find(_ packet: MessagePacket, rssi: Int?, at now: Instant) -> Instant? {
    forget(at: now)
    return recent.first { $0.packet == packet && $0.isAsStrong(rssi) }?.at
  }

  private mutating func forget(at now: Instant) {
    recent.removeFirst(recent.prefix { $0.at.duration(to: now) > Limits.addressChange.time }.count)
  }
}

/// Ring buffer of the last `Limits.messages` received messages, in memory only.
struct Feed: Sendable {
  private var messages: [ReceivedBroadcast] = []
  /// Index of the oldest message, which is replaced next once the buffer is full.
  private var next = 0
  private(set) var last: UInt64

  /// - Parameter last: messages are numbered from `last` + 1.
  init(after last: UInt64 = 0) { self.last = last }

  /// Stores a message under the next number.
  ///
  /// - Returns: the message with its number.
  mutating func add(_ make: (UInt64) -> ReceivedBroadcast) -> ReceivedBroadcast {
    last += 1
    let message = make(last)
    if messages.count < Limits.messages {
      messages.append(message)
    } else {
      messages[next] = message
      next = (next + 1) % Limits.messages
    }
    return message
  }

  /// Messages with a number above `number`, oldest first, at most `limit`.
  func messages(after number: UInt64, limit: Int) -> [ReceivedBroadcast] {
    guard limit > 0, number < last, !messages.isEmpty else { return [] }
    let first = last - UInt64(messages.count) + 1
    let begin = max(number + 1, first)
    let count = min(UInt64(limit), last - begin + 1)
    return (begin..<begin + count).map { messages[(next + Int($0 - first)) % messages.count] }
  }
}
