import Common
import DBus
import Glibc
import Loop

/// The complete service: its own process, a bus, and the simulated radio without latency.
@LoopActor
final class ServiceBench {
  let directory: String
  let programs: String
  private var busProcess: Process?
  var processes: [Process] = []

  struct Trouble: Error, CustomStringConvertible {
    let description: String
  }

  init() {
    directory = "/tmp/earshot-bench.\(getpid())"
    let own = Swift.CommandLine.arguments.first ?? ""
    programs = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
  }

  func run() async throws -> [Figure] {
    defer { cleanUp() }
    let (bus, address) = try await startBus()
    let air = "\(directory)/air"
    processes.append(try Process("\(programs)/earshot-air", ["--socket", air, "--latency", "0"]))
    try await awaitFile(air)

    let onAir = "Backend=air\nAirSocket=\(air)"
    let begin = EventLoop.shared.now
    let verifier = try startService("verifier", enabled: "yes", radio: onAir, arguments: [])
    try await awaitName("org.earshot", on: bus)
    let start = begin.duration(to: EventLoop.shared.now)

    let trips = try await roundTrips(bus)
    let bare = try await bareRoundTrip()
    try await pause(.seconds(2))
    let before = verifier.status("voluntary_ctxt_switches")
    try await pause(.seconds(10))
    let wakeups = verifier.status("voluntary_ctxt_switches") - before
    let (memory, anonymous) = (verifier.status("VmRSS"), verifier.status("RssAnon"))

    processes.append(
      try startService("visitor", enabled: "no", radio: onAir, arguments: ["--bus-name", "org.earshot.visitor"]))
    try await awaitName("org.earshot.visitor", on: bus)
    let transfer = try await transfer(SystemRandomBytes.text(1 << 20), bus)
    let chunks = try await chunksOverBlueZ(address)

    return [
      .less("start to READY (name owned)", start / .milliseconds(1), "ms", goal: 100),
      .less("D-Bus round trip into earshotd, median", trips.own, "us", goal: 120),
      .less("D-Bus round trip between two libdbus programs", bare, "us"),
      .less("D-Bus round trip to the bus itself, median", trips.bus, "us"),
      .less("idle RSS", Double(memory) / 1024, "MiB", goal: 13),
      .less("idle, anonymous memory", Double(anonymous) / 1024, "MiB", goal: 2),
      .less("wake-ups while idle", Double(wakeups) / 10, "1/s"),
      .less("1 MiB credential, wallet to D-Bus client, no latency", transfer / .milliseconds(1), "ms", goal: 1000),
    ] + chunks
  }

  // MARK: Measuring

  private func roundTrips(_ bus: BusConnection) async throws -> (own: Double, bus: Double) {
    func median(_ destination: String, _ path: ObjectPath, _ interface: String, _ method: String) async throws -> Double
    {
      var times: [Double] = []
      for _ in 0..<3000 {
        let begin = EventLoop.shared.now
        _ = try await bus.call(destination, path, interface, method)
        times.append(begin.duration(to: EventLoop.shared.now) / .microseconds(1))
      }
      return times.sorted()[times.count / 2]
    }
    return (
      // The service checks the caller of this method. It already waits for wallets, so the method only returns the URI.
      try await median("org.earshot", "/org/earshot/verifier", "org.earshot.Verifier1", "Start"),
      try await median("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Peer", "Ping")
    )
  }

  /// The round-trip time of the bus without our code.
  private func bareRoundTrip() async throws -> Double {
    let (program, address) = ("\(programs)/libdbus-roundtrip", "unix:path=\(directory)/bus")
    let (said, figure) = ("\(directory)/ready", "\(directory)/figure")
    let echo = try Process(program, ["serve", address], output: said)
    defer { withExtendedLifetime(echo) {} }
    _ = try await awaitLine(said)
    let caller = try Process(program, ["call", address, "3000"], output: figure)
    defer { withExtendedLifetime(caller) {} }
    guard let median = Double(try await awaitLine(figure)) else {
      throw Trouble(description: "the libdbus round trip was not measured")
    }
    return median
  }

