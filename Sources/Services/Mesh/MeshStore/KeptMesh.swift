import Bitchat
import Crypto
import Store

/// Data of earlier runs.
public struct KeptMesh: Sendable {
  /// Identity of the node; newly made if there was none.
  public var identity: MeshEngine.Identity
  public var isNew = false
  /// Nil if never set.
  public var nickname: String?
  /// In order of the last contact.
  public var pins: [(peer: PeerID, key: Ed25519.PublicKey, isProven: Bool)] = []
  public var peers: [PeerMarks] = []
  /// Sorted by number.
  public var outgoing: [OutgoingMessage] = []
  /// Sorted by time.
  public var gossip: [GossipArchive.Item] = []
  /// Sorted by number.
  public var messages: [MeshMessage] = []
  /// Envelopes carried for others, in order of arrival.
  public var carried: [CarriedEnvelope] = []
  /// Sorted by number.
  public var files: [MeshFile] = []
  /// Sorted by number.
  public var deletedFiles: [DeletedFile] = []
  /// Highest number of a message or file so far, 0 if there was none. New numbers are higher.
  public var highestNumber: UInt32 = 0
  /// Hashes of what wipes have erased; nil without a wipe in the last day.
  public var erased: ErasedTraces?
  /// Number of unreadable records, which are removed.
  public var lost = 0
  /// Sentences about damage, to be logged once; nil without damage.
  public var warning: String?
  /// Origin of the key; nil without a disk.
  public var keyOrigin: StoreKey.Origin?

  public init(identity: MeshEngine.Identity) {
    self.identity = identity
  }
}
