import ASN
import Config
import DBus
import Foundation
import LocalSockets
import Loop
import TestSupport
import Testing

@testable import SocialCommands
@testable import SocialDaemon

@Suite("The social server daemon", .serialized)
struct SocialDaemonTests {
  init() { EventLoop.shared.runInBackground() }

  private static let top = #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined()

  @Test("config/social.conf equals the default configuration file (EARSHOT_REGENERATE=1 rewrites it)")
  func configuration() throws {
    let path = Self.top + "/config/social.conf"
    let text = SocialDaemon.defaults.defaultFile
    if ProcessInfo.processInfo.environment["EARSHOT_REGENERATE"] != nil {
      try text.write(toFile: path, atomically: true, encoding: .utf8)
    }
    let found = try String(contentsOfFile: path, encoding: .utf8)
    #expect(found == text)
  }

  @Test("A setting that names an administrator must contain both public keys")
  func admin() {
    var settings = SocialSettings()
    #expect(settings.problem == nil && settings.admin == nil)
    settings.adminKey = String(repeating: "0a", count: 32)
    #expect(settings.problem != nil)
    settings.adminAuthentication = String(repeating: "0b", count: 32)
    #expect(settings.problem == nil && settings.admin?.key.hex == settings.adminKey)
  }

  @Test("A program on the bus stores, reads, lists and removes blobs, and a reversal restores them")
  @LoopActor
  func blobs() async throws {
    let process = try await SocialProcess()
    defer { process.close() }
    try await process.start()
    let small = Array("hello".utf8)
    let large = [UInt8](repeating: 7, count: 300_000)
    let sum = try await process.put("notes/a", small)
    _ = try await process.put("notes/b", large)
    let read = (try await process.get("notes/a"), try await process.get(sum), try await process.get("notes/b"))
    #expect(sum.utf8.count == 128 && read.0 == small && read.1 == small && read.2 == large)
    let names = try await process.names("notes/*")
    #expect(names == ["notes/a", "notes/b"])
    let rest = try await process.names("notes/*", after: "notes/a", limit: 1)
    #expect(rest == ["notes/b"])

    let removal = try await process.call("Remove", .string("notes/a")).first?.asString ?? ""
    let left = try await process.names("notes/*")
    #expect(left == ["notes/b"])
    await #expect(throws: DBusError.self) { try await process.get("notes/a") }
    _ = try await process.call("Remove", .string(removal))
    let back = try await process.get("notes/a")
    #expect(back == small)
  }

