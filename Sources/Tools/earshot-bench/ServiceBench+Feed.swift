import DBus
import Loop

/// A service that receives the public feed, and one that sends in it during a transfer.
extension ServiceBench {
  func runFeed() async throws -> [Figure] {
    defer { cleanUp() }
    let (bus, _) = try await startBus()
    return [try await quiet(bus), try await beside(bus)]
  }

  private func startAir(_ name: String) async throws -> String {
    let socket = "\(directory)/\(name)"
    processes.append(try Process("\(programs)/earshot-air", ["--socket", socket, "--latency", "0"]))
    try await awaitFile(socket)
    return "Backend=air\nAirSocket=\(socket)"
  }

  private func quiet(_ bus: BusConnection) async throws -> Figure {
    let name = "org.earshot.quiet"
    let service = try startService(
      "quiet", enabled: "no", radio: try await startAir("quiet-air"), mesh: Self.feed, arguments: ["--bus-name", name])
    try await awaitName(name, on: bus)
    try await pause(.seconds(2))
    try await checkListens(name, bus)
    let before = service.status("voluntary_ctxt_switches")
    try await pause(.seconds(10))
    let wakeups = service.status("voluntary_ctxt_switches") - before
    return .less("broadcast: wake-ups while scanning, nothing in range", Double(wakeups) / 10, "1/s")
  }

  private static let feed = "[Broadcast]\nEnabled=yes"

  private func checkListens(_ name: String, _ bus: BusConnection) async throws {
    let state = try await bus.call(
      name, "/org/earshot/broadcast", "org.freedesktop.DBus.Properties", "Get",
      [.string("org.earshot.Broadcast1"), .string("State")])
    guard state.first?.asString == "listening" else {
      throw Trouble(description: "the broadcast service does not scan")
    }
  }

  /// Transfers a credential to a kiosk without the feed, and to one that sends messages continuously, alternating.
  private func beside(_ bus: BusConnection) async throws -> Figure {
    let radio = try await startAir("kiosk-air")
    let (plain, talking, visitor) = ("org.earshot.plain", "org.earshot.talking", "org.earshot.guest")
    _ = try startService("plain", enabled: "yes", radio: radio, arguments: ["--bus-name", plain])
    _ = try startService("talking", enabled: "yes", radio: radio, mesh: Self.feed, arguments: ["--bus-name", talking])
    _ = try startService("guest", enabled: "no", radio: radio, arguments: ["--bus-name", visitor])
    for name in [plain, talking, visitor] { try await awaitName(name, on: bus) }
    try await checkListens(talking, bus)
    let credential = SystemRandomBytes.text(1 << 20)
    var (without, with): ([Duration], [Duration]) = ([], [])
    for turn in 0..<25 {
      without.append(try await transfer(credential, bus, to: plain, from: visitor))
      // The queue is full most of the time, as intended.
      _ = try? await bus.call(
        talking, "/org/earshot/broadcast", "org.earshot.Broadcast1", "Send", [.string("message \(turn)")])
      with.append(try await transfer(credential, bus, to: talking, from: visitor))
    }
    let (bare, beside) = (without.sorted()[without.count / 2], with.sorted()[with.count / 2])
    return .more("1 MiB goodput with broadcasts, ratio to without", bare / beside, "", goal: 0.95)
  }
}
