import Bytes
import Common
import Crypto

/// Records that survive a restart and a loss of power, in one encrypted file each. Only their owner knows the format of
/// a record and the meaning of its mark.
///
/// The files are in the directory `spool` of the state directory; `SpoolFileName` describes their names. Every call may
/// block on the disk, and calls from several threads are serialised: call it away from the loop.
public final class RecordSpool: Sendable {
  public struct Limits: Hashable, Sendable {
    /// Maximum records, not counting unreadable ones.
    public var maximumCount = 64
    /// Maximum total size of the records' files, in bytes. Each file is 74 bytes larger than the record's content.
    public var maximumBytes = 64 << 20
    /// Maximum damaged files; the oldest is erased first.
    public var keptDamaged = 8

    public init() {}
  }

  public static let directoryName = "spool"
  /// The name of the file with the owner's note, beside the directory.
  public static let noteName = "spool.note"

  public let key: SpoolKey
  let directory: any Directory
  let limits: Limits
  let state: Locked<State>
  /// The locked state directory, which excludes other processes for the lifetime of the spool.
  private let stateDirectory: StateDirectory
  private let noteFile: AtomicFile

  struct State {
    var held: [SpoolID: Held] = [:]
    var random: any RandomSource & Sendable
    /// Whether names have changed without a synchronisation. Before a record is reported as stored or removed, the
    /// directory must be synchronised.
    var isUnsynced = true

    /// The records that count towards the limits: an unreadable file must not prevent storing others.
    var readable: [Held] { held.values.filter { $0.problem == nil } }
  }

  struct Held {
    var name: SpoolFileName
    var size: Int
    var received: Int64
    /// The error of the last attempt to read the file; nil if it was read or not tried.
    var problem: StoreError?
  }

  /// Opens the spool, and completes operations that a loss of power interrupted.
  public init(
    in stateDirectory: StateDirectory, key: SpoolKey, limits: Limits = Limits(),
    random: any RandomSource & Sendable = SystemRandom()
  ) throws(StoreError) {
    directory = try stateDirectory.open(Self.directoryName)
    self.stateDirectory = stateDirectory
    noteFile = AtomicFile(Self.noteName, in: stateDirectory.directory, version: 1)
    self.key = key
    self.limits = limits
    state = Locked(State(random: random))
    try scan()
  }

  /// Number of records, including unreadable ones.
  public var count: Int { state.withLock { $0.held.count } }

  /// The size of a file with `count` bytes of content, for `Limits.maximumBytes`.
  public static func size(ofContent count: Int) -> Int { SpoolFile.size(ofContent: count) }

  /// Stores a record. When this returns, the record survives a loss of power. After an error nothing is stored, unless
  /// the removal fails, too: another `put` or a `remove` with the same ID corrects that.
  ///
  /// - Parameter id: the ID of the record; nil draws one.
  /// - Throws: `spoolFull` at a limit, `tooLarge` for a content of 4 GiB and more, or an error of the disk.
  @discardableResult
  public func put(_ record: SpoolRecord, as id: SpoolID? = nil) throws(StoreError) -> SpoolID {
    try state.withLock { (state) throws(StoreError) in
      let size = SpoolFile.size(ofContent: record.content.count)
      try checkRoom(for: size, in: state)
      // An earlier attempt may have left a file with another mark in its name; duplicates are not allowed.
      if let id { try discard(id, &state) }
      let id = id ?? SpoolID(randomFrom: &state.random)
      let bytes = try SpoolFile.seal(record, id: id, nonce: state.random.bytes(ChaChaPoly.nonceSize), key: key)
      let name = SpoolFileName.record(id, mark: record.mark)
      do throws(StoreError) {
        try directory.replace(name.text, with: bytes, temporary: SpoolFileName.new(id).text)
      } catch {
        // The failed operation may already have given the file its final name, and the record would reappear after a
        // restart.
        state.isUnsynced = true
        try? discard(id, &state)
        throw error
      }
      state.held[id] = Held(name: name, size: size, received: record.received)
      return id
    }
  }

