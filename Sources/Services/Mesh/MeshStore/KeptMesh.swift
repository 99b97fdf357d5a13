import Bitchat
import Crypto
import Store

/// What earlier runs have kept.
public struct KeptMesh: Sendable {
  /// The node's own; it was made just now if there was none.
  public var identity: MeshEngine.Identity
  public var isNew = false
  /// Nil if none was ever set.
  public var nickname: String?
  /// In the order in which their peers were met last.
  public var pins: [(peer: PeerID, key: Ed25519.PublicKey, isProven: Bool)] = []
  public var peers: [PeerMarks] = []
  /// In the order of their numbers.
  public var outgoing: [OutgoingMessage] = []
  /// In the order of their times.
  public var gossip: [GossipArchive.Item] = []
  /// In the order of their numbers.
  public var messages: [MeshMessage] = []
  /// What the node carries for others, in the order in which it came.
  public var carried: [CarriedEnvelope] = []
  /// In the order of their numbers.
  public var files: [MeshFile] = []
  /// In the order of their numbers.
  public var deletedFiles: [DeletedFile] = []
  /// The highest number that a message or a file ever had, 0 if there was none. The next one is higher.
  public var highestNumber: UInt32 = 0
  /// Traces of what wipes have erased; nil without a wipe in the last day.
  public var erased: ErasedTraces?
  /// How many records could not be read, and are removed.
  public var lost = 0
  /// What was wrong with the disk's content, in sentences, to be told once; nil if nothing was.
  public var warning: String?
  /// Where the key is from; nil if all is in memory alone.
  public var keyOrigin: StoreKey.Origin?

  public init(identity: MeshEngine.Identity) {
    self.identity = identity
  }
}
