import Bytes
import Common
import Crypto

/// Credentials that were received and not judged yet, one encrypted file for each, kept over a restart or a loss of power.
///
/// Every call may wait for the disk, and calls from several threads wait for each other: call it away from the loop, by
/// `Scheduler.offload`. The directory is `spool` in the state directory:
///
/// | name | what it is |
/// |---|---|
/// | `ID.credential` | a credential: a `SpoolFile` |
/// | `ID.new` | one on its way in; `put` has not returned |
/// | `ID.erased` | one on its way out; `remove` has begun |
/// | `ID.credential.damaged` | one that cannot be read, for whoever wants to look into it |
public final class CredentialSpool: Sendable {
  public struct Limits: Hashable, Sendable {
    /// Credentials that are kept, those that cannot be read included, those that are damaged not.
    public var maximumCount = 64
    /// The size of all their files, each some hundred bytes larger than the credential.
    public var maximumBytes = 64 << 20
    /// Damaged files that are kept; the oldest one goes first.
    public var keptDamaged = 8

    public init() {}
  }

  public static let directoryName = "spool"

  let directory: any Directory
  let key: SpoolKey
  let limits: Limits
  let state: Locked<State>

  struct State {
    var held: [SpoolID: Held] = [:]
    var random: any RandomSource & Sendable

    var bytes: Int { held.values.reduce(0) { $0 + $1.size } }
  }

  struct Held {
    var size: Int
    var received: Int64
  }

  /// Opens the spool, and finishes what a loss of power left unfinished in it.
  public init(
    in stateDirectory: StateDirectory, key: SpoolKey, limits: Limits = Limits(),
    random: any RandomSource & Sendable = SystemRandom()
  ) throws(StoreError) {
    directory = try stateDirectory.open(Self.directoryName)
    self.key = key
    self.limits = limits
    state = Locked(State(random: random))
    try scan()
  }

  /// How many credentials there are, readable or not.
  public var count: Int { state.withLock { $0.held.count } }

  /// Keeps a credential. When this returns, it survives a loss of power; when it throws, nothing is kept, unless the disk
  /// fails in the removal too.
  ///
  /// - Throws: `spoolFull` at a limit, `tooLarge` for a text of more than 255 bytes, or what the disk says.
  public func put(_ entry: SpoolEntry) throws(StoreError) -> SpoolID {
    try state.withLock { (state) throws(StoreError) in
      guard let size = SpoolFile.size(of: entry) else {
        throw StoreError(.tooLarge, "The dialect or the peer's address is longer than 255 bytes.")
      }
      try checkRoom(for: size, in: state)
      let id = SpoolID(randomFrom: &state.random)
      let bytes = try SpoolFile.seal(entry, id: id, nonce: state.random.bytes(ChaChaPoly.nonceSize), key: key)
      do throws(StoreError) {
        try directory.replace(Name.kept(id), with: bytes, temporary: Name.new(id))
      } catch {
        // It may have its name already, and then it would come back after a restart.
        try? discard(id)
        throw error
      }
      state.held[id] = Held(size: size, received: entry.received)
      return id
    }
  }

  private func checkRoom(for size: Int, in state: State) throws(StoreError) {
    guard state.held.count < limits.maximumCount else {
      throw StoreError(
        .spoolFull, "\(limits.maximumCount) credentials wait to be judged, and no more are kept: accept or reject some."
      )
    }
    guard size <= limits.maximumBytes - state.bytes else {
      throw StoreError(
        .spoolFull,
        "The credentials that wait to be judged may take \(limits.maximumBytes) bytes together, and one of \(size) "
          + "bytes more would not fit: accept or reject some.")
    }
  }

  /// Erases a credential: it is forgotten for good, its file overwritten and removed. Nothing happens if there is none.
  ///
  /// On a disk that moves what it writes (flash, btrfs) the old bytes may outlive the overwriting; they stay encrypted.
  ///
  /// - Throws: what the disk says; the credential may come back after a restart, unless the call is repeated.
  public func remove(_ id: SpoolID) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in try remove(id, in: &state) }
  }

  /// Erases every credential that was received more than `age` (in whole seconds) before `now`, and every damaged file that was
  /// written before that. One from the future, as the clock tells it, is no age at all.
  ///
  /// - Parameter now: seconds since 1970 by the wall clock.
  /// - Returns: those that are gone, and why others are not.
  public func removeAll(olderThan age: Duration, now: Int64) -> (removed: [SpoolID], problems: [SpoolContents.Problem])
  {
    let age = age.components.seconds
    return state.withLock { state in
      var removed: [SpoolID] = []
      var problems: [SpoolContents.Problem] = []
      for (id, held) in state.held.sorted(by: { $0.key < $1.key }) where SpoolEntry.age(held.received, now) > age {
        do throws(StoreError) {
          try remove(id, in: &state)
          removed.append(id)
        } catch {
          problems.append(.init(name: Name.kept(id), error: error))
        }
      }
      eraseDamaged { SpoolEntry.age($0, now) > age }
      return (removed, problems)
    }
  }

  /// Gives a credential another date, as if it had been received then: its file is written anew, and is either of the two
  /// after a loss of power. Nothing happens if there is none.
  public func redate(_ id: SpoolID, received: Int64) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard state.held[id] != nil else { return }
      var (entry, size) = try read(Name.kept(id), id)
      entry.received = received
      let bytes = try SpoolFile.seal(entry, id: id, nonce: state.random.bytes(ChaChaPoly.nonceSize), key: key)
      let old = try directory.openForOverwriting(Name.kept(id))
      try directory.replace(Name.kept(id), with: bytes, temporary: Name.new(id))
      state.held[id] = Held(size: size, received: received)
      // It has no name any more. Where this fails, what is left of it is encrypted.
      try? old.overwrite()
    }
  }

  /// Also of one that is forgotten already: an earlier removal may not have come to its end.
  private func remove(_ id: SpoolID, in state: inout State) throws(StoreError) {
    try discard(id) { state.held[id] = nil }
  }

  /// The name goes first: were the content overwritten first, a loss of power between would leave a damaged credential.
  private func discard(_ id: SpoolID, isForgotten: () -> Void = {}) throws(StoreError) {
    if try directory.status(of: Name.kept(id)) != nil {
      try directory.rename(Name.kept(id), to: Name.erased(id))
      try directory.sync()
    }
    isForgotten()
    guard try directory.status(of: Name.erased(id)) != nil else { return }
    defer { try? directory.sync() }
    try directory.erase(Name.erased(id))
  }
}

extension CredentialSpool {
  /// The names of files.
  enum Name {
    static let keptEnding = ".credential"
    static let damagedEnding = ".credential.damaged"

    static func kept(_ id: SpoolID) -> String { "\(id)\(keptEnding)" }
    static func new(_ id: SpoolID) -> String { "\(id).new" }
    static func erased(_ id: SpoolID) -> String { "\(id).erased" }
    static func damaged(_ name: String) -> String { "\(name).damaged" }

    /// The id in a name with that ending.
    static func id(_ name: String, ending: String) -> SpoolID? {
      name.hasSuffix(ending) ? SpoolID(name.dropLast(ending.count)) : nil
    }
  }
}
