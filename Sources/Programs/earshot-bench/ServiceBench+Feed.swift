import DBus
import Loop

/// A service that listens to the public feed, with nothing in range.
extension ServiceBench {
  func runFeed() async throws -> [Figure] {
    defer { cleanUp() }
    let (bus, _) = try await startBus()
    let air = "\(directory)/quiet"
    processes.append(try Process("\(programs)/earshot-air", ["--socket", air, "--latency", "0"]))
    try await awaitFile(air)
    let service = try startService(
      "feed", enabled: "no", radio: "Backend=air\nAirSocket=\(air)", mesh: "[Broadcast]\nEnabled=yes", arguments: [])
    try await awaitName("org.earshot", on: bus)
    try await pause(.seconds(2))
    let state = try await bus.call(
      "org.earshot", "/org/earshot/broadcast", "org.freedesktop.DBus.Properties", "Get",
      [.string("org.earshot.Broadcast1"), .string("State")])
    guard state.first?.asString == "listening" else { throw Trouble(description: "the feed does not listen") }
    let before = service.status("voluntary_ctxt_switches")
    try await pause(.seconds(10))
    let wakeups = service.status("voluntary_ctxt_switches") - before
    return [.less("feed: wake-ups while it listens and nothing is in range", Double(wakeups) / 10, "1/s")]
  }
}