  @Test("Social requests with bad arguments get errors that give the reason")
  @LoopActor
  func badRequests() async throws {
    let process = try await SocialProcess("BlobSize=64K")
    defer { process.close() }
    try await process.start()
    func name(_ body: () async throws -> Void) async -> DBusError.Name? {
      do {
        try await body()
        return nil
      } catch {
        return (error as? DBusError).flatMap { DBusError.Name(rawValue: $0.name) }
      }
    }
    let errors = [
      await name { _ = try await process.put("../a", [1]) },
      await name { _ = try await process.put("a", [1], owner: "zz") },
      await name { _ = try await process.put("a", [1], owner: "0000") },
      await name { _ = try await process.get("nothing") },
      await name { _ = try await process.put("a", [UInt8](repeating: 0, count: 100_000)) },
      await name { _ = try await process.call("NewUser", .string("king")) },
      await name { _ = try await process.call("Export", .string("relative")) },
    ]
    #expect(
      errors == [.invalidArgs, .invalidArgs, .notFound, .notFound, .limitExceeded, .invalidArgs, .failed])
  }

  @Test("Names are listed in portions, and Get returns a blob that is longer than AnswerSize=")
  @LoopActor
  func portions() async throws {
    let process = try await SocialProcess("AnswerSize=64K\nBlobSize=1M")
    defer { process.close() }
    try await process.start()
    let large = [UInt8](repeating: 7, count: 300_000)
    _ = try await process.put("large", large)
    let read = try await process.get("large")
    #expect(read == large)
    for number in 0..<5 { _ = try await process.put("notes/\(number)", [1]) }
    let page = try await process.names("notes", after: "notes/1", limit: 2)
    #expect(page == ["notes/2", "notes/3"])
    let rest = try await process.names("notes/*", after: "notes/3", limit: 2)
    let none = try await process.names("notes/*", after: "notes/4", limit: 2)
    #expect(rest == ["notes/4"] && none == [])
    // A second version gets the name, although the daemon's clock may be the same.
    _ = try await process.put("notes/0", [2])
    let newer = try await process.get("notes/0")
    #expect(newer == [2])
  }

  @Test("A backup to a pipe is refused, and another backup succeeds after it")
  @LoopActor
  func backupToPipe() async throws {
    let process = try await SocialProcess()
    defer { process.close() }
    try await process.start()
    var ends: [Int32] = [0, 0]
    #expect(pipe(&ends) == 0)
    defer { close(ends[0]) }
    let pipe = FileDescriptor(owning: ends[1])
    await #expect(throws: DBusError.self) { try await process.call("Backup", .descriptor(pipe)) }
    let file = open(process.folder.path("backup"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    _ = try await process.call("Backup", .descriptor(FileDescriptor(owning: file)))
    let state = try FileManager.default.contentsOfDirectory(atPath: process.folder.path("state"))
    #expect(!state.contains("backup.db"))
  }

  @Test("The bus policy lets programs of other users call no method, not even Introspect")
  func policy() throws {
    let text = try String(contentsOfFile: Self.top + "/dbus-policy/org.earshot.Social.conf", encoding: .utf8)
    let start = try #require(text.range(of: "<policy context=\"default\">"))
    let rules = text[start.upperBound...]
    #expect(rules.contains("<deny send_destination=\"org.earshot.Social\"/>") && !rules.contains("<allow"))
  }

  @Test("Clients over a Unix socket, TCP and WebSocket log in, and a message from one reaches another")
  @LoopActor
  func clients() async throws {
    let process = try await SocialProcess("Listen=unix:PATH tcp:127.0.0.1:47831 ws://127.0.0.1:47832/asn")
    defer { process.close() }
    let configuration = try String(contentsOfFile: process.folder.path("conf"), encoding: .utf8)
    try configuration.replacingOccurrences(of: "unix:PATH", with: "unix:\(process.folder.path("asn.sock"))")
      .write(toFile: process.folder.path("conf"), atomically: true, encoding: .utf8)
    try await process.start()
    let listeners = try await process.property("Listeners").asStrings ?? []
    #expect(listeners.count == 3)
    let local = try await SocketClient(process, SocketStream(connectingTo: process.folder.path("asn.sock")))
    let tcp = try await SocketClient(process, SocketStream(connectingToHost: "127.0.0.1", port: 47831))
    let framed = try await SocketClient(
      process, SocketStream(connectingToHost: "127.0.0.1", port: 47832), path: "/asn")
    let answer = try await local.exec("blob", framed.user.hex, input: String(repeating: "x", count: 100_000))
    #expect(answer.result == .success)
    try await framed.wait { !$0.blobs.isEmpty }
    #expect(framed.blobs.first?.content.count == 100_000 && tcp.blobs.isEmpty)
    let sum = try await process.call("Say", .string(tcp.user.hex), .string("hello")).first?.asString
    try await tcp.wait { !$0.blobs.isEmpty }
    #expect(tcp.blobs.first.map { Array($0.content) } == Array("hello".utf8) && tcp.blobs.first?.sum.hex == sum)
    let loggedIn = try await process.property("LoggedIn").asStrings ?? []
    #expect(Set(loggedIn) == Set([local, tcp, framed].map(\.user.hex)))
    let lost = try SocketStream(connectingToHost: "127.0.0.1", port: 47832)
    await #expect(throws: SocketClient.Refused.self) { try await SocketClient(process, lost, path: "/other") }
    for client in [local, tcp, framed] { client.close() }
  }

  @Test("A backup contains the blobs, and so does an export that another server imports")
  @LoopActor
  func copies() async throws {
    let (first, second) = (try await SocialProcess(), try await SocialProcess())
    defer {
      first.close()
      second.close()
    }
    try await first.start()
    try await second.start()
    let large = [UInt8](repeating: 1, count: 200_000)
    let sums = (try await first.put("a", [1, 2, 3]), try await first.put("b", large))
    let tree = first.folder.path("tree")
    let report = try await first.call("Export", .string(tree)).first?.asString ?? ""
    #expect(report.hasPrefix("2 blobs and 2 links"))
    let read = try await second.call("Import", .string(tree)).first?.asString ?? ""
    #expect(read.hasPrefix("2 blobs and 2 links"))
    let imported = (try await second.get(sums.0), try await second.get(sums.1))
    #expect(imported.0 == [1, 2, 3] && imported.1 == large)

    // A backup takes the place of the database beside an empty folder of files.
    let path = first.folder.path("backup")
    let file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    _ = try await first.call("Backup", .descriptor(FileDescriptor(owning: file)))
    second.end()
    let state = second.folder.path("state")
    for name in try FileManager.default.contentsOfDirectory(atPath: state) where name != "social.key" {
      try FileManager.default.removeItem(atPath: "\(state)/\(name)")
    }
    try FileManager.default.moveItem(atPath: path, toPath: "\(state)/social.db")
    try await second.start()
    let restored = (try await second.get(sums.0), try await second.get(sums.1))
    #expect(restored.0 == [1, 2, 3] && restored.1 == large)
  }

  @Test("The server's keys are the same after a restart, and a daemon without requests stops at once")
  @LoopActor
  func restart() async throws {
    let process = try await SocialProcess()
    defer { process.close() }
    try await process.start()
    let key = try await process.property("ServiceKey")
    process.end()
    try await process.start()
    let again = try await process.property("ServiceKey")
    #expect(key == again && key.asString?.utf8.count == 64)
    #expect(try process.folder.mode("state/social.key") == 0o600)
    let log = try String(contentsOfFile: process.folder.path("log"), encoding: .utf8)
    #expect(log.contains("Stopping") && !log.contains("no longer waited for"))
  }

  @Test("The tool explains each counter of the social server")
  @LoopActor
  func counters() async throws {
    let process = try await SocialProcess()
    defer { process.close() }
    try await process.start()
    let counters = try await process.property("Counters").asDictionary ?? [:]
    #expect(counters.count >= 10)
    #expect(Set(counters.keys) == Set(SocialCommand.meanings.keys))
  }
}
