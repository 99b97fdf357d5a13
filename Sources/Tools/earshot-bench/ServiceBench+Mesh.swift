import DBus
import Loop

/// A mesh node without messages: its cost in addition to the verifier alone.
extension ServiceBench {
  /// Services on a grid of eleven by eleven. The measured one in the middle has eight neighbours, and receives
  /// announces of all.
  private static var columns: Int { 11 }
  private static var nodes: Int { columns * columns }
  private static var middle: Int { nodes / 2 }

  func runField() async throws -> [Figure] {
    defer { cleanUp() }
    let (bus, _) = try await startBus()
    let air = "\(directory)/field"
    processes.append(
      try Process(
        "\(programs)/earshot-air",
        ["--socket", air, "--latency", "0", "--reach", "1", "--columns", "\(Self.columns)"]))
    try await awaitFile(air)

    let alone = try startService(
      "alone", enabled: "yes", radio: "Backend=air\nAirSocket=\(air)", arguments: ["--bus-name", "org.earshot.alone"])
    try await awaitName("org.earshot.alone", on: bus)
    try await pause(.seconds(10))
    let verifier = alone.status("RssAnon")

    let name = Self.name(Self.middle)
    var node: Process?
    for place in 0..<Self.nodes {
      let process = try startNode(place, air)
      if place == Self.middle { node = process }
      try await pause(.milliseconds(100))
    }
    guard let measured = node else { return [] }
    var known = (links: 0, peers: 0)
    for _ in 0..<60 where known.links < 7 || known.peers < 100 {
      try await pause(.seconds(5))
      known = try await look(bus, name)
    }
    // The load of the initial meeting is over by then.
    try await pause(.seconds(120))

    let seconds = 60.0
    let (wakeups, computed) = (measured.status("voluntary_ctxt_switches"), measured.processorTime)
    let packets = try await packets(bus, name)
    try await pause(.seconds(seconds))
    known = try await look(bus, name)
    return [
      .more("mesh, idle: links of the service", Double(known.links), ""),
      .more("mesh, idle: known peers", Double(known.peers), ""),
      .less(
        "mesh, idle: anonymous memory over the verifier's",
        Double(measured.status("RssAnon") - verifier) / 1024, "MiB", goal: 5),
      .less("mesh, idle: share of a core", (measured.processorTime - computed) / seconds * 100, "%", goal: 0.2),
      .less("mesh, idle: packets received", (try await self.packets(bus, name) - packets) / seconds, "1/s"),
      .less(
        "mesh, idle: wake-ups", Double(measured.status("voluntary_ctxt_switches") - wakeups) / seconds, "1/s"),
    ]
  }

  private static func name(_ place: Int) -> String { "org.earshot.node\(place)" }

  private func startNode(_ place: Int, _ air: String) throws -> Process {
    let address = "C0:00:00:00:00:" + (place < 16 ? "0" : "") + String(place, radix: 16, uppercase: true)
    return try startService(
      "node\(place)", enabled: place == Self.middle ? "yes" : "no",
      radio: "Backend=air\nAirSocket=\(air)\nAdapter=\(address)\nLinks=8",
      mesh: "[Mesh]\nEnabled=yes\nTrustClock=yes\nNickname=node\(place)", arguments: ["--bus-name", Self.name(place)])
  }

  /// Number of its links, and of nearby peers.
  private func look(_ bus: BusConnection, _ name: String) async throws -> (links: Int, peers: Int) {
    let answer = try await bus.call(
      name, "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    var (links, peers) = (0, 0)
    for interfaces in (answer.first?.asDictionary ?? [:]).values {
      guard let interfaces = interfaces.asDictionary else { continue }
      if let mesh = interfaces["org.earshot.Mesh1"]?.asDictionary { links = mesh["Links"]?.asInteger ?? 0 }
      if let peer = interfaces["org.earshot.MeshPeer1"]?.asDictionary, (peer["Hops"]?.asInteger ?? 0) > 0 { peers += 1 }
    }
    return (links, peers)
  }

  private func packets(_ bus: BusConnection, _ name: String) async throws -> Double {
    let answer = try await bus.call(
      name, "/org/earshot/mesh", "org.freedesktop.DBus.Properties", "Get",
      [.string("org.earshot.Mesh1"), .string("Counters")])
    return Double(answer.first?.asDictionary?["Frames"]?.asInteger ?? 0)
  }
}
