import Bytes
import Common
import Crypto
import Database
import Store

/// Folder `mesh` of the state directory: the database, its key, and during a wipe a marker file.
///
/// All methods may block on the disk.
final class MeshFiles: MeshDisk {
  static let folder = "mesh"
  static let key = StoreKey.Name("mesh")
  /// Name of the file that exists while a wipe is incomplete, so that the next start completes it.
  static let wiping = "mesh.wiping"
  /// Exclusive upper bound on the numbers of database rows.
  static let highestID: Int64 = 1 << 40

  /// All files that contain or contained persistent data.
  static let allFiles = MeshDatabase.names.flatMap { [$0] + SQLiteFile.companions(of: $0) }

  private struct State: Sendable {
    /// Holds the lock that excludes other processes from the folder.
    var directory: StateDirectory?
    var file: SQLiteFile?
    var seal: RecordSeal?
    var keyOrigin: StoreKey.Origin?
  }

  private let path: String?
  private let fileSystem: any FileSystem
  private let environment: @Sendable (String) -> String?
  private let state = Locked(State())

  /// - Parameter path: path of the state directory; nil for the one made by systemd.
  init(
    path: String?, on fileSystem: any FileSystem = SystemFileSystem(),
    environment: @escaping @Sendable (String) -> String? = StateDirectory.environment
  ) {
    self.path = path
    self.fileSystem = fileSystem
    self.environment = environment
  }

  // MARK: Opening

  func open() throws(StoreError) -> DiskContents {
    try state.withLock { (state) throws(StoreError) in
      state.file?.close()
      (state.file, state.seal) = (nil, nil)
      let directory = try directory(&state)
      var contents = DiskContents()
      if try directory.directory.status(of: Self.wiping) != nil {
        contents.highestNumber = Self.number(in: directory)
        try Self.finishWipe(in: directory)
      }
      state.keyOrigin = nil
      let key = try key(in: directory)
      state.keyOrigin = key.origin
      let seal = try RecordSeal(key)
      contents.keyOrigin = key.origin
      // Without a database, sealed files have no owner, and their key is lost.
      if key.origin == .made { try directory.erase(Self.sealedFiles(in: directory)) }
      let (file, rows) = try MeshDatabase.read(in: directory, &contents.warning)
      for row in rows {
        if (1..<Self.highestID).contains(row.id), let content = seal.open(row.sealed, id: row.id, time: row.time) {
          contents.rows.append(DiskContents.Row(id: row.id, time: row.time, content: content))
        } else {
          contents.unreadable.append(row.id)
        }
      }
      if contents.rows.isEmpty, !contents.unreadable.isEmpty {
        file.close()
        throw Self.noKey(in: directory)
      }
      (state.file, state.seal) = (file, seal)
      contents.files = Set(try directory.directory.names().compactMap { SealedFile.place($0) })
      return contents
    }
  }

  /// Returns the key; creates it only if there is no data sealed with another one.
  private func key(in directory: StateDirectory) throws(StoreError) -> StoreKey {
    if let key = try StoreKey.find(Self.key, from: directory, on: fileSystem, environment: environment) { return key }
    for name in [MeshDatabase.name, MeshDatabase.new] where try directory.directory.status(of: name) != nil {
      throw Self.noKey(in: directory)
    }
    return try StoreKey.load(Self.key, from: directory, on: fileSystem, environment: environment)
  }

  /// Error for a missing or wrong key. Nothing is changed, because an administrator may restore the key.
  private static func noKey(in directory: StateDirectory) -> StoreError {
    StoreError(
      .keyMissing,
      "\(PrintableText.clean(directory.directory.path(of: MeshDatabase.name))) is encrypted with a key that is "
        + "missing. Restore the key (\(key.places)) and restart the service, or erase the mesh store: earshot mesh "
        + "wipe.")
  }

  private static func sealedFiles(in directory: StateDirectory) throws(StoreError) -> [String] {
    try directory.directory.names().filter { SealedFile.place($0) != nil }
  }

  private func directory(_ state: inout State) throws(StoreError) -> StateDirectory {
    if let known = state.directory { return known }
    let opened = try StateDirectory(path: path, folder: Self.folder, on: fileSystem, environment: environment)
    state.directory = opened
    return opened
  }

  // MARK: Changes

