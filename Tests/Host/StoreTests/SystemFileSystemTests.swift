import Crypto
import Foundation
import TestSupport
import Testing

@testable import Store

@Suite("The real file system")
final class SystemFileSystemTests {
  let path: String

  init() throws {
    let folder = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
    path = folder.appendingPathComponent("store-\(UUID().uuidString.prefix(8))").path
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }

  func mode(_ name: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: "\(path)/\(name)")[.posixPermissions] as? Int
  }

  @Test("A spool works on the real file system with files of mode 600")
  func spool() throws {
    let id: SpoolID
    do {
      let state = try StateDirectory(path: path)
      let spool = try RecordSpool(in: state, key: SpoolKey.load(from: state) { _ in nil })
      id = try spool.put(Fixture.record("kept"))
      try spool.remove(try spool.put(Fixture.record("removed")))
      #expect(caught(StoreError.self) { try StateDirectory(path: path) }?.reason == .inUse)
    }
    let state = try StateDirectory(path: nil) { [path] in $0 == "STATE_DIRECTORY" ? path : nil }
    let key = try SpoolKey.load(from: state) { _ in nil }
    #expect(key.origin == .stateDirectory)
    let contents: SpoolContents<SpoolRecord> = try RecordSpool(in: state, key: key).list()
    #expect(contents.byID == [id: Fixture.record("kept")])
    #expect(try FileManager.default.contentsOfDirectory(atPath: "\(path)/spool") == ["\(id).00.record"])
    #expect(try mode(".") == 0o700)
    #expect(try mode("spool") == 0o700)
    #expect(try mode("spool.key") == 0o600)
    #expect(try mode("spool/\(id).00.record") == 0o600)
  }

  @Test("A file of 3 MB is written, read and erased completely on the real file system")
  func large() throws {
    let directory = try StateDirectory(path: path).directory
    let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7 >> 3) }
    try directory.replace("large", with: bytes, temporary: "large.new")
    #expect(try directory.contents(of: "large", limit: bytes.count) == bytes)
    #expect(
      caught(StoreError.self) { try directory.contents(of: "large", limit: bytes.count - 1) }?.reason == .tooLarge)
    // A hard link shows the remaining content of the file.
    try FileManager.default.linkItem(atPath: "\(path)/large", toPath: "\(path)/shadow")
    try directory.erase("large")
    #expect(try directory.names() == ["shadow"])
    let left = try directory.open("shadow").read(atMost: .max)
    #expect(left.count == bytes.count && left.allSatisfy { $0 == 0 })
  }

  @Test("Symbolic links, pipes and directories are refused as files, without waiting for a pipe's writer")
  func kinds() throws {
    let directory = try StateDirectory(path: path).directory
    try Data([1]).write(to: URL(fileURLWithPath: "\(path)/file"))
    try FileManager.default.createSymbolicLink(atPath: "\(path)/link", withDestinationPath: "file")
    #expect(mkfifo("\(path)/pipe", 0o600) == 0)
    try directory.makeDirectory("inner")
    try FileManager.default.createSymbolicLink(atPath: "\(path)/way", withDestinationPath: "inner")
    #expect(try directory.open("file").read(atMost: 10) == [1])
    for name in ["link", "inner", "pipe"] {
      #expect(caught(StoreError.self) { try directory.open(name) }?.reason == .wrongKind)
    }
    #expect(caught(StoreError.self) { try directory.openForOverwriting("link") }?.reason == .wrongKind)
    #expect(caught(StoreError.self) { try directory.openDirectory("link") }?.reason == .wrongKind)
    // A symbolic link to a directory is refused, too: its target may belong to another user.
    #expect(caught(StoreError.self) { try directory.openDirectory("way") }?.reason == .wrongKind)
    #expect(try directory.openDirectory("inner").names() == [])
    #expect(caught(StoreError.self) { try directory.create("file") }?.reason == .exists)
    #expect(try directory.status(of: "link")?.kind == .other)
    #expect(try directory.status(of: "none") == nil)
    #expect(caught(StoreError.self) { try directory.open("none") }?.reason == .missing)
    #expect(caught(StoreError.self) { try directory.unlink("inner") }?.reason == .wrongKind)
  }

  @Test(
    "Syncing a file or directory throws if the system call fails")
  func synced() throws {
    // /proc has regular files and directories, and refuses to synchronize either.
    let directory = try SystemFileSystem().openDirectory("/proc/self")
    let file = try directory.open("status")
    #expect(try file.status().kind == .file)
    let errors = [
      caughtError { () throws(StoreError) in try file.sync() },
      caughtError { () throws(StoreError) in try directory.sync() },
    ]
    #expect(errors.map { $0?.sentence.contains("cannot be synchronized") } == [true, true])
  }

  @Test("A record file is synced before it is renamed, and its folder after each change")
  func syncCalls() throws {
    let state = try StateDirectory(path: path)
    let spool = try RecordSpool(in: state, key: SpoolKey.load(from: state) { _ in nil })
    let folder = "\(path)/spool"
    var made: SpoolID?
    let put = try SyncCalls.during { made = try spool.put(Fixture.record("kept")) }
    let id = try #require(made)
    #expect(put == ["\(folder)/\(SpoolFileName.new(id).text)", folder])
    let marked = try SyncCalls.during { try spool.mark(id, as: 1) }
    #expect(marked == [folder])
    let redated = try SyncCalls.during { try spool.redate(id, received: 5) }
    #expect(redated.prefix(2) == ["\(folder)/\(SpoolFileName.new(id).text)", folder])
    let erased = SpoolFileName.record(id, mark: 1).whileErased.text
    let removed = try SyncCalls.during { try spool.remove(id) }
    #expect(removed == [folder, "\(folder)/\(erased)", folder])
    let note = try SyncCalls.during { try spool.write(note: [1]) }
    #expect(note == ["\(path)/\(RecordSpool.noteName).new", path])
  }

  @Test("The state directory may be a symbolic link to a directory of mode 700, not to one of a wider mode")
  func state() throws {
    try FileManager.default.createDirectory(
      atPath: "\(path)/real", withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    try FileManager.default.createSymbolicLink(atPath: "\(path)/link", withDestinationPath: "real")
    _ = try StateDirectory(path: "\(path)/link")
    #expect(chmod("\(path)/real", 0o750) == 0)
    let error = caught(StoreError.self) { try StateDirectory(path: "\(path)/link") }
    #expect(error?.sentence.contains("chmod 700 \(path)/link,") == true)
  }

  @Test("Each errno value has a reason and a printable sentence")
  func errors() {
    let expected: [Int32: StoreError.Reason] = [
      ENOSPC: .diskFull, EDQUOT: .diskFull, EROFS: .readOnly, EACCES: .notPermitted, EPERM: .notPermitted,
      ENOENT: .missing, EEXIST: .exists, EWOULDBLOCK: .inUse, ELOOP: .wrongKind, EIO: .diskFailed, EFBIG: .tooLarge,
      EMFILE: .failed,
    ]
    for (number, reason) in expected {
      let error = StoreError(errno: number, "written", "/state\u{1B}[2J/file")
      #expect(error.reason == reason)
      #expect(error.code == reason.rawValue)
      #expect(!error.sentence.contains("\u{1B}"))
      #expect(error.sentence.hasSuffix("."))
    }
  }
}