  private func checkRoom(for size: Int, in state: State) throws(StoreError) {
    let readable = state.readable
    guard readable.count < limits.maximumCount else {
      throw StoreError(.spoolFull, "The store has \(limits.maximumCount) records, which is its limit.")
    }
    guard size <= limits.maximumBytes - readable.reduce(0, { $0 + $1.size }) else {
      throw StoreError(
        .spoolFull,
        "The record does not fit: the store is limited to \(limits.maximumBytes) bytes.")
    }
  }

  /// Changes the mark of a record. When this returns, the mark survives a loss of power. No effect if the record does
  /// not exist.
  public func mark(_ id: SpoolID, as mark: UInt8) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard case .record? = state.held[id]?.name else { return }
      let name = SpoolFileName.record(id, mark: mark)
      if let present = try present(id), present != name {
        state.isUnsynced = true
        try directory.rename(present.text, to: name.text)
      }
      // If an earlier call failed at this point, the file already has its new name.
      if state.isUnsynced { try sync(&state) }
      state.held[id]?.name = name
    }
  }

  /// Erases a record: its file is overwritten and removed. No effect if the record does not exist.
  ///
  /// On storage that relocates writes (flash, btrfs) the old bytes may persist; they are encrypted.
  ///
  /// - Throws: an error of the disk; the record may reappear after a restart, unless the call is repeated.
  public func remove(_ id: SpoolID) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in try remove(id, in: &state) }
  }

  /// Erases every record that was received more than `age` (in whole seconds) before `now`, and every damaged file that
  /// was written before that. A date in the future has no age.
  ///
  /// - Parameters:
  ///   - now: seconds since 1970-01-01 UTC, by the wall clock.
  ///   - epoch: earlier dates come from a clock that was not set, and have no age.
  ///   - others: records to preserve, regardless of their dates.
  /// - Returns: the erased records, and the problems with others.
  public func removeAll(
    olderThan age: Duration, now: Int64, epoch: Int64 = .min, except others: Set<SpoolID> = []
  ) -> (removed: [SpoolID], problems: [SpoolProblem]) {
    let age = age.components.seconds
    let isOld = { (date: Int64) in date >= epoch && SpoolRecord.age(date, now) > age }
    return state.withLock { state in
      var removed: [SpoolID] = []
      var problems: [SpoolProblem] = []
      for (id, held) in state.held.sorted(by: { $0.key < $1.key }) where isOld(held.received) && !others.contains(id) {
        do throws(StoreError) {
          try remove(id, in: &state)
          removed.append(id)
        } catch {
          problems.append(SpoolProblem(name: held.name.text, error: error))
        }
      }
      eraseDamaged(where: isOld)
      return (removed, problems)
    }
  }

  /// Changes a record's date of receipt. Its file is rewritten atomically with regard to a loss of power. No effect if
  /// the record does not exist.
  public func redate(_ id: SpoolID, received: Int64) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard case .record? = state.held[id]?.name, let name = try present(id) else { return }
      var record = try read(name).0
      record.received = received
      try replace(name, with: record, id, &state)
    }
  }

  /// Replaces a record's content. Its file is rewritten atomically with regard to a loss of power. No effect if the
  /// record does not exist.
  ///
  /// - Parameter change: returns the new content for the present one. An error of it means that the file is damaged.
  /// - Throws: `spoolFull` if the new content does not fit, or an error of the disk.
  public func rewrite(
    _ id: SpoolID, _ change: ([UInt8]) throws(WireError) -> [UInt8]
  ) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard case .record? = state.held[id]?.name, let name = try present(id) else { return }
      let (record, oldSize) = try read(name)
      let content: [UInt8]
      do throws(WireError) { content = try change(record.content) } catch {
        throw StoreError(.damaged, "The content of \(name.text) cannot be read: \(error).")
      }
      let size = SpoolFile.size(ofContent: content.count)
      guard size - oldSize <= limits.maximumBytes - state.readable.reduce(0, { $0 + $1.size }) else {
        throw StoreError(
          .spoolFull,
          "The larger record does not fit: the store is limited to \(limits.maximumBytes) bytes.")
      }
      let changed = SpoolRecord(received: record.received, mark: record.mark, content: content)
      try replace(name, with: changed, id, &state)
    }
  }

  /// Replaces a record's file with one that contains `record`.
  private func replace(
    _ name: SpoolFileName, with record: SpoolRecord, _ id: SpoolID, _ state: inout State
  ) throws(StoreError) {
    let bytes = try SpoolFile.seal(record, id: id, nonce: state.random.bytes(ChaChaPoly.nonceSize), key: key)
    let old = try directory.openForOverwriting(name.text)
    state.isUnsynced = true
    try directory.replace(name.text, with: bytes, temporary: SpoolFileName.new(id).text)
    state.isUnsynced = false
    state.held[id]?.size = SpoolFile.size(ofContent: record.content.count)
    state.held[id]?.received = record.received
    // The old file has no name any more. If overwriting fails, its remains are encrypted.
    try? old.overwrite()
  }

  /// Removes the files of a record. The record may be unlisted already: an earlier removal may have failed after
  /// unlisting it.
  private func remove(_ id: SpoolID, in state: inout State) throws(StoreError) {
    try discard(id, &state, isForgotten: { $0.held[id] = nil })
  }

  /// Renames a file, and then overwrites and removes it. Without the renaming, a loss of power after overwriting would
  /// leave a damaged record.
  private func discard(
    _ id: SpoolID, _ state: inout State, isForgotten: (inout State) -> Void = { _ in }
  ) throws(StoreError) {
    // An interrupted `put` or `remove` may have left several files.
    let names = try files(of: id)
    let records = names.filter(\.holdsRecord)
    for name in records {
      state.isUnsynced = true
      try directory.rename(name.text, to: name.whileErased.text)
    }
    // If an earlier call failed at this point, the record's files may be removed without synchronisation.
    if state.isUnsynced { try sync(&state) }
    isForgotten(&state)
    let unfinished = names.filter { !$0.holdsRecord } + records.map(\.whileErased)
    for name in unfinished {
      defer { try? directory.sync() }
      try directory.erase(name.text)
    }
  }

  /// Synchronises the directory, so that its present names survive a loss of power.
  private func sync(_ state: inout State) throws(StoreError) {
    try directory.sync()
    state.isUnsynced = false
  }

  /// The owner's note, which survives a restart like the records; nil if none was written.
  ///
  /// - Returns: the last written note or, if that is damaged, the one before.
  /// - Throws: `damaged` if neither is valid, or an error of the disk.
  public func note() throws(StoreError) -> AtomicFile.Reading<[UInt8]>? {
    try state.withLock { (_) throws(StoreError) in try noteFile.read() }
  }

  /// Stores the owner's note, of at most 1 MiB, and replaces the former one. When this returns, it survives a loss of
  /// power.
  public func write(note: [UInt8]) throws(StoreError) {
    try state.withLock { (_) throws(StoreError) in try noteFile.write(note) }
  }

  /// The files of a record, except damaged ones.
  private func files(of id: SpoolID) throws(StoreError) -> [SpoolFileName] {
    try directory.names().sorted().compactMap(SpoolFileName.init).filter {
      if case .damaged = $0 { false } else { $0.id == id }
    }
  }

  /// The present name of a record's file. If there are duplicates, the one with the greater mark counts.
  private func present(_ id: SpoolID) throws(StoreError) -> SpoolFileName? {
    try files(of: id).last { if case .record = $0 { true } else { false } }
  }
}

