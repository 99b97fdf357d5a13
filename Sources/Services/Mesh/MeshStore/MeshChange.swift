import Bitchat
import BitchatWire
import Crypto

/// One change of the data that the mesh store persists.
public enum MeshChange: Hashable, Sendable {
  /// Nickname of this node, up to 255 bytes of UTF-8.
  case nickname(String)
  /// This node's key for the uplink, as text, up to 255 bytes.
  case uplinkKey(String)
  /// A new pin, or a new contact with its peer. Beyond the limit, the pins of peers with the oldest contact are
  /// dropped.
  ///
  /// - Parameter isProven: whether the peer has proven the key inside Noise.
  case pin(PeerID, Ed25519.PublicKey, isProven: Bool = false)
  /// Changed marks of a peer. If none is set, the record is removed.
  case peer(PeerMarks)
  /// Removes pin and marks of a peer. Messages stay.
  case forget(PeerID)
  case outgoing(OutgoingMessage)
  /// An outgoing message was delivered or has failed.
  case settled(UInt32)
  case gossip(GossipArchive.Item)
  /// A message is new, or its state has changed.
  case message(MeshMessage)
  /// An envelope carried for another peer.
  case carried(CarriedEnvelope)
  case carriedNoMore(CourierID)
  /// The number of a message or file that is not stored itself.
  case number(UInt32)
  /// A file whose content is on disk already.
  case file(MeshFile)
  /// A file was removed; its content is erased.
  case fileGone(UInt32)
  /// A file was deleted, and must not be accepted again.
  case deleted(DeletedFile)

  /// Whether the change is a gossip packet, for which no caller awaits the commit.
  public var isGossip: Bool { if case .gossip = self { true } else { false } }

  public init(_ keepsake: MeshEngine.PersistedItem) {
    self =
      switch keepsake {
      case .pin(let peer, let key, let isProven): .pin(peer, key, isProven: isProven)
      case .gossip(let item): .gossip(item)
      case .outgoing(let message): .outgoing(message)
      case .settled(let number): .settled(number)
      case .carried(let envelope): .carried(envelope)
      case .carriedNoMore(let id): .carriedNoMore(id)
      }
  }
}

/// Content that a database row must have after the commit.
struct MeshRow: Hashable, Sendable {
  let id: Int64
  /// Time of the row, in milliseconds since 1970. It is not encrypted on disk.
  let time: UInt64
  /// Content that is encrypted and written to the row; nil to remove the row.
  let content: [UInt8]?
}

/// Writes of one commit. Later writes to a row replace earlier ones, so their order does not matter.
struct MeshWrites: Sendable {
  var rows: [Int64: MeshRow] = [:]
  /// Whether removed content must be purged from the write-ahead log, too.
  var emptiesLog = false
  /// Numbers of messages that a limit removed from the store with this commit.
  var removedMessages: [UInt32] = []
  /// Numbers of files that a limit removed from the store with this commit.
  var removedFiles: [UInt32] = []
  /// Locations of file contents to erase after the commit.
  var erased: Set<UInt64> = []

  var isEmpty: Bool { rows.isEmpty && !emptiesLog && erased.isEmpty }

  /// Adds the writes of a later change to this commit.
  mutating func add(_ later: MeshWrites) {
    rows.merge(later.rows) { _, new in new }
    emptiesLog = emptiesLog || later.emptiesLog
    removedMessages += later.removedMessages
    removedFiles += later.removedFiles
    erased.formUnion(later.erased)
  }
}

/// Data that survives a wipe: programs use numbers of messages, and neighbours send erased packets for some hours.
public struct WipeSurvivors: Sendable {
  /// Highest number of a message or file. Later numbers are higher, also after a wipe.
  public var highestNumber: UInt32
  /// Hashes of the erased packets; nil if nothing was erased.
  public var erased: ErasedTraces?

  public init(highestNumber: UInt32 = 0, erased: ErasedTraces? = nil) {
    (self.highestNumber, self.erased) = (highestNumber, erased)
  }
}
