import Bitchat
import BitchatWire
import Bytes
import Common
import Crypto
import Store

/// Result of reading the disk: data for the service, and state of the store.
struct MeshLoading: Sendable {
  var kept: StoredNode
  var ledger: RecordIndex
  /// Writes that must be committed at once, such as the removal of unreadable rows.
  var writes: MeshWrites

  /// Opens and reads the disk. A node without an identity gets a new one, which is durable on return.
  ///
  /// - Parameters:
  ///   - survivors: data that survives a completed wipe.
  ///   - time: milliseconds since 1970.
  init(
    from disk: any MeshDisk, settings: NodeStore.Settings, keeping survivors: WipeSurvivors = WipeSurvivors(),
    at time: UInt64, random: inout some RandomSource
  ) throws(StoreError) {
    let contents = try disk.open()
    var ledger = RecordIndex(settings)
    var writes = MeshWrites()
    var records: [(time: UInt64, id: Int64, record: MeshRecord)] = []
    var identity: MeshEngine.Identity?
    var lost = contents.unreadable
    var superfluous: [Int64] = []
    for row in contents.rows {
      guard let record = try? MeshRecord(reading: row.content) else {
        lost.append(row.id)
        continue
      }
      if case .file(let file) = record, !contents.files.contains(file.place) {
        lost.append(row.id)
        continue
      }
      if ledger.restore(record, id: row.id, time: row.time, bytes: row.content.count) {
        records.append((row.time, row.id, record))
        if case .identity(let found) = record { identity = found }
      } else {
        superfluous.append(row.id)
      }
    }
    for id in lost + superfluous { writes.rows[id] = MeshRow(id: id, time: 0, content: nil) }
    // File contents without a row are remains of an interrupted run.
    writes.erased = contents.files.subtracting(ledger.filePlaces)
    writes.add(ledger.fit())
    let isNew = identity == nil
    let own =
      identity
      ?? MeshEngine.Identity(
        noiseKey: X25519.PrivateKey(randomFrom: &random), signingKey: Ed25519.PrivateKey(randomFrom: &random))
    if isNew {
      do throws(WireError) {
        writes.add(try ledger.enter(own, at: time))
        var survivors = survivors
        survivors.highestNumber = max(survivors.highestNumber, contents.highestNumber)
        writes.add(try ledger.keep(survivors, at: time))
      } catch {
        throw StoreError(.failed, "The identity of the node cannot be written: \(error).")
      }
      try disk.commit(writes)
      writes = MeshWrites()
    }
    var kept = StoredNode(identity: own)
    kept.isNew = isNew
    kept.lost = lost.count
    kept.warning = contents.warning
    kept.keyOrigin = contents.keyOrigin
    kept.highestNumber = ledger.highestNumber
    if isNew { kept.erased = survivors.erased }
    // A pin has only the time of its row.
    records.sort { ($0.time, $0.id) < ($1.time, $1.id) }
    for (_, _, record) in records {
      let (key, shelf) = RecordIndex.key(of: record)
      if ledger.has(key, on: shelf) { kept.add(record) }
    }
    kept.sort()
    (self.kept, self.ledger, self.writes) = (kept, ledger, writes)
  }
}

extension StoredNode {
  fileprivate mutating func add(_ record: MeshRecord) {
    switch record {
    case .identity, .number: break
    case .erased(let traces): erased = traces
    case .nickname(let nickname): self.nickname = nickname
    case .uplinkKey(let key): uplinkKey = key
    case .pin(let peer, let key, let isProven): pins.append((peer, key, isProven))
    case .peer(let marks): peers.append(marks)
    case .outgoing(let message): outgoing.append(message)
    case .gossip(let item): gossip.append(item)
    case .message(let message): messages.append(message)
    case .carried(let envelope): carried.append(envelope)
    case .file(let file): files.append(file)
    case .deleted(let file): deletedFiles.append(file)
    }
  }

  fileprivate mutating func sort() {
    peers.sort { $0.peer < $1.peer }
    outgoing.sort { $0.number < $1.number }
    gossip.sort { ($0.timestamp, $0.id.description) < ($1.timestamp, $1.id.description) }
    carried.sort { ($0.storedAt, $0.id) < ($1.storedAt, $1.id) }
    messages.sort { $0.number < $1.number }
    files.sort { $0.number < $1.number }
    deletedFiles.sort { $0.number < $1.number }
  }
}

/// Data that the mesh store has from earlier runs of the service.
public struct StoredNode: Sendable {
  /// Identity of the node; newly made if there was none.
  public var identity: MeshEngine.Identity
  public var isNew = false
  /// Nickname of the node; nil if it was never set.
  public var nickname: String?
  /// Key of this node for the uplink, as text; nil if it never had one.
  public var uplinkKey: String?
  /// Pins, in order of the last contact.
  public var pins: [(peer: PeerID, key: Ed25519.PublicKey, isProven: Bool)] = []
  public var peers: [PeerMarks] = []
  /// Messages of this node that were not delivered yet, sorted by number.
  public var outgoing: [OutgoingMessage] = []
  /// Public packets for sync answers, sorted by timestamp.
  public var gossip: [GossipArchive.Item] = []
  /// Listed messages, sorted by number.
  public var messages: [MeshMessage] = []
  /// Envelopes carried for others, in order of arrival.
  public var carried: [CarriedEnvelope] = []
  /// Received files, sorted by number.
  public var files: [MeshFile] = []
  /// Files that were deleted recently and must not be accepted again, sorted by number.
  public var deletedFiles: [DeletedFile] = []
  /// Highest number of a message or file so far, 0 if there was none. New numbers are higher.
  public var highestNumber: UInt32 = 0
  /// Hashes of the packets that wipes have erased; nil without a wipe in the last day.
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
