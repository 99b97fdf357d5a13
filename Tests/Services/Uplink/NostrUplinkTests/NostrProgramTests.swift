import Crypto
import DBus
import Foundation
import Loop
import Nostr
import TestSupport
import Testing

@testable import NostrUplink

/// `earshot-nostrd` as a process on a private bus, where the test has the part of `earshotd`. No proxy listens.
@LoopActor
private final class NostrProcess {
  let bus: PrivateBus
  let folder: ScratchFolder
  /// The connection of `earshotd`.
  let node: BusConnection
  /// The keys with which the program has attached, in Bech32.
  let keys = Mailbox<String>()
  private var object: ExportedObject?
  private var program: Program?

  init() async throws {
    folder = try ScratchFolder()
    // Port 1 needs privileges, and no proxy uses it.
    try folder.write(
      Array("[Uplink]\nProxy=127.0.0.1:1\n[Store]\nDirectory=\(folder.path)/state\n".utf8), to: "conf")
    bus = try PrivateBus()
    node = BusConnection(address: .address(bus.address))
    object = node.objects.export(BusMesh.meshPath, interfaces: [interface])
    node.connect(name: "org.earshot")
    try await node.ready()
  }

  private var interface: Interface {
    Interface(
      BusMesh.meshInterface, documentation: "The node.", audience: .everybody,
      methods: [
        Method(
          "Attach", in: [Argument("key", "s")], out: [Argument("peer", "s")], documentation: "Begins.",
          handler: { [weak self] call in
            call.reply(.string("0102030405060708"))
            self?.keys.put(call.arguments.first?.asString ?? "")
          })
      ])
  }

  /// Starts the program, and waits until it has attached.
  ///
  /// - Returns: its key in Bech32.
  @discardableResult
  func start() async throws -> String {
    keys.forget()
    try run()
    return try await keys.next()
  }

  /// Starts the program.
  func run() throws {
    let log = open(folder.path("log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { Glibc.close(log) }
    program = try Program(
      [Self.path, "--bus", bus.address, "--config", folder.path("conf")], passing: [1: log, 2: log])
  }

  /// Ends the program, and returns its exit status.
  @discardableResult
  func end(_ signal: Int32 = SIGTERM) -> Int32? {
    if let program { kill(program.processID, signal) }
    defer { program = nil }
    return program?.wait()
  }

  func close() {
    program?.end(SIGKILL)
    node.close()
    bus.stop()
  }

  /// The name of the error of a call of the interface for `earshotd`; empty for success.
  func error(_ method: String, _ arguments: DBusValue..., from connection: BusConnection? = nil) async -> String {
    do throws(DBusError) {
      _ = try await (connection ?? node).call(
        UplinkAdaptor.busName, BusMesh.sinkPath, BusMesh.sinkInterface, method, arguments)
      return ""
    } catch {
      return error.name.split(separator: ".").last.map(String.init) ?? ""
    }
  }

  func property(_ name: String) async throws -> DBusValue {
    let values = try await node.call(
      UplinkAdaptor.busName, UplinkAdaptor.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(UplinkAdaptor.interfaceName), .string(name)])
    return values.first?.unwrapped ?? .string("")
  }

  /// The program that was built with the tests.
  private static var path: String {
    let bundle = Swift.CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? ""
    return URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("earshot-nostrd").path
  }
}

@Suite("earshot-nostrd as a process on a private bus", .serialized)
struct NostrProgramTests {
  init() { EventLoop.shared.runInBackground() }

  /// The key of a contact.
  private static func contact() throws -> String {
    try Secp256k1.PrivateKey(copying: [UInt8](repeating: 7, count: 32)).xOnlyKey.npub
  }

  @Test("Without a proxy a message and a receipt are stored, and survive SIGKILL after the answer")
  @LoopActor
  func killed() async throws {
    let process = try await NostrProcess()
    defer { process.close() }
    let key = try await process.start()
    let npub = try Self.contact()
    #expect(await process.error("Contacts", .strings([npub])) == "")
    #expect(await process.error("Send", .string("m"), .string("message"), .string(npub), .string("x"), Self.now) == "")
    #expect(await process.error("Send", .string("r"), .string("read"), .string(npub), .string("y"), Self.now) == "")
    #expect(try await process.property("State") == .string("waitingForProxy"))
    #expect(try await process.property("Waiting") == .uint32(2))
    process.end(SIGKILL)
    #expect(try await process.start() == key)
    #expect(try await process.property("Waiting") == .uint32(2))
    // After a restart the node passes its contacts and messages again.
    #expect(await process.error("Contacts", .strings([npub])) == "")
    #expect(await process.error("Send", .string("m"), .string("message"), .string(npub), .string("x"), Self.now) == "")
    #expect(try await process.property("Waiting") == .uint32(2))
    #expect(await process.error("Cancel", .string("m")) == "")
    #expect(try await process.property("Waiting") == .uint32(1))
    #expect(process.end() == 0)
    let log = String(decoding: try process.folder.read("log"), as: UTF8.self)
    #expect(!log.contains(key) && !log.contains(npub))
  }

  @Test("Only the earshotd to which earshot-nostrd is attached may call, and its wipe gives a new key")
  @LoopActor
  func callers() async throws {
    let process = try await NostrProcess()
    defer { process.close() }
    let key = try await process.start()
    let other = BusConnection(address: .address(process.bus.address))
    other.connect()
    try await other.ready()
    defer { other.close() }
    #expect(await process.error("Contacts", .strings([]), from: other) == "Denied")
    #expect(await process.error("Cancel", .string("m"), from: other) == "Denied")
    #expect(await process.error("Wipe", from: other) == "Denied")
    process.keys.forget()
    #expect(await process.error("Wipe") == "")
    let next = try await process.keys.next()
    #expect(next != key)
    #expect(try await process.property("PublicKey") == .string(next))
    #expect(process.end() == 0)
    #expect(try await process.start() == next)
  }

  @Test("With an unreadable key earshot-nostrd is on the bus, gives the reason, and attaches to no earshotd")
  @LoopActor
  func damage() async throws {
    let process = try await NostrProcess()
    defer { process.close() }
    try await process.start()
    #expect(process.end() == 0)
    try process.folder.remove("state/uplink/spool.key")
    let owned = Mailbox<String?>()
    let watch = process.node.watchName(UplinkAdaptor.busName) { owned.put($0) }
    defer { watch.cancel() }
    try process.run()
    _ = try await owned.first { $0 != nil }
    #expect(try await process.property("State") == .string("failed"))
    #expect(try await process.property("Reason") != .string(""))
    #expect(try await process.property("PublicKey") == .string(""))
  }

  private static var now: DBusValue { .uint64(UInt64(Date().timeIntervalSince1970 * 1000)) }
}
