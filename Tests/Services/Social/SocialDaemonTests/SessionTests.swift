import DBus
import Foundation
import LocalSockets
import Loop
import TestSupport
import Testing

@testable import SocialDaemon

@Suite("Sessions of D-Bus programs with a social server", .serialized)
struct SessionTests {
  init() { EventLoop.shared.runInBackground() }

  private static let interface = "org.earshot.SocialSession1"

  /// A daemon that listens at a Unix socket, with the keys of a user stored under the name `alice`.
  @LoopActor
  private static func stand() async throws -> (process: SocialProcess, service: String, user: String) {
    let process = try await SocialProcess()
    let configuration = try String(contentsOfFile: process.folder.path("conf"), encoding: .utf8)
    try (configuration + "\nListen=unix:\(process.folder.path("asn.sock"))\n")
      .write(toFile: process.folder.path("conf"), atomically: true, encoding: .utf8)
    try await process.start()
    let keys = try await process.call("NewUser", .string("actual")).first?.asDescriptor?.contents() ?? []
    let file = try FileDescriptor.sealed(keys, name: "keys")
    let user = try await process.call("ImportKeys", .string("alice"), .descriptor(file)).first?.asString ?? ""
    let key = try await process.property("ServiceKey").asString ?? ""
    let nonce = try await process.property("ServiceNonce").asString ?? ""
    return (process, "\(key):\(nonce)", user)
  }

  @LoopActor
  private static func exec(
    _ process: SocialProcess, _ path: ObjectPath, _ arguments: [String], input: [UInt8] = [],
    on client: BusConnection? = nil
  ) async throws -> (result: UInt8, output: String) {
    let file = try FileDescriptor.sealed(input, name: "input")
    let values = try await (client ?? process.client).call(
      SocialProcess.name, path, interface, "Exec", [.strings(arguments), .descriptor(file)])
    let output = try values.last?.asDescriptor?.contents() ?? []
    return (values.first?.asByte ?? 255, String(decoding: output, as: UTF8.self))
  }

  @LoopActor
  private static func connect(_ process: SocialProcess, _ service: String) async throws -> ObjectPath {
    let url = "unix:\(process.folder.path("asn.sock"))"
    let values = try await process.call("Connect", .string(url), .string(service), .string("alice"))
    return try #require(values.first?.asObjectPath)
  }

  @Test("A program logs in, stores a blob, pauses, resumes and quits, and its session object is then removed")
  @LoopActor
  func session() async throws {
    let (process, service, user) = try await Self.stand()
    defer { process.close() }
    let path = try await Self.connect(process, service)
    let loggedIn = try await process.property("LoggedIn").asStrings ?? []
    #expect(loggedIn == [user])
    let stored = try await Self.exec(process, path, ["blob", "notes/a"], input: Array("hello".utf8))
    let read = try await Self.exec(process, path, ["cat", "notes/a"])
    let unknown = try await Self.exec(process, path, ["nothing"])
    #expect(stored.result == 0 && read.result == 0 && read.output == "hello" && unknown.result == 2)
    for method in ["Pause", "Resume", "Quit"] {
      if method == "Resume" {
        await #expect(throws: DBusError.self) { try await Self.exec(process, path, ["echo"]) }
      }
      _ = try await process.client.call(SocialProcess.name, path, Self.interface, method)
    }
    await #expect(throws: DBusError.self) { try await Self.exec(process, path, ["echo"]) }
  }

  @Test("Of 20 simultaneous calls of Connect 4 fail, because at most 16 sessions are open")
  @LoopActor
  func connectLimit() async throws {
    let (process, service, _) = try await Self.stand()
    defer { process.close() }
    // A server that accepts connections and sends nothing.
    let path = process.folder.path("mute.sock")
    var mute: [any StreamConnection] = []
    let listening = try SocketListener().listen(at: path, mode: 0o600) { connection, _ in mute.append(connection) }
    defer { listening.cancel() }
    let failures = Mailbox<String>()
    for _ in 0..<20 {
      Task { @LoopActor in
        do {
          _ = try await process.call("Connect", .string("unix:\(path)"), .string(service), .string("alice"))
          failures.put("none")
        } catch {
          failures.put((error as? DBusError)?.name ?? "\(error)")
        }
      }
    }
    for _ in 0..<4 { _ = try await failures.next() }
    #expect(failures.all == [String](repeating: DBusError.Name.limitExceeded.rawValue, count: 4))
    for connection in mute { connection.close() }
  }