extension RecordSpool {
  /// Reads and decrypts the records, the earliest first. An unreadable file does not prevent others from being read: it
  /// is listed among the problems and, if it is permanently damaged, renamed.
  ///
  /// - Parameters:
  ///   - known: records to skip.
  ///   - room: maximum number of records to read, and maximum bytes of their files; all records after the first one
  ///     beyond a limit are not read.
  ///   - decode: parses a record. An error means that the file is damaged; `badValue("version")` means that another
  ///     release wrote it.
  /// - Throws: the error of the disk if the names cannot be listed.
  public func list<Value: Sendable>(
    except known: Set<SpoolID> = [], room: (count: Int, bytes: Int) = (.max, .max),
    decode: (SpoolRecord) throws(WireError) -> Value
  ) throws(StoreError) -> SpoolContents<Value> {
    try state.withLock { (state) throws(StoreError) in
      var contents = SpoolContents<Value>()
      var room = room
      for id in try survey(&state) where !known.contains(id) {
        guard let held = state.held[id] else { continue }
        // A file with another key or of another release does not become readable by another attempt.
        if let error = held.problem, !SpoolProblem(name: held.name.text, error: error).isPassing {
          contents.problems.append(SpoolProblem(name: held.name.text, error: error))
          continue
        }
        // A file larger than the spool's limit is a problem, which is detected without reading it.
        let fits = held.size <= room.bytes || held.size > limits.maximumBytes
        guard contents.withoutRoom == 0, room.count > 0, fits else {
          contents.withoutRoom += 1
          continue
        }
        do throws(StoreError) {
          let (record, size) = try read(held.name)
          let value = try open(held.name) { () throws(SpoolFile.Failure) in
            do throws(WireError) { return try decode(record) } catch { throw SpoolFile.Failure(error) }
          }
          state.held[id] = Held(name: held.name, size: size, received: record.received)
          contents.entries.append(
            .init(id: id, received: record.received, mark: record.mark, value: value, size: size))
          room.count -= 1
          room.bytes -= size
        } catch {
          contents.problems.append(SpoolProblem(name: held.name.text, error: error))
          state.held[id]?.problem = error
          if error.reason == .damaged, setAside(held.name) { state.held[id] = nil }
        }
      }
      contents.damaged = eraseDamaged { _ in false }
      return contents
    }
  }

