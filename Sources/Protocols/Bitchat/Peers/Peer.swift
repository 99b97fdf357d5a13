import BitchatWire
import Common
import Crypto

/// Known state of a peer that has announced itself.
public struct Peer: Hashable, Sendable {
  public let id: PeerID
  public var fingerprint: Fingerprint { Fingerprint(noiseKey: noiseKey) }
  public let noiseKey: X25519.PublicKey
  /// Pinned signing key: the first that was announced under its ID, or the one that it proved inside Noise.
  public internal(set) var signingKey: Ed25519.PublicKey
  /// Whether the peer has proven the signing key inside Noise. If not, anybody may have announced it.
  public internal(set) var isKeyProven = false
  /// Nickname as the peer announced it; it may contain any characters.
  public internal(set) var nickname: String
  public internal(set) var capabilities: Capabilities
  /// Dialect that the peer uses according to its announce.
  public internal(set) var dialect: MeshDialect
  /// Whether the peer is an Earshot peer.
  public internal(set) var isEarshot = false
  /// Longest value, in bytes, that arrives when it is written to the peer; nil if not announced.
  public internal(set) var longestWrite: UInt16?
  /// Envelopes that the peer carries per depositor that is not a favourite; nil if not announced.
  var courierPlaces: UInt8?
  /// Announced neighbours of the peer; empty if none were announced.
  public internal(set) var neighbours: [PeerID]
  /// When the neighbour list was last announced; nil if never.
  var neighboursAt: Instant?
  /// Whether the newest announce lists neighbours.
  var saysNeighbours = false
  /// Timestamp of the newest announce, milliseconds since 1970 by the peer's clock.
  public internal(set) var announcedAt: UInt64
  /// Time of the last verified packet of the peer.
  public internal(set) var heardAt: Instant
  /// When the peer was last added to the table.
  var metAt: Instant
  /// Total time for which the peer was in the table in earlier stays, before `metAt`.
  var knownBefore = Duration.zero
  /// Whether the signing key was persisted since `metAt`.
  var isPinKept = false
  /// Number of hops of the last announce; 1 for a neighbour.
  public internal(set) var hops: Int
  /// When this node last relayed an announce of the peer.
  var passedOnAt: Instant?
  /// Highest packet version that the peer has sent.
  var version = PacketVersion.v1
  /// Number of changed announces of the peer that were relayed without a pause in between.
  var newsPassedOn: UInt8 = 0
  /// Number of hops of the last announce of the peer that arrived through a relay; 0 if none did.
  var farHops: UInt8 = 0
  /// Number of consecutive announces of the peer that this node did not relay because copies were received.
  var heldBack: UInt8 = 0

  /// Whether the newest announce names a peer as neighbour; nil if it lists no neighbours, or the maximum number.
  func names(_ other: PeerID) -> Bool? {
    if neighbours.contains(other) { return saysNeighbours ? true : nil }
    return saysNeighbours && neighbours.count < Limits.neighbours ? false : nil
  }

  /// Whether the peer's neighbour list lacks a node. The peer may not have announced itself since it got a link with
  /// the node. An Earshot peer that announces capabilities lists all its neighbours.
  func lacks(_ other: PeerID) -> Bool {
    names(other) == false || !saysNeighbours && isEarshot && !capabilities.isEmpty
  }
}
