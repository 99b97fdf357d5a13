import Crypto
import DBus
import Foundation
import Loop
import TestSupport
import Testing

@testable import Presence

/// `earshot-presenced` as a process on a private bus, with all its files in one folder.
@LoopActor
private final class PresenceProcess {
  let bus: PrivateBus
  let client: BusConnection
  let folder: ScratchFolder
  private var program: Program?

  init(_ settings: String = "") async throws {
    folder = try ScratchFolder()
    try folder.write(
      Array("[Presence]\nInterfaces=lo\n\(settings)\n[Store]\nDirectory=\(folder.path)/state\n".utf8), to: "conf")
    bus = try PrivateBus()
    client = BusConnection(address: .address(bus.address))
    client.connect()
    try await client.ready()
  }

  /// Starts the program, and waits until it owns its name on the bus.
  func start() async throws {
    let owned = Mailbox<String?>()
    let watch = client.watchName(PresenceAdaptor.busName) { owned.put($0) }
    defer { watch.cancel() }
    let log = open(folder.path("log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { Glibc.close(log) }
    program = try Program(
      [Self.path, "--bus", bus.address, "--config", folder.path("conf")], passing: [1: log, 2: log])
    _ = try await owned.first { $0 != nil }
  }

  func signal(_ signal: Int32) {
    if let program { kill(program.processID, signal) }
  }

  /// Asks the program to end, and returns its exit status.
  func stop() -> Int32? {
    signal(SIGTERM)
    defer { program = nil }
    return program?.wait()
  }

  func close() {
    program?.end()
    client.close()
    bus.stop()
  }

  @discardableResult
  func call(_ method: String, _ arguments: DBusValue..., from connection: BusConnection? = nil) async throws
    -> [DBusValue]
  {
    try await (connection ?? client).call(
      PresenceAdaptor.busName, PresenceAdaptor.path, PresenceAdaptor.interfaceName, method, arguments)
  }

  func property(_ name: String) async throws -> DBusValue {
    let values = try await client.call(
      PresenceAdaptor.busName, PresenceAdaptor.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(PresenceAdaptor.interfaceName), .string(name)])
    return values.first?.unwrapped ?? .string("")
  }

  /// Reads the known peers from the bus: the name of each, by the path of its object.
  func peers() async throws -> [String: String] {
    let values = try await client.call(
      PresenceAdaptor.busName, PresenceAdaptor.path, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    return (values.first?.asDictionary ?? [:]).compactMapValues {
      $0[PresenceAdaptor.peerInterfaceName]?.asDictionary?["Name"]?.asString
    }
  }

  /// The error name of a call that must fail.
  func error(_ method: String, _ arguments: DBusValue...) async -> String {
    do throws(DBusError) {
      _ = try await client.call(
        PresenceAdaptor.busName, PresenceAdaptor.path, PresenceAdaptor.interfaceName, method, arguments)
      return ""
    } catch {
      return error.name
    }
  }

  /// The program that was built with the tests.
  private static var path: String {
    let bundle = Swift.CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? ""
    return URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("earshot-presenced").path
  }
}

@Suite("earshot-presenced as a process on a private bus", .serialized)
struct PresenceProgramTests {
  init() { EventLoop.shared.runInBackground() }

  private static func key(_ number: UInt8) throws -> String {
    KeyText.text(try Secp256k1.PrivateKey(copying: [UInt8](repeating: number, count: 32)).publicKey)
  }

  private static let error = "org.earshot.Error."

  @Test("The presence key and peers survive a restart, and SIGTERM ends the program with status 0")
  @LoopActor
  func restart() async throws {
    let process = try await PresenceProcess()
    defer { process.close() }
    try await process.start()
    let key = try await process.property("PublicKey")
    let path = try #require(
      try await process.call("AddPeer", .string("ben"), .string(try Self.key(2))).first?.asObjectPath)
    #expect(try await process.peers() == [path.string: "ben"])
    #expect(process.stop() == 0)
    try await process.start()
    #expect(try await process.property("PublicKey") == key && key.asString?.count == 118)
    #expect(try await process.peers() == [path.string: "ben"])
    try await process.call("RemovePeer", .objectPath(path))
    #expect(try await process.peers() == [:])
    #expect(process.stop() == 0)
    let log = String(decoding: try process.folder.read("log"), as: UTF8.self)
    #expect(!log.contains("ben") && !log.contains(key.asString ?? "-") && !log.contains("127.0.0.1"))
  }

  @Test("Announcing makes this machine connectable, and Silence ends this")
  @LoopActor
  func announcing() async throws {
    let process = try await PresenceProcess()
    defer { process.close() }
    try await process.start()
    try await process.call("AddPeer", .string("ben"), .string(try Self.key(2)))
    #expect(try await process.property("Reachable") == .strings([]))
    try await process.call("Announce", .strings(["ben"]), .uint32(0))
    #expect(try await process.property("Reachable") == .strings(["network"]))
    #expect(try await process.property("Announcing") == .strings(["ben"]))
    try await process.call("Silence")
    #expect(try await process.property("Reachable") == .strings([]))
    #expect(try await process.property("MultiPeerConnectivity") == .string("unsupported"))
  }

  @Test("Bad arguments give InvalidArgs, an unknown peer NotFound, and a peer that is not nearby NotReady")
  @LoopActor
  func errors() async throws {
    let process = try await PresenceProcess()
    defer { process.close() }
    try await process.start()
    let peer = try await process.call("AddPeer", .string("ben"), .string(try Self.key(2))).first
    let path = try #require(peer?.asObjectPath)
    #expect(await process.error("AddPeer", .string("x"), .string("no key")) == Self.error + "InvalidArgs")
    #expect(await process.error("AddPeer", .string(""), .string(try Self.key(3))) == Self.error + "InvalidArgs")
    #expect(await process.error("Announce", .strings(["carl"]), .uint32(0)) == Self.error + "NotFound")
    #expect(await process.error("Announce", .strings([]), .uint32(0)) == Self.error + "InvalidArgs")
    #expect(await process.error("RemovePeer", .objectPath("/org/earshot/presence/peers/77")) == Self.error + "NotFound")
    #expect(await process.error("Open", .objectPath("/x"), .string("a")) == Self.error + "NotFound")
    #expect(await process.error("Open", .objectPath(path), .string("a b")) == Self.error + "InvalidArgs")
    #expect(await process.error("Open", .objectPath(path), .string("a")) == Self.error + "NotReady")
    #expect(await process.error("Register", .string("a"), .string("10.0.0.1:1")) == Self.error + "InvalidArgs")
  }

  @Test("Only one program at a time may register a service name, and it is free when the program's bus connection ends")
  @LoopActor
  func registration() async throws {
    let process = try await PresenceProcess()
    defer { process.close() }
    try await process.start()
    let other = BusConnection(address: .address(process.bus.address))
    other.connect()
    try await other.ready()
    try await process.call("Register", .string("files"), .string("/run/x"), from: other)
    #expect(try await process.property("Services") == .strings(["files"]))
    #expect(await process.error("Register", .string("files"), .string("/run/y")) == Self.error + "Busy")
    let changes = Mailbox<[String]>()
    let watch = process.client.subscribe(
      SignalMatch(sender: PresenceAdaptor.busName, path: PresenceAdaptor.path, member: "PropertiesChanged")
    ) { message in
      if message.arguments.count == 3, let names = message.arguments[1]["Services"]?.asStrings { changes.put(names) }
    }
    defer { watch.cancel() }
    try await process.call("Watch")
    other.close()
    #expect(try await changes.first { $0.isEmpty } == [])
    try await process.call("Register", .string("files"), .string("/run/y"))
  }

  @Test("With unreadable state the presence service is on the bus, gives the reason, and refuses requests")
  @LoopActor
  func damage() async throws {
    let process = try await PresenceProcess()
    defer { process.close() }
    try await process.start()
    try await process.call("AddPeer", .string("ben"), .string(try Self.key(2)))
    #expect(process.stop() == 0)
    try process.folder.remove("state/presence/presence.key")
    try await process.start()
    #expect(try await process.property("State") == .string("failed"))
    #expect(try await process.property("Reason").asString?.contains("Restore the key") == true)
    #expect(await process.error("AddPeer", .string("carl"), .string(try Self.key(3))) == Self.error + "NotReady")
    #expect(await process.error("Announce", .strings(["ben"]), .uint32(0)) == Self.error + "NotReady")
  }
}
