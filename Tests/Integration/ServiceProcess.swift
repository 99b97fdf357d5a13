import Air
import DBus
import Foundation
import Loop
import Radio
import TestSupport
import Transfers
import Verifier

/// `earshotd` as a separate process, on a private bus and on a simulated radio that it shares with the test, with all
/// its files in one directory.
@LoopActor
final class ServiceProcess {
  let directory: URL
  let bus: PrivateBus
  let client: BusConnection
  let air: AirSpace
  private let hub: AirHub
  private var program: Program?
  /// The owner of the bus name. After a kill the old owner is reported once more.
  private var owner: String?

  /// - Parameter settings: further lines at the end of the configuration.
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

  /// Writes the configuration, with further lines at its end.
  ///
  /// - Parameter radio: the section `[Radio]`; nil for the test's simulated radio.
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

  /// Makes the service check each credential, with a checker in this process. The service has not been started.
  ///
  /// - Parameter settings: further lines at the end of the configuration.
  func check(adding settings: String = "") throws -> StandInCheckerSocket {
    let socket = directory.appendingPathComponent("check").path
    try configure("Check=yes\nCheckSocket=\(socket)\n\(settings)")
    return try StandInCheckerSocket(at: socket)
  }

  /// Waits for the verdict on the credential of a transfer.
  func verdict(on path: ObjectPath) async throws {
    let judged = Mailbox<ObjectPath>()
    let watch = client.subscribe(SignalMatch(sender: "org.earshot", member: "VerdictReceived")) {
      if let path = $0.arguments.first?.asObjectPath { judged.put(path) }
    }
    defer { watch.cancel() }
    let now = try await client.call(
      "org.earshot", path, "org.freedesktop.DBus.Properties", "Get",
      [.string(CredentialObjects.interfaceName), .string("Verdict")])
    // The signal may have been sent before.
    if let word = now.first?.asString, !["", "pending"].contains(word) { return }
    _ = try await judged.first { $0 == path }
  }

  /// A radio on the service's simulated channel.
  func radio() -> any Radio {
    RemoteAir(path: directory.appendingPathComponent("air").path).tenant(EventLoop.shared)
  }

  var processID: pid_t? { program?.processID }

  /// Starts the service, and waits until it owns its name on the bus.
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

  /// Starts a second instance with the configuration and the bus of the first, and waits for its end.
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

  /// Waits for the end of a service that was asked to stop.
  ///
  /// - Returns: its exit status; nil if it was killed.
  func wait() -> Int32? {
    defer { program = nil }
    return program?.wait()
  }

  /// Stops the service, and waits for its end.
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

  /// The log until now.
  var log: [UInt8] { bytes(of: "log") }

  private var logPath: String { directory.appendingPathComponent("log").path }

  func bytes(of file: String) -> [UInt8] {
    (try? Data(contentsOf: directory.appendingPathComponent(file))).map(Array.init) ?? []
  }

  func property(_ name: String) async throws -> String {
    try await client.call(
      "org.earshot", VerifierAdaptor.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(VerifierAdaptor.interfaceName), .string(name)]
    ).first?.asString ?? ""
  }

  /// The text of the QR code, as soon as there is one: the radio may become ready after the name is owned.
  func invitation() async throws -> String {
    let shown = Mailbox<String>()
    let changes = SignalMatch(sender: "org.earshot", path: VerifierAdaptor.path, member: "PropertiesChanged")
    let watch = client.subscribe(changes) { message in
      if message.arguments.count == 3, let text = message.arguments[1]["ConnectionUri"]?.asString { shown.put(text) }
    }
    defer { watch.cancel() }
    shown.put(try await property("ConnectionUri"))
    return try await shown.first { !$0.isEmpty }
  }

  /// The path of the service that was built with the tests.
  nonisolated static var path: String {
    let bundle = Swift.CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? ""
    let beside = URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("earshotd")
    if FileManager.default.isExecutableFile(atPath: beside.path) { return beside.path }
    return URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent(".build/debug/earshotd").path
  }
}
