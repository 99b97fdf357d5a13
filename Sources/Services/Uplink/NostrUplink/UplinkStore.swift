import Bytes
import Common
import Crypto
import Loop
import Nostr
import Store

/// This machine's keys for relays, and the node of the mesh to which they belong.
///
///     key   32  private key
///     seed  32  from which the keys of geohash channels are derived
///     node   1+n  the node's peer ID as text; empty: the keys belong to the next node
struct UplinkIdentity: Sendable {
  let key: Secp256k1.PrivateKey
  let seed: SecretBytes
  var node: String

  init(randomFrom random: inout some RandomSource) throws(CryptoError) {
    key = try Secp256k1.PrivateKey(randomFrom: &random)
    seed = SecretBytes(count: 32, randomFrom: &random)
    node = ""
  }

  init(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    let (key, seed) = (try reader.bytes(32), try reader.bytes(32))
    guard let scalar = try? Secp256k1.PrivateKey(SecretBytes(copying: key)) else { throw .badValue("key") }
    (self.key, self.seed) = (scalar, SecretBytes(copying: seed))
    let length = Int(try reader.u8())
    guard let node = String(validating: try reader.bytes(length), as: UTF8.self) else { throw .badValue("node") }
    self.node = node
    try reader.finish()
  }

  var bytes: [UInt8] {
    // The capacity is sufficient from the beginning, because a growing buffer would leave copies of the key in memory.
    var writer = ByteWriter(capacity: 32 + 32 + 1 + 255)
    key.secret.withUnsafeBytes { writer.append($0) }
    seed.withUnsafeBytes { writer.append($0) }
    writer.u8(UInt8(clamping: node.utf8.count))
    writer.append(node.utf8.prefix(255))
    return writer.bytes
  }
}

extension OutboxEntry {
  /// The content of its record: 1 kind, 1+n ID, 32 recipient, 8 time, 4+n text. The attempts are the record's mark.
  var record: [UInt8] {
    var writer = ByteWriter()
    writer.u8(kind.rawValue)
    writer.u8(UInt8(clamping: id.text.utf8.count))
    writer.append(id.text.utf8)
    writer.append(recipient.bytes)
    writer.u64be(UInt64(bitPattern: sentAt.seconds))
    writer.u32be(UInt32(clamping: text.utf8.count))
    writer.append(text.utf8)
    return writer.bytes
  }

  init(reading record: SpoolRecord) throws(WireError) {
    var reader = ByteReader(record.content)
    guard let kind = Kind(rawValue: try reader.u8()) else { throw .badValue("kind") }
    let idLength = Int(try reader.u8())
    let id = String(validating: try reader.bytes(idLength), as: UTF8.self)
    let recipient = try? NostrKey(Array(try reader.bytes(32)))
    let time = UnixTime(seconds: Int64(bitPattern: try reader.u64be()))
    let length = Int(try reader.u32be())
    guard length <= NostrLimits.contentBytes else { throw .badValue("text") }
    let text = String(validating: try reader.bytes(length), as: UTF8.self)
    try reader.finish()
    guard let id, let recipient, let text, let number = try? OutboxID(id),
      let entry = try? OutboxEntry(
        id: number, kind: kind, recipient: recipient, text: text, sentAt: time, attempts: Int(record.mark))
    else { throw .badValue("entry") }
    self = entry
  }
}

/// The keys and the outbox in the state directory, encrypted. Disk operations run off the loop, one at a time.
@LoopActor
final class UplinkStore {
  struct Stored: Sendable {
    let identity: UplinkIdentity
    /// The entries of the outbox, oldest first.
    let outbox: [OutboxEntry]
    /// Sentences about files that cannot be read.
    let problems: [String]
  }

  /// The opened files of the state directory. Only the worker thread uses them.
  private final class Files: Sendable {
    let state: StateDirectory
    let key: StoreKey
    let secret: SecretBytes
    let spool: RecordSpool
    let records = Locked<[OutboxID: SpoolID]>([:])

    init(_ path: String) throws(StoreError) {
      state = try StateDirectory(path: path, folder: UplinkStore.folder)
      // The spool is sealed with keys that are derived from the same stored key.
      key = try StoreKey.load(UplinkStore.keyName, from: state)
      secret = try key.key(for: "identity of the uplink", count: XChaChaPoly.keySize)
      var limits = RecordSpool.Limits()
      limits.maximumCount = NostrLimits.outbox + NostrLimits.receipts
      spool = try RecordSpool(in: state, key: try SpoolKey.load(from: state), limits: limits)
    }

