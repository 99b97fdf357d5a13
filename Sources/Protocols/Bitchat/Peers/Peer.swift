import Common
import Crypto

/// A peer that has announced itself, as this node knows it.
public struct Peer: Hashable, Sendable {
  public let id: PeerID
  public var fingerprint: Fingerprint { Fingerprint(noiseKey: noiseKey) }
  public let noiseKey: X25519.PublicKey
  /// The pinned signing key: the first that was announced under its ID, or the one that it proved inside Noise.
  public internal(set) var signingKey: Ed25519.PublicKey
  /// Whether the peer has proven the signing key inside Noise. If not, anybody may have announced it.
  public internal(set) var isKeyProven = false
  /// As the peer wrote it.
  public internal(set) var nickname: String
  public internal(set) var capabilities: Capabilities
  /// Whether it speaks dialect S.
  public internal(set) var speaksSeed: Bool
  /// Whether it is a node of this kind, and no phone.
  public internal(set) var isEarshot = false
  /// Bytes of the longest value that arrives when it is written to the peer; nil where it does not say.
  public internal(set) var longestWrite: UInt16?
  /// Letters of one peer that it carries; nil where it does not say.
  var courierPlaces: UInt8?
  /// The peers that it has links with, as it says; empty if it does not say.
  public internal(set) var neighbours: [PeerID]
  /// When it said so; nil if it never did.
  var neighboursAt: Instant?
  /// Whether its newest announce says it.
  var saysNeighbours = false
  /// The time of its newest announce, milliseconds since 1970 by its clock.
  public internal(set) var announcedAt: UInt64
  /// When something of it was heard last.
  public internal(set) var heardAt: Instant
  /// When it was heard first, since it is in the table.
  var metAt: Instant
  /// For how long it was in the table before that, all times together.
  var knownBefore = Duration.zero
  /// Whether its key was kept for the next run since it is in the table.
  var isPinKept = false
  /// How many hops its last announce came; 1 for a neighbour.
  public internal(set) var hops: Int
  /// When an announce of it went on from here.
  var passedOnAt: Instant?
  /// The highest packet version that it has sent.
  var version = PacketVersion.v1
  /// How many announces that said something new have gone on in a row.
  var newsPassedOn: UInt8 = 0
  /// Number of hops of its last relayed announce; 0 without one.
  var farHops: UInt8 = 0
  /// Number of its announces in a row that this node did not relay because of copies.
  var heldBack: UInt8 = 0

  /// Whether its newest announce names a peer as neighbour; nil if it names no neighbours, or as many as an announce can hold.
  func names(_ other: PeerID) -> Bool? {
    if neighbours.contains(other) { return saysNeighbours ? true : nil }
    return saysNeighbours && neighbours.count < Limits.neighbours ? false : nil
  }

  /// Whether the peer names its neighbours, and a node is not among them. It may be that the peer has not announced itself since it has a link
  /// with the node. An Earshot peer that announces capabilities names all its neighbours.
  func lacks(_ other: PeerID) -> Bool {
    names(other) == false || !saysNeighbours && isEarshot && !capabilities.isEmpty
  }
}
