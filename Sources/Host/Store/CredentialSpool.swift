import Bytes
import Common
import Crypto

/// Credentials that were received and not given to anybody for good yet, one encrypted file for each, kept over a restart
/// or a loss of power.
///
/// Every call may wait for the disk, and calls from several threads wait for each other: call it away from the loop. The
/// directory is `spool` in the state directory:
///
/// | name | what it is |
/// |---|---|
/// | `ID.credential` | a credential that nobody has judged: a `SpoolFile` |
/// | `ID.accepted` | the same, accepted, and not taken by anybody yet |
/// | `ID.new` | one on its way in; `put` has not returned |
/// | `ID.erased` | one on its way out; `remove` has begun |
/// | `ID.credential.damaged` | one that cannot be read, for whoever wants to look into it |
public final class CredentialSpool: Sendable {
  public struct Limits: Hashable, Sendable {
    /// Credentials that are kept, those that cannot be read not included.
    public var maximumCount = 64
    /// The size of all their files, each some hundred bytes larger than the credential.
    public var maximumBytes = 64 << 20
    /// Damaged files that are kept; the oldest one goes first.
    public var keptDamaged = 8

    public init() {}
  }

  public static let directoryName = "spool"

  public let key: SpoolKey
  let directory: any Directory
  let limits: Limits
  let state: Locked<State>
  /// It holds the lock that keeps other processes out.
  private let stateDirectory: StateDirectory

  struct State {
    var held: [SpoolID: Held] = [:]
    var random: any RandomSource & Sendable

    /// What takes up room: one that cannot be read must not turn wallets away.
    var readable: [Held] { held.values.filter { $0.problem == nil } }
  }

  struct Held {
    var size: Int
    var received: Int64
    var isAccepted = false
    /// Why it could not be read the last time.
    var problem: StoreError?
  }

  /// Opens the spool, and finishes what a loss of power left unfinished in it.
  public init(
    in stateDirectory: StateDirectory, key: SpoolKey, limits: Limits = Limits(),
    random: any RandomSource & Sendable = SystemRandom()
  ) throws(StoreError) {
    directory = try stateDirectory.open(Self.directoryName)
    self.stateDirectory = stateDirectory
    self.key = key
    self.limits = limits
    state = Locked(State(random: random))
    try scan()
  }

  /// How many credentials there are, readable or not.
  public var count: Int { state.withLock { $0.held.count } }

  /// A name for a credential that is to be put.
  public func makeID() -> SpoolID { state.withLock { SpoolID(randomFrom: &$0.random) } }

  /// What a credential takes of `Limits.maximumBytes`.
  public static func size(of entry: SpoolEntry) -> Int { SpoolFile.size(of: entry) ?? .max }

  /// Keeps a credential. When this returns, it survives a loss of power; when it throws, nothing is kept, unless the disk
  /// fails in the removal too: then a second `put` or a `remove` of the same id mends that.
  ///
  /// - Parameters:
  ///   - id: from `makeID`; nil makes one.
  ///   - isAccepted: it was judged before it could be put.
  /// - Throws: `spoolFull` at a limit, `tooLarge` for a text of more than 255 bytes, or what the disk says.
  @discardableResult
  public func put(_ entry: SpoolEntry, as id: SpoolID? = nil, isAccepted: Bool = false) throws(StoreError) -> SpoolID {
    try state.withLock { (state) throws(StoreError) in
      guard let size = SpoolFile.size(of: entry) else {
        throw StoreError(.tooLarge, "The dialect or the peer's address is longer than 255 bytes.")
      }
      try checkRoom(for: size, in: state)
      let id = id ?? SpoolID(randomFrom: &state.random)
      let bytes = try SpoolFile.seal(entry, id: id, nonce: state.random.bytes(ChaChaPoly.nonceSize), key: key)
      do throws(StoreError) {
        try directory.replace(Name.kept(id, isAccepted), with: bytes, temporary: Name.new(id))
      } catch {
        // It may have its name already, and then it would come back after a restart.
        try? discard(id)
        throw error
      }
      state.held[id] = Held(size: size, received: entry.received, isAccepted: isAccepted)
      return id
    }
  }

  private func checkRoom(for size: Int, in state: State) throws(StoreError) {
    let readable = state.readable
    guard readable.count < limits.maximumCount else {
      throw StoreError(
        .spoolFull, "\(limits.maximumCount) credentials wait to be judged and taken, and no more are kept.")
    }
    guard size <= limits.maximumBytes - readable.reduce(0, { $0 + $1.size }) else { throw .full(limits.maximumBytes) }
  }

