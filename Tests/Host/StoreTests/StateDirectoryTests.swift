import TestSupport
import Testing

@testable import Store

@Suite("The state directory")
struct StateDirectoryTests {
  let disk = SimulatedDisk()

  func open(_ path: String? = nil, _ environment: [String: String] = [:]) throws(StoreError) -> StateDirectory {
    try StateDirectory(path: path, on: disk) { environment[$0] }
  }

  @Test("The state directory is the configured one, or systemd's first, and having neither is an error")
  func choice() throws {
    disk.placeDirectory("/given")
    disk.placeDirectory("/first")
    disk.placeDirectory("/second")
    let environment = ["STATE_DIRECTORY": "/first:/second"]
    #expect(try open("/given", environment).directory.path == "/given")
    #expect(try open(nil, environment).directory.path == "/first")
    let error = caught(StoreError.self) { try open() }
    #expect(error?.reason == .missing)
    #expect(error?.sentence.contains("systemd") == true)
  }

  @Test("The last component of the state directory is created with mode 700, and missing parents are not created")
  func making() throws {
    _ = try open("/state")
    #expect(try disk.openDirectory("/state").status().mode == 0o700)
    #expect(caught(StoreError.self) { try open("/no/state") }?.reason == .missing)
  }

  @Test(
    "A state directory that other users can access is refused, with the command that restricts it",
    arguments: [0o755, 0o750, 0o701, 0o710, 0o722])
  func wideMode(mode: UInt32) throws {
    disk.placeDirectory("/state", mode: mode)
    let error = caught(StoreError.self) { try open("/state") }
    #expect(error?.reason == .wrongMode)
    #expect(error?.sentence.contains("chmod 700 /state,") == true)
  }

  @Test("A state directory that other users cannot access is accepted", arguments: [0o700, 0o500, 0o1700])
  func narrowMode(mode: UInt32) throws {
    disk.placeDirectory("/state", mode: mode)
    _ = try open("/state")
  }

  @Test("A state directory of another user is refused, with the command that changes its owner")
  func owner() throws {
    disk.placeDirectory("/state")
    disk.change("/state") { $0.owner = 1000 }
    let error = caught(StoreError.self) { try open("/state") }
    #expect(error?.reason == .wrongOwner)
    #expect(error?.sentence.contains("chown -R 990 /state") == true)
  }

  @Test("A second process cannot use the state directory until the first has ended")
  func lock() throws {
    disk.placeDirectory("/state")
    var first: StateDirectory? = try open("/state")
    #expect(first != nil)
    #expect(caught(StoreError.self) { try open("/state") }?.reason == .inUse)
    first = nil
    _ = try open("/state")
  }

  @Test("A subdirectory is created with mode 700, and refused if other users can access it")
  func inner() throws {
    disk.placeDirectory("/state")
    let state = try open("/state")
    #expect(try state.open("inner").status().mode == 0o700)
    disk.change("/state/inner") { $0.mode = 0o755 }
    #expect(caught(StoreError.self) { try state.open("inner") }?.sentence.contains("chmod 700 /state/inner") == true)
  }
}
