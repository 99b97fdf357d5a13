import DBus
import Foundation
import Loop
import TestSupport

/// `earshot-sociald` as a separate process, on a private bus, with all its files in one directory.
@LoopActor
final class SocialProcess {
  nonisolated static let name = "org.earshot.Social"
  nonisolated static let path: ObjectPath = "/org/earshot/social"
  nonisolated static let interface = "org.earshot.Social1"

  let folder: ScratchFolder
  let bus: PrivateBus
  let client: BusConnection
  private var program: Program?
  private var owner: String?

  /// - Parameter settings: further lines of the section `[Social]`.
  init(_ settings: String = "") async throws {
    folder = try ScratchFolder()
    bus = try PrivateBus()
    client = BusConnection(address: .address(bus.address))
    client.connect()
    try await client.ready()
    let configuration = """
      [Social]
      Directory=\(folder.path("state"))
      NewUsers=anyone
      \(settings)
      """
    try configuration.write(toFile: folder.path("conf"), atomically: true, encoding: .utf8)
  }

  /// Starts the daemon, and waits until it owns its name on the bus.
  func start() async throws {
    let owned = Mailbox<String?>()
    let watch = client.watchName(Self.name) { owned.put($0) }
    defer { watch.cancel() }
    let log = open(folder.path("log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { Glibc.close(log) }
    program = try Program(
      [Self.program("earshot-sociald"), "--bus", bus.address, "--config", folder.path("conf")],
      passing: [1: log, 2: log])
    owner = try await owned.first { [owner] in $0 != nil && $0 != owner }
  }

  func end(_ signal: Int32 = SIGTERM) {
    program?.end(signal)
    program = nil
  }

  func signal(_ signal: Int32) {
    if let program { kill(program.processID, signal) }
  }

  /// Waits for the end of the process after a signal.
  func wait() -> Int32? {
    defer { program = nil }
    return program?.wait()
  }

  func close() {
    end()
    client.close()
    bus.stop()
  }

  func call(_ method: String, _ arguments: DBusValue...) async throws -> [DBusValue] {
    try await client.call(Self.name, Self.path, Self.interface, method, arguments)
  }

  func property(_ name: String) async throws -> DBusValue {
    let values = try await client.call(
      Self.name, Self.path, "org.freedesktop.DBus.Properties", "Get", [.string(Self.interface), .string(name)])
    return values.first?.unwrapped ?? .string("")
  }

  func put(_ name: String, _ content: [UInt8], owner: String = "") async throws -> String {
    let file = try FileDescriptor.sealed(content, name: "test")
    return try await call("Put", .string(owner), .string(name), .descriptor(file)).first?.asString ?? ""
  }

  func get(_ reference: String) async throws -> [UInt8] {
    try await call("Get", .string(reference)).first?.asDescriptor?.contents() ?? []
  }

  func names(_ reference: String, after: String = "", limit: UInt32 = 0) async throws -> [String] {
    try await call("List", .string(reference), .string(after), .uint32(limit)).first?.asStrings ?? []
  }

  /// The path of a program that was built with the tests.
  nonisolated static func program(_ name: String) -> String {
    let bundle = Swift.CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? ""
    let beside = URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent(name)
    if FileManager.default.isExecutableFile(atPath: beside.path) { return beside.path }
    return #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined() + "/.build/debug/\(name)"
  }
}
