import Calendar
import CommandLine
import DBus
import Loop
import Terminal
import Tool

/// The commands of `earshot presence`. The client is connected.
@LoopActor
struct PresenceCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) { (self.client, self.line) = (client, line) }

  private var isJSON: Bool { line.flag("json") }

  func show() async throws(Failure) -> ExitCode {
    let properties = try await client.properties(PresenceNames.path, PresenceNames.interface)
    let view = PresenceView(properties)
    if isJSON { Output.json(view.json) } else { Output.write(view.text) }
    return .ok
  }

  func key() async throws(Failure) -> ExitCode {
    let properties = try await client.properties(PresenceNames.path, PresenceNames.interface)
    let view = PresenceView(properties)
    guard !view.publicKey.isEmpty else { throw Failure(.failed, view.reason) }
    if isJSON {
      Output.json(
        .object([.init("publicKey", .string(view.publicKey)), .init("fingerprint", .string(view.fingerprint))]))
    } else {
      Output.line(view.publicKey)
    }
    return .ok
  }

  func add() async throws(Failure) -> ExitCode {
    let name = line.argument("NAME") ?? ""
    let values = try await call("AddPeer", .string(name), .string(line.argument("KEY") ?? ""))
    guard let path = values.first?.asObjectPath else {
      throw Failure(
        .failed,
        "The service's answer contains no object.")
    }
    let fingerprint = try await client.property(path, PresenceNames.peerInterface, "Fingerprint").asString ?? ""
    report(
      "\(name) is known. Fingerprint: \(fingerprint)",
      [.init("added", .string(name)), .init("fingerprint", .string(fingerprint))])
    return .ok
  }

  func remove() async throws(Failure) -> ExitCode {
    let peer = try await peer()
    try await call("RemovePeer", .objectPath(peer.path))
    report("\(peer.name) is no longer a known peer.", [.init("removed", .string(peer.name))])
    return .ok
  }

  func announce() async throws(Failure) -> ExitCode {
    let names = line.arguments("PEER")
    guard let seconds = UInt32(exactly: line.seconds("for")?.components.seconds ?? 0) else {
      throw Failure(.usage, "--for is too long.")
    }
    try await call("Announce", .strings(names), .uint32(seconds))
    report("Announced to \(names.joined(separator: ", ")).", [.init("announced", .array(names.map { .string($0) }))])
    return .ok
  }

  func silence() async throws(Failure) -> ExitCode {
    try await call("Silence")
    report("Nothing is announced.", [.init("announced", .array([]))])
    return .ok
  }

  func peers() async throws(Failure) -> ExitCode {
    let peers = try await list()
    if isJSON {
      Output.json(.array(peers.map(\.json)))
      return .ok
    }
    guard !peers.isEmpty else {
      Output.line("No peer is known. earshot presence add adds one.")
      return .ok
    }
    var table = TextTable([.init("NAME"), .init("NEARBY"), .init("LAST HEARD"), .init("FINGERPRINT")])
    for peer in peers {
      table.append([
        peer.name, peer.isNearby ? peer.ways.joined(separator: ", ") : "no",
        peer.lastHeard == 0 ? "" : LocalTime.text(peer.lastHeard), peer.fingerprint,
      ])
    }
    let terminal = Output.terminal
    Output.write(table.text(width: terminal.isTerminal ? terminal.width : nil))
    return .ok
  }

  func connect() async throws(Failure) -> ExitCode {
    let peer = try await peer()
    let values = try await call("Open", .objectPath(peer.path), .string(line.argument("SERVICE") ?? ""))
    guard let descriptor = values.first?.asDescriptor else {
      throw Failure(
        .failed,
        "The service's answer contains no stream.")
    }
    // The descriptor is closed with the last reference to it, so the reference is held during the copy.
    let isComplete = withExtendedLifetime(descriptor) { StreamPump.run(descriptor.raw) }
    guard isComplete else { throw Failure(.failed, "The stream was cut off.") }
    return .ok
  }

  func serve() async throws(Failure) -> ExitCode {
    let events = PresenceEvents(client)
    defer { events.cancel() }
    let (service, address) = (line.argument("SERVICE") ?? "", line.argument("ADDRESS") ?? "")
    try await call("Register", .string(service), .string(address))
    report(
      "Streams to \(service) are connected to \(address), until Ctrl-C.",
      [.init("service", .string(service)), .init("address", .string(address))])
    while true {
      if case .gone = await events.next() { throw Failure(.notRunning, "The service ended.") }
    }
  }

  func watch() async throws(Failure) -> ExitCode {
    let events = PresenceEvents(client)
    defer { events.cancel() }
    try await call("Watch")
    var nearby: Set<String> = []
    var isFirst = true
    while true {
      if !isFirst, case .gone = await events.next() { throw Failure(.notRunning, "The service ended.") }
      let peers = try await list()
      for peer in peers where peer.isNearby != nearby.contains(peer.name) { show(peer) }
      nearby = Set(peers.filter(\.isNearby).map(\.name))
      isFirst = false
    }
  }

  private func show(_ peer: PeerView) {
    if isJSON {
      Output.json(peer.json, pretty: false)
    } else {
      let ways = peer.ways.joined(separator: " and ")
      Output.line(peer.isNearby ? "\(peer.name) is nearby, over \(ways)." : "\(peer.name) is no longer nearby.")
    }
  }

  // MARK: Calls

  @discardableResult
  private func call(_ method: String, _ arguments: DBusValue...) async throws(Failure) -> [DBusValue] {
    try await client.call(PresenceNames.path, PresenceNames.interface, method, arguments)
  }

  /// Lists all known peers, by name.
  private func list() async throws(Failure) -> [PeerView] {
    let values = try await client.call(
      PresenceNames.path, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    return (values.first?.asDictionary ?? [:]).compactMap { PeerView(path: $0.key, $0.value) }
      .sorted { $0.name < $1.name }
  }

  /// Finds the peer that the command names.
  private func peer() async throws(Failure) -> PeerView {
    let name = line.argument("PEER") ?? ""
    guard let peer = try await list().first(where: { $0.name == name }) else {
      throw Failure(.failed, "There is no known peer with this name. earshot presence peers lists them.")
    }
    return peer
  }

  private func report(_ sentence: String, _ members: [JSONValue.Member]) {
    if isJSON { Output.json(.object(members), pretty: false) } else { Output.line(sentence) }
  }
}