  private func awaitLine(_ path: String) async throws -> String {
    for _ in 0..<500 {
      if let file = fopen(path, "r") {
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 64)
        if fgets(&line, 64, file) != nil {
          let bytes = line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
          if bytes.last == UInt8(ascii: "\n") { return String(decoding: bytes.dropLast(), as: UTF8.self) }
        }
      }
      try await pause(.milliseconds(10))
    }
    throw Trouble(description: "\(path) has no output")
  }

  /// Time from the call of `SendFile` until this program has the credential.
  func transfer(
    _ credential: [UInt8], _ bus: BusConnection, to name: String = "org.earshot",
    from visitor: String = "org.earshot.visitor"
  ) async throws -> Duration {
    let verifier: ObjectPath = "/org/earshot/verifier"
    let values = try await bus.call(
      name, verifier, "org.freedesktop.DBus.Properties", "Get",
      [.string("org.earshot.Verifier1"), .string("ConnectionUri")])
    let uri = values.first?.asString ?? ""
    let received = Arrival()
    let watch = bus.subscribe(
      SignalMatch(sender: name, interface: "org.earshot.Verifier1", member: "CredentialReceived")
    ) { received.give($0.arguments.first?.asObjectPath) }
    defer { watch.cancel() }
    // The match rule may not be in force until the bus has answered this.
    _ = try await bus.call(name, verifier, "org.freedesktop.DBus.Peer", "Ping")
    let file = try FileDescriptor.sealed(credential, name: "bench")
    let begin = EventLoop.shared.now
    _ = try await bus.call(
      visitor, "/org/earshot/wallet", "org.earshot.Wallet1", "SendFile",
      [.string(uri), .descriptor(file)])
    guard let path = await received.take(within: .seconds(30)) else {
      throw Trouble(description: "no credential arrived")
    }
    let answer = try await bus.call(name, path, "org.earshot.Credential1", "OpenCredential")
    let text = try answer.first?.asDescriptor?.readAll(limit: 64 << 20)
    guard text == credential else { throw Trouble(description: "a different credential arrived") }
    return begin.duration(to: EventLoop.shared.now)
  }

  private func chunksOverBlueZ(_ address: BusAddress) async throws -> [Figure] {
    let bluez = BlueZBench(address)
    try await bluez.start()
    defer { bluez.stop() }
    let name = "org.earshot.bluez"
    let service = try startService(
      "bluez", enabled: "yes", radio: "Backend=bluez", arguments: ["--bus-name", name])
    for _ in 0..<500 where !bluez.isReady { try await pause(.milliseconds(10)) }
    return try await bluez.measure(service, name)
  }

  // MARK: Environment

  func startBus() async throws -> (bus: BusConnection, address: BusAddress) {
    mkdir(directory, 0o700)
    let configuration = """
      <busconfig><type>session</type><listen>unix:path=\(directory)/bus</listen><auth>EXTERNAL</auth>
      <policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>
      """
    try write(configuration, to: "\(directory)/bus.conf")
    busProcess = try Process("dbus-daemon", ["--config-file=\(directory)/bus.conf", "--nofork", "--nopidfile"])
    for _ in 0..<500 where access("\(directory)/bus", F_OK) != 0 { usleep(10_000) }
    let address = BusAddress.address("unix:path=\(directory)/bus")
    let bus = BusConnection(address: address)
    bus.connect()
    try await bus.ready()
    return (bus, address)
  }

  func startService(
    _ name: String, enabled: String, radio: String, mesh: String = "", arguments: [String]
  ) throws -> Process {
    let file = "\(directory)/\(name).conf"
    let settings = """
      [Radio]
      \(radio)
      [Verifier]
      Enabled=\(enabled)
      Decision=accept
      [Store]
      Directory=\(directory)/\(name)
      \(mesh)

      """
    try write(settings, to: file)
    let process = try Process(
      "\(programs)/earshotd", ["--bus", "unix:path=\(directory)/bus", "--config", file] + arguments)
    processes.append(process)
    return process
  }

  func write(_ text: String, to path: String) throws {
    guard let file = fopen(path, "w") else { throw Trouble(description: "\(path) cannot be written") }
    fputs(text, file)
    fclose(file)
  }

  func awaitName(_ name: String, on bus: BusConnection) async throws {
    let arrival = Arrival()
    let watch = bus.watchName(name) { if $0 != nil { arrival.give("/") } }
    defer { watch.cancel() }
    if await arrival.take(within: .seconds(10)) == nil {
      throw Trouble(description: "the name \(name) did not appear on the bus")
    }
  }

  func awaitFile(_ path: String) async throws {
    for _ in 0..<500 {
      if access(path, F_OK) == 0 { return }
      try await pause(.milliseconds(10))
    }
    throw Trouble(description: "the file \(path) did not appear")
  }

  func pause(_ duration: Duration) async throws {
    try await Task.sleep(for: duration)
  }

  func cleanUp() {
    processes = []
    busProcess = nil
    if let removal = try? Process("rm", ["-rf", directory]) { removal.wait() }
  }
}

/// Waits for a single event, with a time limit.
@LoopActor
private final class Arrival {
  private var path: ObjectPath?
  private var waiter: CheckedContinuation<ObjectPath?, Never>?
  private var timer: Registration?

  func give(_ path: ObjectPath?) {
    self.path = path
    waiter?.resume(returning: path)
    waiter = nil
  }

  func take(within limit: Duration) async -> ObjectPath? {
    if let path { return path }
    return await withCheckedContinuation { continuation in
      waiter = continuation
      timer = EventLoop.shared.schedule(after: limit) { [weak self] in self?.give(nil) }
    }
  }
}

/// Measures a service that receives the local broadcast channel, and one that sends in it during a transfer.
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

  /// Transfers a credential to a kiosk without the local broadcast channel, and to one that sends messages
  /// continuously, alternating.
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
      // A refusal is expected, because the queue is full most of the time.
      _ = try? await bus.call(
        talking, "/org/earshot/broadcast", "org.earshot.Broadcast1", "Send", [.string("message \(turn)")])
      with.append(try await transfer(credential, bus, to: talking, from: visitor))
    }
    let (bare, beside) = (without.sorted()[without.count / 2], with.sorted()[with.count / 2])
    return .more("1 MiB goodput with broadcasts, ratio to without", bare / beside, "", goal: 0.95)
  }
}

/// Measures a mesh node without messages: its cost in addition to the verifier alone.
extension ServiceBench {
  /// Number of columns of the grid of services: eleven by eleven. The measured one in the middle has eight neighbours,
  /// and receives announces of all.
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
    // After this time the nodes have met, and their initial load does not affect the measurement.
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

  /// Reads the number of a service's links, and of its nearby peers.
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