    var file: AtomicFile {
      AtomicFile(UplinkStore.fileName, in: state.directory, version: 1, limit: 4096)
    }
  }

  private nonisolated static let folder = "uplink"
  private nonisolated static let fileName = "identity"
  private nonisolated static let identityFiles = [fileName, "\(fileName).previous", "\(fileName).new"]
  private nonisolated static let keyName = StoreKey.Name("spool")

  private let path: String?
  private let disk: any Offloading
  private nonisolated let files = Locked<Files?>(nil)
  private var pending = 0
  private var idlers: [@LoopActor () -> Void] = []

  /// - Parameters:
  ///   - directory: the state directory; nil means `$STATE_DIRECTORY`. Without one, everything is in memory only.
  ///   - disk: runs disk operations one at a time, in order.
  init(directory: String?, disk: any Offloading) {
    let path = StateDirectory.path(directory) ?? ""
    self.path = path.isEmpty ? nil : path
    self.disk = disk
  }

  /// Whether keys and outbox are lost at the end of this run, because there is no state directory.
  var isVolatile: Bool { path == nil }

  /// Reads the stored keys and outbox, or makes new keys.
  func open(then: @escaping @LoopActor (Result<Stored, StoreError>) -> Void) {
    perform({ [path, files] in Self.caught { () throws(StoreError) in try Self.open(path, files) } }, then)
  }

  /// - Parameter then: called when the entry is durable, or with the error.
  func put(_ entry: OutboxEntry, then: @escaping @LoopActor (StoreError?) -> Void) {
    change({ (files) throws(StoreError) in try Self.put(entry, in: files) }, then)
  }

  func erase(_ id: OutboxID, then: @escaping @LoopActor (StoreError?) -> Void) {
    change(
      { (files) throws(StoreError) in
        guard let record = files.records.withLock({ $0.removeValue(forKey: id) }) else { return }
        try files.spool.remove(record)
      }, then)
  }

  /// Stores the keys with their node.
  func write(_ identity: UplinkIdentity, then: @escaping @LoopActor (StoreError?) -> Void) {
    change({ (files) throws(StoreError) in try Self.write(identity, in: files) }, then)
  }

  /// Destroys the keys and the outbox, and makes new keys.
  func wipe(then: @escaping @LoopActor (Result<Stored, StoreError>) -> Void) {
    perform(
      { [path, files] in
        Self.caught { () throws(StoreError) in
          if let path { try Self.erase(path, files) }
          return try Self.open(path, files)
        }
      }, then)
  }

  /// Calls `then` once, when no operation is under way.
  func whenIdle(then: @escaping @LoopActor () -> Void) {
    if pending > 0 { idlers.append(then) } else { then() }
  }

  private func change(
    _ body: @escaping @Sendable (Files) throws(StoreError) -> Void, _ then: @escaping @LoopActor (StoreError?) -> Void
  ) {
    guard path != nil else { return then(nil) }
    perform(
      { [files] () -> StoreError? in
        do throws(StoreError) {
          guard let files = files.withLock({ $0 }) else {
            throw StoreError(.failed, "The outbox cannot be written, because it was not read.")
          }
          try body(files)
          return nil
        } catch {
          return error
        }
      }, then)
  }

