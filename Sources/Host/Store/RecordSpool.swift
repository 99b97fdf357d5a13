import Bytes
import Common
import Crypto

/// Records that outlive a restart and a loss of power, one encrypted file for each. What is in a record, and what its mark
/// means, only its owner knows.
///
/// The files are in the directory `spool` of the state directory; `SpoolFileName` says how they are named. Every call may
/// wait for the disk, and calls from several threads wait for each other: call it away from the loop.
public final class RecordSpool: Sendable {
  public struct Limits: Hashable, Sendable {
    /// Records that are kept, those that cannot be read not included.
    public var maximumCount = 64
    /// The size of all their files together, in bytes. Each is 74 bytes larger than the record's content.
    public var maximumBytes = 64 << 20
    /// Damaged files that are kept; the oldest is erased first.
    public var keptDamaged = 8

    public init() {}
  }

  public static let directoryName = "spool"
  /// The name of the note's file, beside the directory.
  public static let noteName = "spool.note"

  public let key: SpoolKey
  let directory: any Directory
  let limits: Limits
  let state: Locked<State>
  /// The lock of this directory keeps other processes out for as long as the spool is there.
  private let stateDirectory: StateDirectory
  private let noteFile: AtomicFile

  struct State {
    var held: [SpoolID: Held] = [:]
    var random: any RandomSource & Sendable
    /// Names have changed, and the disk may not know: what is said to be there, or gone, has to be synchronized first.
    var isUnsynced = true

    /// The records that take up room: a file that cannot be read must not keep others from being put.
    var readable: [Held] { held.values.filter { $0.problem == nil } }
  }

  struct Held {
    var name: SpoolFileName
    var size: Int
    var received: Int64
    /// Why the file could not be read at the last attempt.
    var problem: StoreError?
  }

  /// Opens the spool, and finishes what a loss of power interrupted.
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

  /// How many records there are, readable or not.
  public var count: Int { state.withLock { $0.held.count } }

  /// What the file of a content with so many bytes takes of `Limits.maximumBytes`.
  public static func size(ofContent count: Int) -> Int { SpoolFile.size(ofContent: count) }

