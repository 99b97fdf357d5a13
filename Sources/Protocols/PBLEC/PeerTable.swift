import Common
import Crypto

/// The peers that were received in the last `Limits.peerLife` (60 s), at most `Limits.peers`, with their last messages.
/// They are in memory only.
struct PeerTable: Sendable {
  struct Peer: Sendable {
    /// Last messages, newest at the end, at most `Limits.window`.
    fileprivate(set) var window: [MessagePacket]
    /// Time of the first report of the newest message.
    fileprivate(set) var firstHeard: Instant
    /// Time at which a packet of the peer was last received.
    fileprivate(set) var lastHeard: Instant
    let alias: Int
  }

  private var peers: [AdvertiserID: Peer] = [:]
  private var aliases: Set<Int> = []
  private let hash: KeyedHash
  /// Time before which no stored peer expires; nil if no peer is stored.
  private(set) var nextPruning: Instant?

  init(randomFrom random: inout some RandomSource) {
    hash = KeyedHash(randomFrom: &random)
  }

  var count: Int { peers.count }

  /// Result of checking a message against the stored peers.
  enum Verdict {
    case unknown
    case new(alias: Int)
    case refused(Drop)
  }

  /// Handles a message of a peer; `unknown` if the peer is not stored. Facts: pblec.md section 3.
  mutating func judge(_ packet: MessagePacket, from advertiser: AdvertiserID, at now: Instant) -> Verdict {
    guard let index = touch(advertiser, at: now) else { return .unknown }
    let window = peers.values[index].window
    if packet == window.last { return .refused(.duplicate) }
    if window.contains(packet) { return .refused(.late) }
    if peers.values[index].firstHeard.duration(to: now) < Limits.heardPeriod { return .refused(.tooFast) }
    if window.count == Limits.window { peers.values[index].window.removeFirst() }
    peers.values[index].window.append(packet)
    peers.values[index].firstHeard = now
    return .new(alias: peers.values[index].alias)
  }

  /// Records that a packet of a stored peer was received.
  mutating func heard(_ advertiser: AdvertiserID, at now: Instant) { _ = touch(advertiser, at: now) }

  private mutating func touch(
    _ advertiser: AdvertiserID, at now: Instant
  ) -> Dictionary<AdvertiserID, Peer>.Index? {
    guard let index = peers.index(forKey: advertiser) else { return nil }
    guard peers.values[index].lastHeard.duration(to: now) < Limits.peerLife else {
      aliases.remove(peers.values[index].alias)
      peers.remove(at: index)
      return nil
    }
    peers.values[index].lastHeard = now
    return index
  }

  /// Whether a new peer can be stored. Removes expired peers if the table is full.
  mutating func hasRoom(at now: Instant) -> Bool {
    if peers.count >= Limits.peers { prune(at: now) }
    return peers.count < Limits.peers
  }

  /// Stores a peer with its first message.
  ///
  /// - Returns: the peer's alias.
  mutating func admit(
    _ advertiser: AdvertiserID, _ packet: MessagePacket, firstHeard: Instant, at now: Instant
  ) -> Int {
    let alias = freeAlias(of: advertiser)
    aliases.insert(alias)
    peers[advertiser] = Peer(window: [packet], firstHeard: firstHeard, lastHeard: now, alias: alias)
    nextPruning = nextPruning ?? now.advanced(by: Limits.peerLife)
    return alias
  }

  /// Removes peers that were not received for `Limits.peerLife`.
  mutating func prune(at now: Instant) {
    guard let nextPruning, nextPruning <= now else { return }
    for (advertiser, peer) in peers where peer.lastHeard.duration(to: now) >= Limits.peerLife {
      aliases.remove(peer.alias)
      peers.removeValue(forKey: advertiser)
    }
    self.nextPruning = peers.values.lazy.map(\.lastHeard).min()?.advanced(by: Limits.peerLife)
  }

  /// An unused alias for a new peer: the keyed hash of its address modulo `Limits.aliases`, or the next number that no
  /// stored peer has.
  private func freeAlias(of advertiser: AdvertiserID) -> Int {
    let value = withUnsafeBytes(of: advertiser.rawValue.littleEndian) { hash.hash($0).low }
    var alias = Int(value % UInt64(Limits.aliases))
    while aliases.contains(alias) { alias = (alias + 1) % Limits.aliases }
    return alias
  }
}

/// Advertiser, identified by one number formed of its address and the kind of the address. The radio layer forms the
/// number.
public struct AdvertiserID: Hashable, Sendable {
  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }
}

extension AdvertiserID: CustomStringConvertible {
  /// Constant text, because addresses must not appear in logs.
  public var description: String { "advertiser" }
}
