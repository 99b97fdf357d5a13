import Air
import DBus
import Foundation
import Loop
import Radio
import TestSupport
import Transfers
import Verifier

/// `earshotd` as a process of its own, on a private bus and on an air that it shares with the test, with all its files
/// in one directory.
@LoopActor
final class ServiceProcess {
  let directory: URL
  let bus: PrivateBus
  let client: BusConnection
  let air: AirSpace
  private let hub: AirHub
  private var program: Program?
  /// Of the name: that of a service that was killed is heard of once more.
  private var owner: String?

  /// - Parameter settings: more lines for the end of the configuration.
  init(_ settings: String = "") async throws {
    directory = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    bus = try PrivateBus()
    client = BusConnection(address: .address(bus.address))
    client.connect()
    try await client.ready()
    air = AirSpace(scheduler: EventLoop.shared, seed: 1, conditions: AirConditions(latency: .zero))
    hub = try AirHub(path: directory.appendingPathComponent("air").path, air: air)
    try configure(settings)
  }

  /// Writes the configuration, with more lines at its end.
  ///
  /// - Parameter radio: the section `[Radio]`; nil for the test's own air.
  func configure(_ settings: String, radio: String? = nil) throws {
    let configuration = """
      [Radio]
      \(radio ?? "Backend=air\nAirSocket=\(directory.path)/air")
      [Store]
      Directory=\(directory.path)/state
      [Verifier]
      Enabled=yes
      ReportDelay=0
      \(settings)
      """
    try configuration.write(to: directory.appendingPathComponent("conf"), atomically: true, encoding: .utf8)
  }

  /// Has the service check each credential, by a checker here. The service has not been started.
  ///
  /// - Parameter settings: more lines for the end of the configuration.
  func check(adding settings: String = "") throws -> StandInCheckerSocket {
    let socket = directory.appendingPathComponent("check").path
    try configure("Check=yes\nCheckSocket=\(socket)\n\(settings)")
    return try StandInCheckerSocket(at: socket)
  }

  /// Waits until there is a verdict on the credential of a transfer.
  func verdict(on path: ObjectPath) async throws {
    let judged = Mailbox<ObjectPath>()
    let watch = client.subscribe(SignalMatch(sender: "org.earshot", member: "VerdictReceived")) {
      if let path = $0.arguments.first?.asObjectPath { judged.put(path) }
    }
    defer { watch.cancel() }
    let now = try await client.call(
      "org.earshot", path, "org.freedesktop.DBus.Properties", "Get",
      [.string(CredentialFaces.interfaceName), .string("Verdict")])
    // The signal may have come before.
    if let word = now.first?.asString, !["", "pending"].contains(word) { return }
    _ = try await judged.first { $0 == path }
  }

  /// A radio on the air that the service is on.
  func radio() -> any Radio {
    RemoteAir(path: directory.appendingPathComponent("air").path).tenant(EventLoop.shared)
  }

  var processID: pid_t? { program?.processID }

  /// Starts it, and waits until it has its name on the bus.
  ///
  /// - Parameter prefix: a program that starts it, with its arguments.
  func start(behind prefix: [String] = []) async throws {
    let owned = Mailbox<String?>()
    let watch = client.watchName("org.earshot") { owned.put($0) }
    defer { watch.cancel() }
    let log = open(logPath, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { Glibc.close(log) }
    program = try Program(prefix + command, passing: [1: log, 2: log])
    owner = try await owned.first { [owner] in $0 != nil && $0 != owner }
  }

  private var command: [String] {
    [Self.path, "--bus", bus.address, "--config", directory.appendingPathComponent("conf").path]
  }

  /// Starts the same program once more, with the same configuration, on the same bus, and waits for its end.
  ///
  /// - Returns: its exit status, nil if it was killed, and its output.
  func runSecond() throws -> (status: Int32?, said: String) {
    let file = directory.appendingPathComponent("second").path
    let log = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    defer { Glibc.close(log) }
    let status = try Program(command, passing: [1: log, 2: log]).wait()
    return (status, String(decoding: bytes(of: "second"), as: UTF8.self))
  }

  func signal(_ signal: Int32) {
    if let processID { kill(processID, signal) }
  }

  /// Waits for the end of a service that was asked to end.
  ///
  /// - Returns: its exit status; nil if it was killed.
  func wait() -> Int32? {
    defer { program = nil }
    return program?.wait()
  }

  /// Ends it, and waits for its end.
  func end(_ signal: Int32 = SIGTERM) {
    program?.end(signal)
    program = nil
  }

  func close() {
    end()
    hub.close()
    client.close()
    bus.stop()
    try? FileManager.default.removeItem(at: directory)
  }

  /// What it has said so far.
  var log: [UInt8] { bytes(of: "log") }

  private var logPath: String { directory.appendingPathComponent("log").path }

  func bytes(of file: String) -> [UInt8] {
    (try? Data(contentsOf: directory.appendingPathComponent(file))).map(Array.init) ?? []
  }

  func property(_ name: String) async throws -> String {
    try await client.call(
      "org.earshot", VerifierFace.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(VerifierFace.interfaceName), .string(name)]
    ).first?.asString ?? ""
  }

  /// The text of the QR code, as soon as there is one: the radio may come after the name on the bus.
  func invitation() async throws -> String {
    let shown = Mailbox<String>()
    let changes = SignalMatch(sender: "org.earshot", path: VerifierFace.path, member: "PropertiesChanged")
    let watch = client.subscribe(changes) { message in
      if message.arguments.count == 3, let text = message.arguments[1]["ConnectionUri"]?.asString { shown.put(text) }
    }
    defer { watch.cancel() }
    shown.put(try await property("ConnectionUri"))
    return try await shown.first { !$0.isEmpty }
  }

  /// The service as it was built beside the tests.
  nonisolated static var path: String {
    let bundle = Swift.CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? ""
    let beside = URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("earshotd")
    if FileManager.default.isExecutableFile(atPath: beside.path) { return beside.path }
    return URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent(".build/debug/earshotd").path
  }
}