  /// Lists the files, and forgets files that no longer exist.
  ///
  /// - Returns: the records, the earliest first.
  private func survey(_ state: inout State) throws(StoreError) -> [SpoolID] {
    let found = recordFiles(among: try directory.names())
    for (id, name) in found where state.held[id]?.name != name {
      if state.held[id] == nil { state.held[id] = held(name) } else { state.held[id]?.name = name }
    }
    state.held = state.held.filter { found[$0.key] != nil }
    return state.held.sorted { ($0.value.received, $0.key) < ($1.value.received, $1.key) }.map(\.key)
  }

  /// The files with records. If two files belong to one record, the one with the greater mark counts.
  private func recordFiles(among names: [String]) -> [SpoolID: SpoolFileName] {
    let names = names.compactMap(SpoolFileName.init).filter(\.holdsRecord)
    return Dictionary(names.map { ($0.id, $0) }, uniquingKeysWith: { $0.text > $1.text ? $0 : $1 })
  }

  /// Erases duplicates. A loss of power after a disk failure may leave two files of one record with different marks.
  /// The complete file with the greatest mark stays, because only an existing record is marked.
  ///
  /// - Returns: whether there were duplicates.
  private func eraseDoubles(among names: [String]) -> Bool {
    let records = names.compactMap(SpoolFileName.init).filter { if case .record = $0 { true } else { false } }
    let doubles = Dictionary(grouping: records, by: \.id).values.filter { $0.count > 1 }
    for files in doubles {
      let files = files.sorted { $0.mark > $1.mark }
      let kept = files.first { (try? read($0)) != nil } ?? files[0]
      for file in files where file != kept {
        // A file that cannot be erased now is erased with the record, or at the next start.
        try? directory.rename(file.text, to: file.whileErased.text)
        try? directory.sync()
        try? directory.erase(file.whileErased.text)
      }
    }
    return !doubles.isEmpty
  }