  @Test("A message is signalled only to the session's program, and other programs cannot use the session")
  @LoopActor
  func arrival() async throws {
    let (process, service, user) = try await Self.stand()
    defer { process.close() }
    let other = BusConnection(address: .address(process.bus.address))
    other.connect()
    try await other.ready()
    defer { other.close() }
    let (sums, others) = (Mailbox<String>(), Mailbox<String>())
    let match = SignalMatch(sender: SocialProcess.name, member: "BlobArrived")
    let watches = [
      process.client.subscribe(match) { sums.put($0.arguments.first?.asString ?? "") },
      other.subscribe(match) { others.put($0.arguments.first?.asString ?? "") },
    ]
    defer { for watch in watches { watch.cancel() } }
    let path = try await Self.connect(process, service)
    let sum = try await process.call("Say", .string(user), .string("hello")).first?.asString ?? ""
    let arrived = try await sums.next()
    #expect(arrived == sum && others.all.isEmpty)
    await #expect(throws: DBusError.self) { try await Self.exec(process, path, ["echo"], on: other) }
    await #expect(throws: DBusError.self) {
      try await other.call(SocialProcess.name, path, Self.interface, "Fetch", [.string(sum)])
    }
    let fetched = try await process.client.call(SocialProcess.name, path, Self.interface, "Fetch", [.string(sum)])
    let blob = try fetched.first?.asDescriptor?.contents() ?? []
    #expect(String(decoding: blob.suffix(5), as: UTF8.self) == "hello")
    // `Fetch` returns each blob only once.
    await #expect(throws: DBusError.self) {
      try await process.client.call(SocialProcess.name, path, Self.interface, "Fetch", [.string(sum)])
    }
  }

  @Test("A social session ends when its program leaves the bus")
  @LoopActor
  func leaving() async throws {
    let (process, service, user) = try await Self.stand()
    defer { process.close() }
    let program = BusConnection(address: .address(process.bus.address))
    program.connect()
    try await program.ready()
    let url = "unix:\(process.folder.path("asn.sock"))"
    let session = try await program.call(
      SocialProcess.name, SocialProcess.path, SocialProcess.interface, "Connect",
      [.string(url), .string(service), .string("alice")])
    let before = try await process.property("LoggedIn").asStrings ?? []
    #expect(before == [user])
    let removed = Mailbox<ObjectPath>()
    let match = SignalMatch(sender: SocialProcess.name, member: "InterfacesRemoved")
    let watch = process.client.subscribe(match) { message in
      if let path = message.arguments.first?.asObjectPath { removed.put(path) }
    }
    defer { watch.cancel() }
    _ = try await process.call("Watch")
    program.close()
    let path = try await removed.next()
    #expect(path == session.first?.asObjectPath)
  }

  @Test(
    "A social connection that cannot be made is refused with a sentence",
    arguments: [
      ("tcp:127.0.0.1:1", true, "alice"), ("nonsense", true, "alice"), ("", false, "alice"), ("", true, "bob"),
      ("", true, "../alice"),
    ])
  @LoopActor
  func refused(url: String, isServiceGood: Bool, name: String) async throws {
    let (process, service, _) = try await Self.stand()
    defer { process.close() }
    let address = url.isEmpty ? "unix:\(process.folder.path("asn.sock"))" : url
    // A key of another service: the server does not understand what it gets, and closes.
    let key = isServiceGood ? service : String(repeating: "09", count: 32) + ":" + service.suffix(48)
    do {
      _ = try await process.call("Connect", .string(address), .string(key), .string(name))
      Issue.record("connected")
    } catch {
      #expect((error as? DBusError)?.message.hasSuffix(".") == true)
    }
    let users = try await process.property("LoggedIn").asStrings ?? []
    #expect(users.isEmpty)
  }
}