/// Signals of the service, and its end. Several unhandled changes count as one event.
@LoopActor
final class PresenceEvents {
  enum Event {
    case changed
    /// The service has lost its name on the bus.
    case gone
  }

  private var event: Event?
  private var waiter: CheckedContinuation<Void, Never>?
  private var registrations: [Registration] = []
  private var hasOwner = false

  /// Subscribes at once, so that no signal is lost between this call and a later request.
  init(_ client: Client) {
    registrations = [
      client.onSignal { [weak self] _ in self?.add(.changed) },
      client.bus.watchName(client.service) { [weak self] in self?.ownerChanged($0 != nil) },
    ]
  }

  /// Returns the next event, waiting for one if there is none.
  func next() async -> Event {
    while true {
      if let event {
        if case .changed = event { self.event = nil }
        return event
      }
      await withCheckedContinuation { waiter = $0 }
    }
  }

  func cancel() { for registration in registrations { registration.cancel() } }

  private func ownerChanged(_ isThere: Bool) {
    // The name has no owner, too, before its first lookup.
    if hasOwner, !isThere { add(.gone) }
    hasOwner = hasOwner || isThere
  }

  private func add(_ event: Event) {
    if case .gone? = self.event { return }
    self.event = event
    let waiter = waiter
    self.waiter = nil
    waiter?.resume()
  }
}