  /// Notes that a credential is accepted: it comes back as such after a restart. Nothing happens if there is none.
  public func accept(_ id: SpoolID) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard state.held[id] != nil else { return }
      if try directory.status(of: Name.kept(id)) != nil {
        try directory.rename(Name.kept(id), to: Name.kept(id, true))
      }
      // Where an earlier call failed here, the name is new already.
      try directory.sync()
      state.held[id]?.isAccepted = true
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
  /// - Parameters:
  ///   - now: seconds since 1970 by the wall clock.
  ///   - epoch: a date before it was told by a clock that was wrong, and says nothing.
  ///   - others: is not asked about these.
  /// - Returns: those that are gone, and why others are not.
  public func removeAll(
    olderThan age: Duration, now: Int64, epoch: Int64 = .min, except others: Set<SpoolID> = []
  ) -> (removed: [SpoolID], problems: [SpoolContents.Problem]) {
    let age = age.components.seconds
    let isOld = { (date: Int64) in date >= epoch && SpoolEntry.age(date, now) > age }
    return state.withLock { state in
      var removed: [SpoolID] = []
      var problems: [SpoolContents.Problem] = []
      for (id, held) in state.held.sorted(by: { $0.key < $1.key }) where isOld(held.received) && !others.contains(id) {
        do throws(StoreError) {
          try remove(id, in: &state)
          removed.append(id)
        } catch {
          problems.append(.init(name: Name.kept(id, held.isAccepted), error: error, isPassing: true))
        }
      }
      eraseDamaged(where: isOld)
      return (removed, problems)
    }
  }

  /// Gives a credential another date, as if it had been received then: its file is written anew, and is either of the two
  /// after a loss of power. Nothing happens if there is none.
  public func redate(_ id: SpoolID, received: Int64) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard state.held[id] != nil, let name = try present(id) else { return }
      var (entry, size) = try read(name, id)
      entry.received = received
      let bytes = try SpoolFile.seal(entry, id: id, nonce: state.random.bytes(ChaChaPoly.nonceSize), key: key)
      let old = try directory.openForOverwriting(name)
      try directory.replace(name, with: bytes, temporary: Name.new(id))
      state.held[id]?.size = size
      state.held[id]?.received = received
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
    if let name = try present(id) {
      try directory.rename(name, to: Name.erased(id))
      try directory.sync()
    }
    isForgotten()
    // An attempt to put it may have left its beginning.
    for name in [Name.erased(id), Name.new(id)] where try directory.status(of: name) != nil {
      defer { try? directory.sync() }
      try directory.erase(name)
    }
  }

  /// The name that a credential has on the disk, judged or not.
  private func present(_ id: SpoolID) throws(StoreError) -> String? {
    if try directory.status(of: Name.kept(id)) != nil { return Name.kept(id) }
    return try directory.status(of: Name.kept(id, true)) == nil ? nil : Name.kept(id, true)
  }
}

extension StoreError {
  /// A credential does not fit beside those that wait.
  public static func full(_ bytes: Int) -> StoreError {
    StoreError(
      .spoolFull,
      "The credentials that wait to be judged and taken may have \(bytes) bytes together, and one more would not fit.")
  }
}

extension CredentialSpool {
  /// The names of files.
  enum Name {
    private static let keptEnding = ".credential"
    private static let acceptedEnding = ".accepted"
    private static let damagedEnding = ".damaged"

    static func kept(_ id: SpoolID, _ isAccepted: Bool = false) -> String {
      "\(id)\(isAccepted ? acceptedEnding : keptEnding)"
    }
    static func new(_ id: SpoolID) -> String { "\(id).new" }
    static func erased(_ id: SpoolID) -> String { "\(id).erased" }
    static func damaged(_ name: String) -> String { "\(name)\(damagedEnding)" }

    /// The credential that a file of that name is of.
    static func credential(_ name: String) -> (id: SpoolID, isAccepted: Bool)? {
      if let id = id(name, ending: keptEnding) { return (id, false) }
      return id(name, ending: acceptedEnding).map { ($0, true) }
    }

    static func isDamaged(_ name: String) -> Bool {
      name.hasSuffix(damagedEnding) && credential(String(name.dropLast(damagedEnding.count))) != nil
    }

    /// The id in a name with that ending.
    static func id(_ name: String, ending: String) -> SpoolID? {
      name.hasSuffix(ending) ? SpoolID(name.dropLast(ending.count)) : nil
    }
  }
}
