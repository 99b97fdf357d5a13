import Bitchat
import Bytes
import Crypto
import Database
import Glibc
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("The mesh store's database and files")
struct MeshFilesTests {
  let folder: ScratchFolder

  init() throws { folder = try ScratchFolder() }

  func files(
    on system: any FileSystem = SystemFileSystem(), _ environment: [String: String] = [:]
  ) -> MeshFiles { MeshFiles(path: folder.path, on: system, environment: { environment[$0] }) }

  /// Opens and reads the files as a start of the service does.
  func load(_ files: any MeshDisk, archive: Duration = .seconds(6 * 3600)) throws -> MeshLoading {
    var random = SystemRandom()
    return try MeshLoading(
      from: files, settings: NodeStore.Settings(archive: archive), at: Sample.time, random: &random)
  }

  /// Opens files with one change of each kind and an identity.
  @discardableResult
  func fill(_ files: any MeshDisk) throws -> MeshEngine.Identity {
    var loading = try load(files)
    var writes = loading.writes
    for change in try Sample.changes() { writes.add(try loading.ledger.apply(change, at: Sample.time)) }
    try files.commit(writes)
    return loading.kept.identity
  }

  /// The rows of the database, still sealed.
  func rows() throws -> [SealedRow] {
    let file = try SQLiteFile(path: folder.path("mesh/mesh.db"))
    var rows: [SealedRow] = []
    try file.query("SELECT id, time, sealed FROM record ORDER BY id") { row in
      rows.append(
        SealedRow(id: row.integer(0) ?? 0, time: UInt64(bitPattern: row.integer(1) ?? 0), sealed: row.blob(2) ?? []))
    }
    return rows
  }

  func change(_ body: (SQLiteFile) throws -> Void) throws { try body(SQLiteFile(path: folder.path("mesh/mesh.db"))) }

  // MARK: Keeping

  @Test("All mesh records and the node's identity are restored after a restart")
  func restart() throws {
    let identity = try fill(files())
    let found = try load(files()).kept
    #expect(found.identity.id == identity.id && !found.isNew)
    #expect(found.identity.signingKey.publicKey == identity.signingKey.publicKey)
    var expected = StoredNode(identity: identity)
    expected.nickname = Sample.secretName
    expected.pins = [(Sample.peer(1), try Sample.key(1), false), (Sample.peer(2), try Sample.key(2), false)]
    expected.peers = [try Sample.marks(1), try Sample.marks(2, isFavourite: true)]
    expected.outgoing = [try Sample.outgoing(7, tries: 3)]
    expected.gossip = try [Sample.gossip(), Sample.gossip("a fragment", type: .fragment)]
      .sorted { $0.id.description < $1.id.description }
    expected.messages = [try Sample.privateMessage(8), try Sample.publicMessage(9)]
    expected.carried = [try Sample.carried(1)]
    expected.highestNumber = 9
    #expect(found.content == expected.content)
    #expect(found.lost == 0 && found.warning == nil && found.keyOrigin == .stateDirectory)
  }

  @Test("Pinned keys are restored in the order in which their peers were last met")
  func pins() throws {
    let files = files()
    var ledger = try load(files).ledger
    for (number, time) in [(1, 5), (2, 3), (3, 4), (2, 9)] as [(UInt64, UInt64)] {
      try files.commit(try ledger.apply(.pin(Sample.peer(number), Sample.key(number)), at: time))
    }
    let pins = try load(files).kept.pins
    let met: [UInt64] = [3, 1, 2]
    let (peers, keys) = (met.map { Sample.peer($0) }, try met.map { try Sample.key($0) })
    #expect(pins.map { $0.peer } == peers && pins.map { $0.key } == keys)
  }

  @Test("Committed mesh records survive SIGKILL of the process")
  func killed() throws {
    let files = files()
    try fill(files)
    // Copies the files while the database is open, as a killed process leaves them.
    let other = try MeshFilesTests()
    try folder.copy("mesh", to: other.folder)
    #expect(try other.load(other.files()).kept.messages.map(\.number) == [8, 9])
    withExtendedLifetime(files) {}
  }

