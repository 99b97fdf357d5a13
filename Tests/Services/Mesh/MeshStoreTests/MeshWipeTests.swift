import Bitchat
import Bytes
import Crypto
import Database
import Glibc
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("Wiping the mesh store")
struct MeshWipeTests {
  let stand: MeshFilesTests
  var folder: ScratchFolder { stand.folder }

  init() throws { stand = try MeshFilesTests() }

  /// Hard links to all files, which show how their content was overwritten.
  func shadow(_ names: [String]) throws -> ScratchFolder {
    let shadow = try ScratchFolder()
    for name in names { #expect(Glibc.link(folder.path("mesh/\(name)"), shadow.path(name)) == 0) }
    return shadow
  }

  @Test("A wipe overwrites every byte of every mesh store file, and the next identity is new")
  func wipe() throws {
    let files = stand.files()
    let identity = try stand.fill(files)
    try folder.write(Array("an older database".utf8), to: "mesh/mesh.db.damaged")
    let old = try folder.files().filter { !$0.value.isEmpty }
    let shadow = try shadow(["mesh.key", "mesh.db", "mesh.db-wal", "mesh.db.damaged"])
    let isKeyDestroyed = try files.wipe()
    #expect(isKeyDestroyed)
    #expect(try folder.files().isEmpty)
    let remains = try shadow.files()
    #expect(remains.count == 4)
    for (name, bytes) in remains { #expect(!bytes.isEmpty && bytes.allSatisfy { $0 == 0 }, "\(name)") }

    let new = try stand.load(files).kept
    #expect(new.isNew && new.identity.id != identity.id && new.messages == [] && new.pins.isEmpty)
    #expect(new.nickname == nil && new.highestNumber == 0 && new.warning == nil)
    // No 16 bytes of an old file occur in a new one, except the header that every database begins with.
    let key = try #require(old["mesh/mesh.key"]).suffix(32)
    for (_, bytes) in try folder.files() { #expect(!contains(bytes, Array(key))) }
  }

  @Test("After a wipe that is interrupted at any point nothing is readable, and the next start completes it")
  func interrupted() throws {
    var number = 0
    var isThrough = false
    while !isThrough {
      number += 1
      let stand = try MeshFilesTests()
      let system = StoppingFileSystem()
      let identity: MeshEngine.Identity
      let key: [UInt8]
      do {
        let files = stand.files(on: system)
        identity = try stand.fill(files)
        key = Array(try stand.folder.read("mesh/mesh.key").suffix(32))
        system.stop(at: number)
        isThrough = (try? files.wipe()) != nil
      }
      // Before the first step the wipe has not begun.
      guard stand.folder.exists("mesh/mesh.wiping") || isThrough || number > 1 else { continue }
      let found = try stand.load(stand.files()).kept
      #expect(found.isNew && found.identity.id != identity.id && found.messages == [], "stopped at \(number)")
      let names = try stand.folder.files().keys.sorted()
      #expect(names == ["mesh/mesh.db", "mesh/mesh.key"], "stopped at \(number)")
      for (name, bytes) in try stand.folder.files() { #expect(!contains(bytes, key), "\(name)") }
    }
    #expect(number > 10)
  }

  @Test("A wipe destroys the key before it changes any database file")
  func order() throws {
    var number = 0
    var isThrough = false
    while !isThrough {
      number += 1
      let stand = try MeshFilesTests()
      let system = StoppingFileSystem()
      let files = stand.files(on: system)
      try stand.fill(files)
      let key = Array(try stand.folder.read("mesh/mesh.key").suffix(32))
      let path = stand.folder.path
      var syncs: [String] = []
      system.stop(at: number)
      syncs = SyncCalls.during { isThrough = (try? files.wipe()) != nil }
      let touched = syncs.firstIndex { $0.hasPrefix("\(path)/mesh/mesh.db") }
      let destroyed = syncs.firstIndex { $0 == "\(path)/mesh/mesh.key" }
      guard let touched else { continue }
      let keyIndex = try #require(destroyed)
      #expect(keyIndex < touched, "stopped at \(number)")
      #expect(syncs[keyIndex..<touched].contains("\(path)/mesh"), "the folder is synced between")
      #expect(!stand.folder.exists("mesh/mesh.key"))
      for (_, bytes) in try stand.folder.files() { #expect(!contains(bytes, key)) }
    }
    #expect(number > 10)
  }

  @Test("A wipe of a store whose key is from systemd destroys the database, and reports that the key remains")
  func credential() throws {
    let credentials = try ScratchFolder()
    try credentials.write((0..<32).map { UInt8($0) }, to: "earshot-mesh")
    let files = stand.files(on: SystemFileSystem(), ["CREDENTIALS_DIRECTORY": credentials.path])
    let identity = try stand.fill(files)
    let shadow = try shadow(["mesh.db", "mesh.db-wal"])
    let isKeyDestroyed = try files.wipe()
    #expect(!isKeyDestroyed)
    for (name, bytes) in try shadow.files() { #expect(bytes.allSatisfy { $0 == 0 }, "\(name)") }
    #expect(try stand.load(files).kept.identity.id != identity.id)
    #expect(credentials.exists("earshot-mesh"))
  }

  @Test("A mesh store file that a wipe cannot remove is reported, and removed by the next wipe")
  func refused() throws {
    let files = stand.files()
    try stand.fill(files)
    // A folder at the file's path: even the administrator's process cannot overwrite or unlink it.
    #expect(mkdir(folder.path("mesh/mesh.db.damaged"), 0o700) == 0)
    #expect(caught(StoreError.self) { try files.wipe() } != nil)
    #expect(!folder.exists("mesh/mesh.key") && !folder.exists("mesh/mesh.db") && folder.exists("mesh/mesh.wiping"))
    #expect(caught(StoreError.self) { try files.open() } != nil)
    #expect(rmdir(folder.path("mesh/mesh.db.damaged")) == 0)
    #expect(try stand.load(files).kept.isNew)
    #expect(!folder.exists("mesh/mesh.wiping"))
  }
}
