import Common
import Crypto

/// What comes in: which reports are messages that nobody has heard yet. Facts: pblec.md section 3.
///
/// The address is all that a peer is known by, and anybody can have thousands: a peer that is remembered is served, at its own
/// pace, and new ones are met up to a number in a second and up to a number in all.
struct Receiver: Sendable {
  private(set) var peers: PeerTable
  private(set) var feed: Feed
  private var newPeers = TokenBucket(Limits.newPeersPerSecond)
  /// What was said in the last seconds, for those whose address changes meanwhile.
  private var recent: [Recent] = []

  private struct Recent: Sendable {
    let packet: MessagePacket
    let at: Instant
    let rssi: Int?

    /// Whether two signals are about as strong. Where one is not known, nothing speaks against it.
    func isAsStrong(_ other: Int?) -> Bool {
      guard let rssi, let other else { return true }
      return abs(rssi - other) <= Limits.addressChange.decibels
    }
  }

  /// - Parameter last: the number before that of the first message.
  init(randomFrom random: inout some RandomSource, after last: UInt64 = 0) {
    feed = Feed(after: last)
    peers = PeerTable(randomFrom: &random)
  }

  enum Verdict {
    case new(HeardMessage)
    case refused(Drop)
  }

  /// - Parameter followsAddresses: whether the same text with the same digit and about the same signal from a new address is the
  ///   same peer's. Two people may say the same at one time, so this is not known for certain.
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
      HeardMessage(number: number, time: time().milliseconds, alias: alias, text: packet.text, rssi: rssi)
    }
    return .new(message)
  }

  /// Notes that a peer that is remembered is there.
  mutating func heard(_ advertiser: AdvertiserID, at now: Instant) { peers.heard(advertiser, at: now) }

  mutating func prune(at now: Instant) { peers.prune(at: now) }

  /// When the same was first heard from another address, as near as this one.
  private mutating func find(_ packet: MessagePacket, rssi: Int?, at now: Instant) -> Instant? {
    forget(at: now)
    return recent.first { $0.packet == packet && $0.isAsStrong(rssi) }?.at
  }

  private mutating func forget(at now: Instant) {
    recent.removeFirst(recent.prefix { $0.at.duration(to: now) > Limits.addressChange.time }.count)
  }
}