  func read(_ name: SpoolFileName) throws(StoreError) -> (SpoolRecord, size: Int) {
    let bytes: [UInt8]
    do throws(StoreError) {
      bytes = try directory.contents(of: name.text, limit: limits.maximumBytes) ?? []
    } catch {
      throw error.reason == .wrongKind ? StoreError(.damaged, error.sentence) : error
    }
    return try open(name) { () throws(SpoolFile.Failure) in
      (try SpoolFile.open(bytes, id: name.id, mark: name.mark, key: key), bytes.count)
    }
  }

  /// Opens a file, and converts a failure to an error with instructions for an administrator.
  private func open<Value>(
    _ name: SpoolFileName, _ body: () throws(SpoolFile.Failure) -> Value
  ) throws(StoreError) -> Value {
    let path = PrintableText.clean(directory.path(of: name.text))
    do throws(SpoolFile.Failure) {
      return try body()
    } catch {
      switch error {
      case .damaged(let what):
        throw StoreError(
          .damaged,
          "\(path) is damaged: \(what). It is stored as \(name.whenDamaged.text); remove that file.")
      case .otherKey:
        throw StoreError(
          .keyMissing,
          "\(path) is encrypted with a different key. Restore that key (\(SpoolKey.places)), or remove the file.")
      case .otherVersion: throw otherRelease(name)
      }
    }
  }

  private func otherRelease(_ name: SpoolFileName) -> StoreError {
    let path = PrintableText.clean(directory.path(of: name.text))
    return StoreError(
      .otherRelease,
      "\(path) was written by another release. Install that release, or remove the file.")
  }

  /// Completes operations that were interrupted in an earlier run, and lists the records.
  func scan() throws(StoreError) {
    var hasUnfinished = false
    var names = try directory.names()
    for name in names.compactMap(SpoolFileName.init) {
      switch name {
      case .new, .erased:
        // A file that cannot be erased now is erased at the next start; no operation depends on it.
        try? directory.erase(name.text)
        hasUnfinished = true
      case .record, .damaged, .otherRelease: break
      }
    }
    if eraseDoubles(among: names) {
      hasUnfinished = true
      names = try directory.names()
    }
    if hasUnfinished { try? directory.sync() }
    let found = recordFiles(among: names).mapValues(held)
    state.withLock { $0.held = found }
  }

  /// The size and date of a file, without reading all of it. The date is the one in the file or, if that cannot be
  /// read, the modification time.
  private func held(_ name: SpoolFileName) -> Held {
    var held = Held(name: name, size: 0, received: .max)
    if case .otherRelease = name { held.problem = otherRelease(name) }
    guard let status = try? directory.status(of: name.text) else { return held }
    (held.size, held.received) = (status.size, status.modified)
    guard let start = try? directory.open(name.text).read(atMost: SpoolHeader.size) else { return held }
    var reader = ByteReader(start)
    if let header = try? SpoolHeader(reading: &reader) { held.received = header.received }
    return held
  }

  private func setAside(_ name: SpoolFileName) -> Bool {
    do throws(StoreError) {
      try directory.rename(name.text, to: name.whenDamaged.text)
    } catch {
      return false
    }
    try? directory.sync()
    return true
  }

  /// Erases damaged files beyond the limit, and those for whose modification time `isOld` returns true.
  ///
  /// - Returns: number of damaged files afterwards.
  @discardableResult
  func eraseDamaged(where isOld: (Int64) -> Bool) -> Int {
    guard let names = try? directory.names() else { return 0 }
    let damaged = names.filter { if case .damaged? = SpoolFileName($0) { true } else { false } }
      .map { (name: $0, modified: (try? directory.status(of: $0)?.modified) ?? 0) }
      .sorted { ($0.modified, $0.name) < ($1.modified, $1.name) }
    let tooMany = max(0, damaged.count - limits.keptDamaged)
    let doomed = damaged.prefix(tooMany) + damaged.dropFirst(tooMany).filter { isOld($0.modified) }
    guard !doomed.isEmpty else { return damaged.count }
    for file in doomed { try? directory.erase(file.name) }
    try? directory.sync()
    return damaged.count - doomed.count
  }
}