  /// Keeps a record. When this returns, the record survives a loss of power. When it throws, nothing is kept, unless the
  /// disk fails in the removal too: a second `put` or a `remove` of the same id mends that.
  ///
  /// - Parameter id: the name of the record; nil draws one.
  /// - Throws: `spoolFull` at a limit, `tooLarge` for a content of 4 GiB and more, or what the disk says.
  @discardableResult
  public func put(_ record: SpoolRecord, as id: SpoolID? = nil) throws(StoreError) -> SpoolID {
    try state.withLock { (state) throws(StoreError) in
      let size = SpoolFile.size(ofContent: record.content.count)
      try checkRoom(for: size, in: state)
      // An earlier attempt may have left a file with another mark in its name: there must not be two.
      if let id { try discard(id, &state) }
      let id = id ?? SpoolID(randomFrom: &state.random)
      let bytes = try SpoolFile.seal(record, id: id, nonce: state.random.bytes(ChaChaPoly.nonceSize), key: key)
      let name = SpoolFileName.record(id, mark: record.mark)
      do throws(StoreError) {
        try directory.replace(name.text, with: bytes, temporary: SpoolFileName.new(id).text)
      } catch {
        // The file may have its name already, and then it would come back after a restart.
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
      throw StoreError(.spoolFull, "\(limits.maximumCount) records are kept, which is the limit, and no more.")
    }
    guard size <= limits.maximumBytes - readable.reduce(0, { $0 + $1.size }) else {
      throw StoreError(
        .spoolFull,
        "The records that are kept may have \(limits.maximumBytes) bytes together, and one more would not fit.")
    }
  }

  /// Gives a record another mark, which comes back with it after a restart. When this returns, the mark survives a loss of
  /// power. Nothing happens if there is no such record.
  public func mark(_ id: SpoolID, as mark: UInt8) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard case .record? = state.held[id]?.name else { return }
      let name = SpoolFileName.record(id, mark: mark)
      if let present = try present(id), present != name {
        state.isUnsynced = true
        try directory.rename(present.text, to: name.text)
      }
      // Where an earlier call failed here, the name is new already.
      if state.isUnsynced { try sync(&state) }
      state.held[id]?.name = name
    }
  }

  /// Erases a record: its file is overwritten and removed. Nothing happens if there is no such record.
  ///
  /// On a disk that moves what it writes (flash, btrfs) the old bytes may outlive the overwriting; they stay encrypted.
  ///
  /// - Throws: what the disk says; the record may come back after a restart, unless the call is repeated.
  public func remove(_ id: SpoolID) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in try remove(id, in: &state) }
  }

  /// Erases every record that was received more than `age` (in whole seconds) before `now`, and every damaged file that
  /// was written before that. A date in the future is no age at all.
  ///
  /// - Parameters:
  ///   - now: seconds since 1970 by the wall clock.
  ///   - epoch: a date before this one comes from a clock that was not set, and is no age either.
  ///   - others: these are kept, whatever their dates.
  /// - Returns: the records that were erased, and why others could not be.
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

  /// Gives a record another date, as if it had been received then. Its file is written anew; after a loss of power it is
  /// the old file or the new one. Nothing happens if there is no such record.
  public func redate(_ id: SpoolID, received: Int64) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard case .record? = state.held[id]?.name, let name = try present(id) else { return }
      var record = try read(name).0
      record.received = received
      try replace(name, with: record, id, &state)
    }
  }

  /// Writes a record's file with another content; after a loss of power it is the old file or the new one. Nothing happens if there
  /// is no such record.
  ///
  /// - Parameter change: makes the new content from the present one. What it throws means that the file is damaged.
  /// - Throws: `spoolFull` if the new content does not fit, or what the disk says.
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
          "The records that are kept may have \(limits.maximumBytes) bytes together, and a larger one would not fit.")
      }
      let changed = SpoolRecord(received: record.received, mark: record.mark, content: content)
      try replace(name, with: changed, id, &state)
    }
  }

  /// Replaces a record's file with one that holds `record`.
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
    // The old file has no name any more. Where this fails, what remains of it is encrypted.
    try? old.overwrite()
  }

  /// Also removes a record that is forgotten already: an earlier removal may have failed halfway.
  private func remove(_ id: SpoolID, in state: inout State) throws(StoreError) {
    try discard(id, &state, isForgotten: { $0.held[id] = nil })
  }

  /// The name goes first: were the content overwritten first, a loss of power between would leave a damaged record.
  private func discard(
    _ id: SpoolID, _ state: inout State, isForgotten: (inout State) -> Void = { _ in }
  ) throws(StoreError) {
    // An attempt to put or to remove it may have left more than the record.
    let names = try files(of: id)
    let records = names.filter(\.holdsRecord)
    for name in records {
      state.isUnsynced = true
      try directory.rename(name.text, to: name.whileErased.text)
    }
    // Where an earlier call failed here, there is no record any more, and the disk may not know.
    if state.isUnsynced { try sync(&state) }
    isForgotten(&state)
    let unfinished = names.filter { !$0.holdsRecord } + records.map(\.whileErased)
    for name in unfinished {
      defer { try? directory.sync() }
      try directory.erase(name.text)
    }
  }

  /// Makes all names as they are now survive a loss of power.
  private func sync(_ state: inout State) throws(StoreError) {
    try directory.sync()
    state.isUnsynced = false
  }

  /// The owner's own note, which outlives a restart as the records do; nil if none was written.
  ///
  /// - Returns: the note as it was written last or, where that is damaged, the time before.
  /// - Throws: `damaged` if neither is whole, or what the disk says.
  public func note() throws(StoreError) -> AtomicFile.Reading<[UInt8]>? {
    try state.withLock { (_) throws(StoreError) in try noteFile.read() }
  }

  /// Keeps the owner's note, of 1 MiB at most, in place of the one before. When this returns, it survives a loss of power.
  public func write(note: [UInt8]) throws(StoreError) {
    try state.withLock { (_) throws(StoreError) in try noteFile.write(note) }
  }

  /// The files of a record, except damaged ones.
  private func files(of id: SpoolID) throws(StoreError) -> [SpoolFileName] {
    try directory.names().sorted().compactMap(SpoolFileName.init).filter {
      if case .damaged = $0 { false } else { $0.id == id }
    }
  }

  /// The name that a record's file has on the disk. Where there are two, the one with the greater mark counts.
  private func present(_ id: SpoolID) throws(StoreError) -> SpoolFileName? {
    try files(of: id).last { if case .record = $0 { true } else { false } }
  }
}
