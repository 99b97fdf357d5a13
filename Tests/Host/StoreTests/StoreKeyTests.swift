import Crypto
import Glibc
import TestSupport
import Testing

@testable import Store

@Suite("Store keys and their folders")
struct StoreKeyTests {
  let disk = SimulatedDisk()
  let name = StoreKey.Name("other")

  init() { disk.placeDirectory("/state") }

  func load(_ name: StoreKey.Name, _ state: StateDirectory) throws(StoreError) -> StoreKey {
    try StoreKey.load(name, from: state, on: disk) { _ in nil }
  }

  @Test("Store keys of two names are in two files, and derive different keys from equal bytes")
  func names() throws {
    let state = try StateDirectory(path: "/state", on: disk)
    let first = try load(name, state)
    #expect(try load(name, state).id == first.id && first.origin == .made)
    #expect(try load(StoreKey.Name("third"), state).id != first.id)
    #expect(disk.names(in: "/state").sorted() == ["other.key", "third.key"])
    let secret = SecretBytes(copying: 0..<32)
    let one = try StoreKey(name, secret, .made)
    let two = try StoreKey(StoreKey.Name("third"), secret, .made)
    #expect(one.id != two.id)
    #expect(try !one.key(for: "rows", count: 32).equals(two.key(for: "rows", count: 32)))
    #expect(try !one.key(for: "rows", count: 32).equals(one.key(for: "files", count: 32)))
  }

  @Test(
    "A destroyed store key and its leftover files are overwritten, and a new key is made")
  func destroyed() throws {
    let state = try StateDirectory(path: "/state", on: disk)
    let first = try load(name, state)
    for ending in ["previous", "new"] { disk.place("/state/other.key.\(ending)", [1, 2, 3]) }
    disk.place("/state/third.key", [1])
    try StoreKey.destroy(name, in: state)
    #expect(disk.names(in: "/state") == ["third.key"])
    #expect(try load(name, state).id != first.id)
    #expect(throws: Never.self) { try StoreKey.destroy(StoreKey.Name("none"), in: state) }
  }

  @Test("A store key that cannot be overwritten is still deleted, and the error is reported")
  func refused() throws {
    let state = try StateDirectory(path: "/state", on: disk)
    _ = try load(name, state)
    disk.place("/state/other.key.previous", [1, 2, 3])
    disk.fail { $0.operation == .write ? ENOSPC : nil }
    #expect(caught(StoreError.self) { try StoreKey.destroy(name, in: state) }?.reason == .diskFull)
    #expect(disk.names(in: "/state") == [])
  }

  @Test("Folders of one state directory are locked independently of each other")
  func folders() throws {
    let outer = try StateDirectory(path: "/state", on: disk)
    let one = try StateDirectory(path: "/state", folder: "one", on: disk)
    let two = try StateDirectory(path: "/state", folder: "two", on: disk)
    #expect(caught(StoreError.self) { try StateDirectory(path: "/state", folder: "one", on: disk) }?.reason == .inUse)
    #expect(disk.names(in: "/state").sorted() == ["one", "two"])
    disk.change("/state/one") { $0.mode = 0o755 }
    withExtendedLifetime((outer, one, two)) {}
    let error = caught(StoreError.self) { try StateDirectory(path: "/state", folder: "one", on: disk) }
    #expect(error?.reason == .wrongMode)
  }
}
