import DBus
import Foundation
import Hosting
import Journal
import Listing
import Loop
import TestSupport
import Testing

@testable import Config

/// The options of `earshotd` that follow from the list of services, in a process.
@Suite("Options of earshotd", .serialized)
struct DaemonTests {
  init() { EventLoop.shared.runInBackground() }

  /// The standard output and standard error of a program, and its exit status.
  private static func run(_ arguments: [String]) throws -> (output: String, complaint: String, status: Int32) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: ServiceProcess.path)
    process.arguments = arguments
    let output = Pipe()
    process.standardOutput = output
    let complaints = Pipe()
    process.standardError = complaints
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    // The pipe's buffer holds all error output of a short job.
    let complaint = String(decoding: complaints.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (text, complaint, process.terminationStatus)
  }

  private static func folder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
  }

  @Test("earshotd --default-config prints the installed configuration file")
  func defaultConfiguration() throws {
    let installed = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent("config/earshot.conf")
    let printed = try Self.run(["--default-config"])
    let isSame = try String(contentsOf: installed, encoding: .utf8) == printed.output
    #expect(isSame && printed.status == 0)
  }

  @Test("earshotd --check-config accepts exactly the sections of the program and its services")
  func checkConfiguration() throws {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appendingPathComponent("conf")
    let sections = Set(ServiceList.all.configuration.table.map(\.section)).sorted()
    #expect(
      sections == [
        "Broadcast", "Bus", "Log", "Mesh", "Metrics", "PresenceRadio", "Radio", "Store", "Verifier", "Wallet",
      ])
    let headers = sections.map { "[\($0)]\n" }.joined()
    try headers.write(to: file, atomically: true, encoding: .utf8)
    #expect(try Self.run(["--check-config", "--config", file.path]).status == 0)
    try (headers + "[Sample]\n").write(to: file, atomically: true, encoding: .utf8)
    #expect(try Self.run(["--check-config", "--config", file.path]).status == 1)
    try (headers + "[Verifier]\nName=\"Gate 1\"\nName=Gate 2\n").write(to: file, atomically: true, encoding: .utf8)
    let twice = try Self.run(["--check-config", "--config", file.path])
    #expect(twice.status == 1 && twice.complaint.contains("is set more than once, on lines 12 and 13."), "\(twice)")
    // More than the unit's MemoryMax= permits.
    try "[Verifier]\nKeptBytes=1G\n".write(to: file, atomically: true, encoding: .utf8)
    #expect(try Self.run(["--check-config", "--config", file.path]).status == 1)
  }

  @Test("earshotd --check-config reports Check=yes without a checker, and Decision=check without Check=yes")
  func checkConfigurationOfChecks() throws {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let (file, socket) = (folder.appendingPathComponent("conf"), folder.appendingPathComponent("socket"))
    func run(_ lines: String) throws -> (output: String, complaint: String, status: Int32) {
      try "[Verifier]\nCheckSocket=\(socket.path)\n\(lines)\n".write(to: file, atomically: true, encoding: .utf8)
      return try Self.run(["--check-config", "--config", file.path])
    }
    let missing = try run("Check=yes")
    #expect(missing.status == 1 && missing.complaint.contains("nothing listens at \(socket.path)"), "\(missing)")
    #expect(missing.complaint.contains("systemctl start earshot-check.socket"))
    let unchecked = try run("Decision=check")
    #expect(unchecked.status == 1 && unchecked.complaint.contains("Decision=check needs Check=yes"), "\(unchecked)")
    #expect(try run("Check=no").status == 0)
    let checker = try StandInCheckerSocket(at: socket.path)
    defer { checker.close() }
    #expect(try run("Check=yes\nDecision=check").status == 0)
  }

  @Test("earshotd --write-catalog and --write-interfaces write their files, or fail with an error")
  @LoopActor
  func files() throws {
    let folder = try Self.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let catalog = folder.appendingPathComponent("earshotd.catalog")
    #expect(try Self.run(["--write-catalog", catalog.path]).status == 0)
    let isSame = try String(contentsOf: catalog, encoding: .utf8) == MessageCatalog.text(ServiceList.all.messages)
    #expect(isSame)
    #expect(try Self.run(["--write-interfaces", folder.path]).status == 0)
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".xml") }
    #expect(names.contains("org.earshot.Manager1.xml") && names.contains("org.earshot.Verifier1.xml"))
    #expect(try Self.run(["--write-catalog", folder.path]).status == 1)
    #expect(try Self.run(["--write-interfaces", folder.path + "/none"]).status == 1)
  }

  @Test("The systemd status has a line for each service, and a reload names the changed keys that need a restart")
  @LoopActor
  func status() async throws {
    let service = try await ServiceProcess()
    defer { service.close() }
    let manager = try NotifySocket(in: service.directory)
    defer { manager.close() }
    try await service.start(behind: manager.prefix)
    _ = try await manager.heard.first { $0 == "STATUS=Waiting for wallets as OVPMOSIP." }

    try service.configure("Name=Other\nDecision=accept\n[Wallet]\nTransfers=2")
    service.signal(SIGHUP)
    _ = try await manager.heard.first { $0.hasPrefix("RELOADING=1\n") }
    _ = try await manager.heard.first { $0 == "READY=1" }
    _ = try await manager.heard.first {
      $0 == "STATUS=Waiting for wallets as OVPMOSIP. A restart is needed for Verifier.Name."
    }
    let log = String(decoding: service.log, as: UTF8.self)
    #expect(
      log.contains(
        "The configuration was reloaded. In force now: Verifier.Decision, Wallet.Transfers. Needs a restart: "
          + "Verifier.Name."))

    service.signal(SIGTERM)
    _ = try await manager.heard.first { $0 == "STOPPING=1" }
    #expect(service.wait() == 0)
    let end = String(decoding: service.log, as: UTF8.self)
    #expect(end.contains("No longer waiting for wallets"))
  }

  @Test("A service that is disabled in the configuration is not on the bus, and the others are")
  @LoopActor
  func turnedOff() async throws {
    let service = try await ServiceProcess("[Wallet]\nEnabled=no")
    defer { service.close() }
    try await service.start()
    let answer = try await service.client.call(
      "org.earshot", ManagerAdaptor.path, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    let paths = answer.first?.asDictionary?.keys.sorted() ?? []
    #expect(paths.contains("/org/earshot/verifier") && !paths.contains("/org/earshot/wallet"))
    let names = try await service.client.call(
      "org.earshot", ManagerAdaptor.path, "org.freedesktop.DBus.Properties", "Get",
      [.string(ManagerAdaptor.interfaceName), .string("Services")])
    #expect(names.first?.unwrapped.asStrings == ["Verifier", "PresenceRadio"])
  }

  @Test("A second earshotd with the same bus name fails to start and does not disturb the first")
  @LoopActor
  func second() async throws {
    let service = try await ServiceProcess()
    defer { service.close() }
    try await service.start()
    let invitation = try await service.invitation()
    let second = try service.runSecond()
    #expect(second.status == 1)
    #expect(second.said.contains("Another program owns the bus name org.earshot: busctl status org.earshot names it."))
    #expect(try await service.property("ConnectionUri") == invitation)
  }
}