  @Test("No file of the mesh store contains a name, text, key or peer ID in plain text")
  func sealed() throws {
    var files: MeshFiles? = files()
    let identity = try fill(try #require(files))
    var secrets: [[UInt8]] = [
      Array(Sample.secretName.utf8), Array(Sample.secretText.utf8), Array("lighthouse".utf8), Array("private-8".utf8),
      Sample.peer(1).bytes, Sample.peer(2).bytes, try Sample.key(1).bytes, try Sample.gossip().id.bytes,
      identity.id.bytes,
      identity.noiseKey.publicKey.bytes, identity.signingKey.publicKey.bytes,
      try #require(Sample.marks(1).noiseKey).bytes,
    ]
    identity.noiseKey.secret.withUnsafeBytes { secrets.append(Array($0)) }
    identity.signingKey.seed.withUnsafeBytes { secrets.append(Array($0)) }
    for round in ["open", "closed"] {
      let found = try folder.files()
      #expect(found.keys.contains("mesh/mesh.db-wal") == (round == "open"))
      for (name, bytes) in found {
        for (number, secret) in secrets.enumerated() where contains(bytes, secret) {
          Issue.record("secret \(number) is in \(name), \(round)")
        }
      }
      if round == "open" { files = nil }
    }
  }

  @Test("Equal contents in the mesh store are sealed with different nonces")
  func nonces() throws {
    do {
      let files = files()
      var ledger = try load(files).ledger
      for number in 1...3 as ClosedRange<UInt32> {
        try files.commit(try ledger.apply(.message(Sample.privateMessage(number)), at: Sample.time))
        try files.commit(try ledger.apply(.message(Sample.privateMessage(number)), at: Sample.time))
      }
    }
    let nonces = try rows().map { Array($0.sealed.prefix(XChaChaPoly.nonceSize)) }
    #expect(nonces.count == 5 && Set(nonces).count == 5)
  }

  @Test("The mesh store has modes 700 and 600, and refuses a second process")
  func modes() throws {
    var files: MeshFiles? = files()
    try fill(try #require(files))
    #expect(try folder.mode("mesh") == 0o700)
    for name in ["mesh.key", "mesh.db", "mesh.db-wal"] { #expect(try folder.mode("mesh/\(name)") == 0o600) }
    #expect(caught(StoreError.self) { try self.files().open() }?.reason == .inUse)
    // The parent folder is not locked: another store may lock it.
    #expect(throws: Never.self) { try StateDirectory(path: folder.path) }
    files = nil
    #expect(chmod(folder.path("mesh/mesh.db"), 0o644) == 0)
    #expect(caught(StoreError.self) { try self.files().open() }?.reason == .wrongMode)
  }

  @Test("If the archive is disabled, stored public messages are removed and other records stay")
  func noArchive() throws {
    try fill(files())
    let files = files()
    let loading = try load(files, archive: .zero)
    #expect(loading.kept.messages.map(\.number) == [8] && loading.kept.gossip == [])
    #expect(loading.kept.highestNumber == 9 && loading.kept.lost == 0)
    try files.commit(loading.writes)
    #expect(try load(files).kept.messages.map(\.number) == [8])
  }

  @Test("A commit on a full disk stores nothing, and repeating it stores everything")
  func full() throws {
    let files = files()
    try fill(files)
    var loading = try load(files)
    try files.limit(pages: 5)
    var writes = MeshWrites()
    for number in 20..<40 as Range<UInt32> {
      let text = String(repeating: "x", count: 2000)
      writes.add(try loading.ledger.apply(.message(Sample.privateMessage(number, text: text)), at: Sample.time))
    }
    #expect(caught(StoreError.self) { try files.commit(writes) }?.reason == .diskFull)
    #expect(try load(files).kept.messages.map(\.number) == [8, 9])
    try files.commit(writes)
    #expect(try load(files).kept.messages.map(\.number) == [8, 9] + Array(20..<40))
  }

  // MARK: Damage

  @Test("A garbled or displaced row of the mesh store is counted and removed, and other rows stay")
  func garbled() throws {
    try fill(files())
    let rows = try rows()
    let (one, two, three) = (rows[2], rows[3], rows[4])
    try change { file in
      let update = "UPDATE record SET sealed = ? WHERE id = ?"
      try file.run(update, [.blob(two.sealed), .integer(one.id)])
      try file.run(update, [.blob(one.sealed), .integer(two.id)])
      var bytes = three.sealed
      bytes[30] ^= 1
      try file.run(update, [.blob(bytes), .integer(three.id)])
      try file.run("UPDATE record SET time = time + 1 WHERE id = ?", [.integer(rows[5].id)])
      try file.run("INSERT INTO record VALUES (?, 0, ?)", [.integer(.max), .blob(rows[6].sealed)])
      try file.run("INSERT INTO record VALUES (-5, 0, x'')")
    }
    let files = files()
    let loading = try load(files)
    #expect(loading.kept.lost == 6 && loading.kept.warning == nil)
    #expect(loading.kept.messages.map(\.number) == [8, 9] && !loading.kept.isNew)
    try files.commit(loading.writes)
    #expect(try load(files).kept.lost == 0)
  }

  @Test("A mesh record of another release is skipped, and other records are read")
  func otherVersion() throws {
    let files = files()
    var loading = try load(files)
    var writes = try loading.ledger.apply(.message(Sample.privateMessage(1)), at: Sample.time)
    writes.rows[77] = MeshRow(id: 77, time: 5, content: [9, 1, 2])
    try files.commit(writes)
    let again = try load(files)
    #expect(again.kept.lost == 1 && again.kept.messages.count == 1)
  }

  @Test("With a different key the mesh store opens and changes nothing; with its key all records are read")
  func otherKey() throws {
    let credentials = try ScratchFolder()
    try credentials.write((0..<32).map { UInt8($0) }, to: "earshot-mesh")
    let environment = ["CREDENTIALS_DIRECTORY": credentials.path]
    let identity = try fill(files(on: SystemFileSystem(), environment))
    try credentials.write([UInt8](repeating: 9, count: 32), to: "earshot-mesh")
    let rows = try rows()
    for _ in 0..<2 {
      let error = caught(StoreError.self) { try files(on: SystemFileSystem(), environment).open() }
      #expect(error?.reason == .keyMissing && error?.sentence.contains("earshot mesh wipe") == true)
    }
    #expect(try self.rows() == rows && !folder.exists("mesh/mesh.db.damaged"))
    try credentials.write((0..<32).map { UInt8($0) }, to: "earshot-mesh")
    #expect(try load(files(on: SystemFileSystem(), environment)).kept.identity.id == identity.id)
  }

  @Test("A mesh database whose key is missing is refused, and no new key is made")
  func noKey() throws {
    let credentials = try ScratchFolder()
    try credentials.write((0..<32).map { UInt8($0) }, to: "earshot-mesh")
    let environment = ["CREDENTIALS_DIRECTORY": credentials.path]
    let identity = try fill(files(on: SystemFileSystem(), environment))
    let before = try folder.files()
    // The unit has other credentials, or none.
    try credentials.remove("earshot-mesh")
    for environment in [environment, [:]] {
      let error = caught(StoreError.self) { try files(on: SystemFileSystem(), environment).open() }
      #expect(error?.reason == .keyMissing && error?.sentence.contains("earshot-mesh") == true)
      #expect(try folder.files() == before)
    }
    try credentials.write((0..<32).map { UInt8($0) }, to: "earshot-mesh")
    #expect(try load(files(on: SystemFileSystem(), environment)).kept.identity.id == identity.id)
  }

  @Test("A mesh database whose key is missing can be wiped, and the node gets a new identity")
  func wipedWithoutKey() throws {
    let identity = try fill(files())
    try folder.link("mesh/mesh.db", as: "shadow")
    try folder.remove("mesh/mesh.key")
    let files = files()
    #expect(caught(StoreError.self) { try files.open() }?.reason == .keyMissing)
    let isKeyDestroyed = try files.wipe()
    #expect(isKeyDestroyed)
    let found = try load(files).kept
    #expect(found.isNew && found.identity.id != identity.id && found.warning == nil)
    #expect(try folder.read("shadow").allSatisfy { $0 == 0 })
  }

  @Test("If the mesh store's key is damaged, the store is refused and nothing is removed")
  func damagedKey() throws {
    try fill(files())
    var bytes = try folder.read("mesh/mesh.key")
    bytes[50] ^= 1
    try folder.write(bytes, to: "mesh/mesh.key")
    let before = try folder.read("mesh/mesh.db")
    #expect(caught(StoreError.self) { try files().open() }?.reason == .damaged)
    #expect(try folder.read("mesh/mesh.db") == before)
  }

  @Test("A mesh store file that is not a database is set aside, and the node starts with an empty store")
  func noDatabase() throws {
    try fill(files())
    try folder.write([UInt8](repeating: 7, count: 20_000), to: "mesh/mesh.db")
    let found = try load(files()).kept
    #expect(found.isNew && found.warning?.contains("damaged") == true)
    #expect(try folder.read("mesh/mesh.db.damaged").count == 20_000)
    #expect(try !load(files()).kept.isNew)
  }

  @Test("From a damaged mesh database the readable rows before and after the damage are preserved")
  func salvage() throws {
    let identity = try fill(files())
    do {
      let files = files()
      var loading = try load(files)
      for number in 100..<400 as Range<UInt32> {
        try files.commit(try loading.ledger.apply(.message(Sample.privateMessage(number)), at: Sample.time))
      }
    }
    var bytes = try folder.read("mesh/mesh.db")
    #expect(bytes.count > 60_000)
    for place in 40_960..<45_056 { bytes[place] = 0xA5 }
    try folder.write(bytes, to: "mesh/mesh.db")
    let found = try load(files()).kept
    #expect(found.identity.id == identity.id && !found.isNew && found.warning?.contains("damaged") == true)
    #expect(found.messages.count > 200 && found.messages.count < 302)
    #expect(found.messages.contains { $0.number == 399 } && found.messages.contains { $0.number == 100 })
    let again = try load(files()).kept
    #expect(again.content == found.content && again.warning == nil)
  }

  @Test("An interrupted repair of a damaged mesh database is completed at the next start")
  func salvageInterrupted() throws {
    var number = 0
    var isThrough = false
    while !isThrough {
      number += 1
      let stand = try MeshFilesTests()
      let identity = try stand.fill(stand.files())
      // The sealed rows stay readable: only the list of free pages in the first page is damaged.
      let rows = try stand.rows()
      let system = StoppingFileSystem()
      do {
        let state = try StateDirectory(path: stand.folder.path, folder: "mesh", on: system)
        system.stop(at: number)
        isThrough = (try? MeshDatabase.replace(in: state, with: rows)) != nil
      }
      let found = try stand.load(stand.files()).kept
      #expect(found.identity.id == identity.id && found.messages.map(\.number) == [8, 9], "stopped at \(number)")
    }
    #expect(number > 5)
  }

  @Test("A mesh database of a later release is refused and not changed")
  func later() throws {
    try fill(files())
    try change { try $0.run("PRAGMA user_version = 2") }
    let before = try folder.read("mesh/mesh.db")
    #expect(caught(StoreError.self) { try files().open() }?.reason == .tooNew)
    #expect(try folder.read("mesh/mesh.db") == before)
  }
}
