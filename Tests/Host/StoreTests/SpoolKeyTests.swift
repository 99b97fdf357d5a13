import Crypto
import TestSupport
import Testing

@testable import Store

@Suite("The spool key")
struct SpoolKeyTests {
  let fixture: Fixture
  let credentials = ["CREDENTIALS_DIRECTORY": "/credentials"]
  let id = SpoolID("000102030405060708090a0b0c0d0e0f")

  init() throws {
    fixture = try Fixture()
    fixture.disk.placeDirectory("/credentials", mode: 0o550)
  }

  func load(_ environment: [String: String] = [:]) throws(StoreError) -> SpoolKey {
    try SpoolKey.load(from: fixture.state(), on: fixture.disk) { environment[$0] }
  }

  func isSame(_ left: SpoolKey, _ right: SpoolKey) throws -> Bool {
    let id = try #require(id)
    return try left.key(for: id).equals(right.key(for: id)) && left.id == right.id
  }

  @Test("A spool key from systemd's credentials has precedence and may have any mode, and no file is written")
  func systemCredential() throws {
    fixture.disk.place("/credentials/earshot-spool", (0..<32).map { UInt8($0) }, mode: 0o440)
    let key = try load(credentials)
    #expect(key.origin == .systemCredential)
    #expect(try isSame(key, fixture.key))
    #expect(fixture.disk.names(in: "/state") == [])
  }

  @Test(
    "A systemd credential of wrong size is refused, with the command that makes a valid key",
    arguments: [0, 31, 33, 64, 4096])
  func wrongSize(count: Int) throws {
    fixture.disk.place("/credentials/earshot-spool", [UInt8](repeating: 1, count: count))
    let error = caught(StoreError.self) { try load(credentials) }
    #expect(error?.reason == .damaged)
    #expect(error?.sentence.contains("systemd-creds encrypt --name=earshot-spool") == true)
  }

  @Test("Without a systemd credential a spool key is generated with mode 600, and found at the next start")
  func made() throws {
    let first = try load(credentials)
    let second = try load()
    #expect(first.origin == .made)
    #expect(second.origin == .stateDirectory)
    #expect(first.isMissingFromCredentials && !second.isMissingFromCredentials)
    #expect(try isSame(first, second))
    #expect(try fixture.disk.openDirectory("/state").status(of: "spool.key")?.mode == 0o600)
    let other = try Fixture()
    #expect(try !isSame(first, SpoolKey.load(from: other.state(), on: other.disk) { _ in nil }))
  }

  @Test(
    "A spool key file that other users can read is refused, with the command that restricts it",
    arguments: [0o644, 0o640, 0o604, 0o620])
  func wideMode(mode: UInt32) throws {
    _ = try load()
    fixture.disk.change("/state/spool.key") { $0.mode = mode }
    let error = caught(StoreError.self) { try load() }
    #expect(error?.reason == .wrongMode)
    #expect(error?.sentence.contains("chmod 600 /state/spool.key,") == true)
  }

  @Test("A spool key file of another user is refused")
  func owner() throws {
    _ = try load()
    fixture.disk.change("/state/spool.key") { $0.owner = 0 }
    #expect(caught(StoreError.self) { try load() }?.reason == .wrongOwner)
  }

  @Test("A damaged spool key file is refused and not replaced")
  func damaged() throws {
    _ = try load()
    fixture.disk.change("/state/spool.key") { $0.bytes[50] ^= 1 }
    let before = fixture.disk.content("/state/spool.key")
    let error = caught(StoreError.self) { try load() }
    #expect(error?.reason == .damaged)
    #expect(error?.sentence.contains("backup") == true)
    #expect(fixture.disk.content("/state/spool.key") == before)
  }

  @Test("A spool key that was used before a power loss still exists after it", arguments: SimulatedDisk.Loss.all)
  func powerLoss(loss: SimulatedDisk.Loss) throws {
    let number = try Fixture.losingPower { fixture, number in
      fixture.disk.losePower(at: number)
      let before = try? SpoolKey.load(from: fixture.state(), on: fixture.disk) { _ in nil }
      fixture.disk.restart(loss)
      let after = try SpoolKey.load(from: fixture.state(), on: fixture.disk) { _ in nil }
      if let before { #expect(try isSame(before, after)) }
      return before != nil
    }
    #expect(number > 10)
  }

  @Test("Record keys differ for each record and each spool key, and no key is printed")
  func derived() throws {
    let key = fixture.key
    let one = try #require(id)
    let two = try #require(SpoolID("000102030405060708090a0b0c0d0e10"))
    #expect(try !key.key(for: one).equals(key.key(for: two)))
    let other = try SpoolKey(SecretBytes(copying: [UInt8](repeating: 1, count: 32)), .made)
    #expect(try !key.key(for: one).equals(other.key(for: one)))
    #expect(key.id != other.id)
    var dumped = ""
    dump(key, to: &dumped)
    #expect("\(key)" == "<secret>")
    #expect(dumped.contains("<secret>"))
    #expect(!dumped.contains("- 31\n"))
  }
}