  func commit(_ writes: MeshWrites) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard let file = state.file, var seal = state.seal else {
        throw StoreError(.failed, "The mesh database is not open.")
      }
      defer { state.seal = seal }
      var sealed: [SealedRow] = []
      var removed: [Int64] = []
      for row in writes.rows.values.sorted(by: { $0.id < $1.id }) {
        if let content = row.content {
          let bytes = try seal.seal(content, id: row.id, time: row.time)
          sealed.append(SealedRow(id: row.id, time: row.time, sealed: bytes))
        } else {
          removed.append(row.id)
        }
      }
      try MeshDatabase.write(sealed, removing: removed, to: file)
      // If emptying fails now, sealed content may stay in the log for a while.
      if writes.emptiesLog { try? file.emptyLog() }
      // No row refers to these files. If erasing fails now, it is retried, at the latest at the next start.
      if !writes.erased.isEmpty { try state.directory?.erase(writes.erased.map { SealedFile.name($0) }) }
    }
  }

  func write(_ content: [UInt8], to place: UInt64) throws(StoreError) {
    try state.withLock { (state) throws(StoreError) in
      guard let directory = state.directory, var seal = state.seal else {
        throw StoreError(.failed, "The mesh database is not open.")
      }
      defer { state.seal = seal }
      let sealed = try seal.seal(file: content, place: place)
      let name = SealedFile.name(place)
      do throws(StoreError) {
        let file = try directory.directory.create(name)
        try file.write(sealed, at: 0)
        try file.sync()
        try directory.directory.sync()
      } catch {
        try? directory.erase([name])
        throw error
      }
    }
  }

  func read(_ place: UInt64) throws(StoreError) -> [UInt8] {
    try state.withLock { (state) throws(StoreError) in
      guard let directory = state.directory, let seal = state.seal else {
        throw StoreError(.failed, "The mesh database is not open.")
      }
      let sealed = try directory.directory.open(SealedFile.name(place)).read(atMost: SealedFile.limit)
      guard let content = seal.open(file: sealed, place: place) else {
        throw StoreError(.damaged, "The file is damaged, or encrypted with a different key.")
      }
      return content
    }
  }

  func erase(_ place: UInt64) {
    state.withLock { state in _ = try? state.directory?.erase([SealedFile.name(place)]) }
  }

  /// Limits the size of the database, in pages of 4 KiB, until it is reopened.
  func limit(pages: Int) throws(SQLiteError) {
    try state.withLock { (state) throws(SQLiteError) in try state.file?.limit(pages: pages) }
  }

  // MARK: Wiping

  func wipe(keeping number: UInt32) throws(StoreError) -> Bool {
    try state.withLock { (state) throws(StoreError) in
      let directory = try directory(&state)
      // From here on the next start completes the wipe. If a full disk has no space for the marker, the wipe continues
      // without it.
      let isNoted = try directory.directory.status(of: Self.wiping) != nil
      if !isNoted, let note = try? directory.directory.create(Self.wiping) {
        var writer = ByteWriter()
        writer.u32be(number)
        try? note.write(writer.bytes, at: 0)
        try? note.sync()
        try? directory.directory.sync()
      }
      let isForeign = state.keyOrigin == .systemCredential
      state.seal = nil
      // The key is destroyed first: without it the data is unreadable. A failure does not prevent erasing the rest.
      var failure: StoreError?
      if !isForeign { failure = Self.failure { () throws(StoreError) in try Self.destroyKey(in: directory) } }
      state.file?.close(keepsLog: true)
      state.file = nil
      let later = Self.failure { () throws(StoreError) in try Self.finishWipe(in: directory) }
      if let failure = failure ?? later { throw failure }
      return !isForeign
    }
  }

  /// Highest number of a message in the marker of a wipe; 0 if it could not be written.
  private static func number(in directory: StateDirectory) -> UInt32 {
    guard let bytes = try? directory.directory.open(wiping).read(atMost: 4) else { return 0 }
    var reader = ByteReader(bytes)
    return (try? reader.u32be()) ?? 0
  }

  private static func destroyKey(in directory: StateDirectory) throws(StoreError) {
    try StoreKey.destroy(key, in: directory)
  }

  /// Destroys the key, then erases all files, and last the marker file, so that an interrupted wipe can be completed
  /// later.
  private static func finishWipe(in directory: StateDirectory) throws(StoreError) {
    let failures = [
      failure { () throws(StoreError) in try destroyKey(in: directory) },
      failure { () throws(StoreError) in try directory.erase(allFiles + sealedFiles(in: directory)) },
    ]
    if let failure = failures.compactMap({ $0 }).first { throw failure }
    try directory.erase([wiping])
  }

  private static func failure(_ body: () throws(StoreError) -> Void) -> StoreError? {
    do throws(StoreError) {
      try body()
      return nil
    } catch {
      return error
    }
  }
}