  private func perform<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, _ then: @escaping @LoopActor (Value) -> Void
  ) {
    pending += 1
    disk.offload(work) { [weak self] (value: Value) in
      then(value)
      self?.ended()
    }
  }

  private func ended() {
    pending -= 1
    guard pending == 0 else { return }
    let waiting = idlers
    idlers = []
    for idler in waiting { idler() }
  }

  // MARK: On the disk

  private nonisolated static func caught(
    _ body: () throws(StoreError) -> Stored
  ) -> Result<Stored, StoreError> {
    do throws(StoreError) { return .success(try body()) } catch { return .failure(error) }
  }

  private nonisolated static func open(
    _ path: String?, _ opened: Locked<Files?>
  ) throws(StoreError) -> Stored {
    guard let path else { return Stored(identity: try made(), outbox: [], problems: []) }
    let files = try Files(path)
    let secret = files.secret
    let reading = try files.file.read { (_, sealed) throws(StoreError) in try unseal(sealed, secret, path) }
    let identity: UplinkIdentity
    // A key without a node may have been given to a node whose name could not be stored. A wipe of that node would not
    // reach the key, so it is replaced.
    if let stored = reading?.value, !stored.node.isEmpty {
      identity = stored
    } else {
      identity = try made()
      if reading != nil { try files.state.erase(identityFiles) }
      try write(identity, in: files)
    }
    let contents = try files.spool.list { (record) throws(WireError) in try OutboxEntry(reading: record) }
    for entry in contents.entries {
      let replaced = files.records.withLock { $0.updateValue(entry.id, forKey: entry.value.id) }
      if let replaced { try files.spool.remove(replaced) }
    }
    opened.withLock { $0 = files }
    let outbox = contents.entries.map(\.value).sorted { ($0.sentAt, $0.id.text) < ($1.sentAt, $1.id.text) }
    let problems = contents.problems.map(\.error.sentence) + (reading?.damage.map { [$0.sentence] } ?? [])
    return Stored(identity: identity, outbox: outbox, problems: problems)
  }

  private nonisolated static func made() throws(StoreError) -> UplinkIdentity {
    var random = SystemRandom()
    do throws(CryptoError) {
      return try UplinkIdentity(randomFrom: &random)
    } catch {
      throw StoreError(.failed, "The key cannot be created: \(error).")
    }
  }

  private nonisolated static func put(_ entry: OutboxEntry, in files: Files) throws(StoreError) {
    let mark = UInt8(clamping: entry.attempts)
    if let record = files.records.withLock({ $0[entry.id] }) { return try files.spool.mark(record, as: mark) }
    let record = SpoolRecord(received: entry.sentAt.seconds, mark: mark, content: entry.record)
    let id = try files.spool.put(record)
    files.records.withLock { $0[entry.id] = id }
  }

  private nonisolated static func write(_ identity: UplinkIdentity, in files: Files) throws(StoreError) {
    var random = SystemRandom()
    var plain = identity.bytes
    defer { plain.wipe() }
    let sealed: [UInt8]
    do throws(CryptoError) {
      sealed = try XChaChaPoly.sealWithNonce(plain, key: files.secret, randomFrom: &random)
    } catch {
      throw StoreError(.failed, "The key cannot be encrypted: \(error).")
    }
    try files.file.write(sealed)
  }

  private nonisolated static func unseal(
    _ sealed: ArraySlice<UInt8>, _ secret: SecretBytes, _ path: String
  ) throws(StoreError) -> UplinkIdentity {
    var plain: [UInt8]
    do throws(CryptoError) {
      plain = try XChaChaPoly.openWithNonce(sealed, key: secret)
    } catch {
      throw StoreError(
        .damaged,
        "\(path)/\(folder)/\(fileName) is damaged, or encrypted with another key. Restore the key, or remove the file.")
    }
    defer { plain.wipe() }
    do throws(WireError) {
      return try UplinkIdentity(reading: plain)
    } catch {
      throw StoreError(.damaged, "\(path)/\(folder)/\(fileName) is damaged: \(error).")
    }
  }

  /// Destroys the files, readable or not. The key of systemd's credentials is not changed. If a step fails, the others
  /// are done, and the first error is thrown at the end.
  private nonisolated static func erase(_ path: String, _ opened: Locked<Files?>) throws(StoreError) {
    var failures: [StoreError] = []
    let files = opened.withLock { $0 }
    // Without opened files, the records of the outbox are unreadable as soon as their key is destroyed.
    let state: StateDirectory
    if let files { state = files.state } else { state = try StateDirectory(path: path, folder: folder) }
    do throws(StoreError) { try state.erase(identityFiles) } catch { failures.append(error) }
    if let files {
      // An age limit of -1 s matches every record, including records that cannot be read.
      failures += files.spool.removeAll(olderThan: .seconds(-1), now: 0).problems.map(\.error)
    }
    if files?.key.origin != .systemCredential {
      do throws(StoreError) { try StoreKey.destroy(keyName, in: state) } catch { failures.append(error) }
    }
    if let failure = failures.first { throw failure }
    // The lock of the directory ends with the last reference.
    opened.withLock { $0 = nil }
  }
}
