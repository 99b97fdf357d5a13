import Common
import Crypto
import Foundation

@testable import Nostr

/// A simulated relay: it stores events, and sends those that match a subscription.
struct FakeRelay {
  struct Subscription: Equatable {
    let node: Int
    let link: RelayLink
    let id: String
    let kinds: [Int]
    let recipients: [String]
    let geohashes: [String]
  }

  var events: [(json: String, object: [String: Any])] = []
  var subscriptions: [Subscription] = []
  /// Number of subscriptions that the relay received; `events` has the received events.
  var requests = 0
  /// Whether connections to the relay succeed.
  var isUp = true
  /// Whether the relay accepts events; with `isSilent` it answers nothing at all.
  var accepts = true
  var isSilent = false
  /// The challenge that the relay sends to each new connection (`AUTH`); nil for none.
  var challenge: String?
  var authentications: [[String: Any]] = []

  static func array(_ text: String) -> [Any] {
    (try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [Any]) ?? []
  }

  /// Takes a message of a client; returns messages for clients.
  mutating func receive(_ text: String, from node: Int, _ link: RelayLink) -> [(Int, RelayLink, String)] {
    guard !isSilent else { return [] }
    let message = Self.array(text)
    switch message.first as? String {
    case "REQ":
      requests += 1
      guard let id = message[1] as? String, let filter = message[2] as? [String: Any] else { return [] }
      let subscription = Subscription(
        node: node, link: link, id: id, kinds: filter["kinds"] as? [Int] ?? [],
        recipients: filter["#p"] as? [String] ?? [], geohashes: filter["#g"] as? [String] ?? [])
      subscriptions.append(subscription)
      let stored = events.filter { Self.admits(subscription, $0.object) }.suffix(filter["limit"] as? Int ?? 0)
      return stored.map { (node, link, "[\"EVENT\",\"\(id)\",\($0.json)]") } + [(node, link, "[\"EOSE\",\"\(id)\"]")]
    case "CLOSE":
      subscriptions.removeAll { $0.node == node && $0.link == link && $0.id == message[1] as? String }
      return []
    case "EVENT":
      guard let object = message[1] as? [String: Any], let id = object["id"] as? String else { return [] }
      guard accepts else { return [(node, link, "[\"OK\",\"\(id)\",false,\"blocked: no\"]")] }
      let json = String(text.dropFirst("[\"EVENT\",".count).dropLast())
      events.append((json, object))
      let live = subscriptions.filter { Self.admits($0, object) }
      return [(node, link, "[\"OK\",\"\(id)\",true,\"\"]")]
        + live.map { ($0.node, $0.link, "[\"EVENT\",\"\($0.id)\",\(json)]") }
    case "AUTH":
      if let object = message[1] as? [String: Any] { authentications.append(object) }
      return []
    default: return []
    }
  }

  private static func admits(_ subscription: Subscription, _ event: [String: Any]) -> Bool {
    guard let kind = event["kind"] as? Int, subscription.kinds.contains(kind) else { return false }
    let tags = event["tags"] as? [[String]] ?? []
    func names(_ wanted: [String], _ tag: String) -> Bool {
      wanted.isEmpty || tags.contains { $0.count > 1 && $0[0] == tag && wanted.contains($0[1]) }
    }
    return names(subscription.recipients, "p") && names(subscription.geohashes, "g")
  }
}

/// Engines and relays in virtual time.
struct NostrWorld {
  /// The reports of one engine to its owner, in order.
  struct Log {
    var messages: [OpenedMessage] = []
    var channelEvents: [ChannelEvent] = []
    var accepted: [OutboxID] = []
    var expired: [OutboxID] = []
    var connects: [RelayLink] = []
    var closes: [(link: RelayLink, fault: RelayFault?)] = []
    var sent: [(link: RelayLink, text: String, at: Instant)] = []
    var stored: [OutboxID: OutboxEntry] = [:]
    var pings = 0
  }

  static let one = relay("wss://one.example")
  static let two = relay("wss://two.example")

  static func relay(_ text: String) -> RelayAddress {
    guard let address = try? RelayAddress(text) else { preconditionFailure(text) }
    return address
  }

  var nodes: [NostrEngine] = []
  var logs: [Log] = []
  var relays: [RelayAddress: FakeRelay] = [:]
  /// Whether relays answer pings.
  var pongs = true
  private(set) var now = Instant.zero
  private var queue: [(node: Int, event: NostrEngine.Event)] = []

  var wall: UnixTime { UnixTime(seconds: People.now.seconds + now.nanoseconds / 1_000_000_000) }

  init(relays: [RelayAddress] = [NostrWorld.one, NostrWorld.two]) {
    for relay in relays { self.relays[relay] = FakeRelay() }
  }

  /// Adds a node whose key is that of the person with this number.
  @discardableResult
  mutating func add(
    _ number: UInt64, contacts: [UInt64] = [], outbox: [OutboxEntry] = [],
    _ change: (inout NostrEngine.Configuration) throws -> Void = { _ in }
  ) throws -> Int {
    var configuration = NostrEngine.Configuration(relays: relays.keys.sorted { $0.text < $1.text })
    try change(&configuration)
    nodes.append(
      try NostrEngine(
        key: People.key(number), configuration: configuration,
        contacts: Set(contacts.map { try People.key($0).xOnlyKey }), outbox: outbox, at: now,
        random: SeededRandom(seed: number)))
    logs.append(Log())
    return nodes.count - 1
  }

  mutating func handle(_ node: Int, _ event: NostrEngine.Event) {
    queue.append((node, event))
    drain()
  }

  /// Handles all queued events and the resulting intents, without advancing time.
  mutating func drain() {
    while !queue.isEmpty {
      let (node, event) = queue.removeFirst()
      let intents = nodes[node].handle(event, at: now, wall: wall)
      carryOut(node, intents)
    }
  }

  mutating func carryOut(_ node: Int, _ intents: [NostrEngine.Intent]) {
    for intent in intents {
      switch intent {
      case .connect(let link):
        logs[node].connects.append(link)
        guard let relay = relays[link.address] else { continue }
        queue.append((node, relay.isUp ? .opened(link) : .ended(link, reason: "refused")))
        if relay.isUp, let challenge = relay.challenge {
          queue.append((node, .received(link, Array("[\"AUTH\",\"\(challenge)\"]".utf8))))
        }
      case .send(let link, let text):
        logs[node].sent.append((link, text, now))
        for (other, link, text) in relays[link.address]?.receive(text, from: node, link) ?? [] {
          queue.append((other, .received(link, Array(text.utf8))))
        }
      case .ping(let link):
        logs[node].pings += 1
        if pongs { queue.append((node, .ponged(link))) }
      case .close(let link, let fault):
        logs[node].closes.append((link, fault))
        relays[link.address]?.subscriptions.removeAll { $0.node == node && $0.link == link }
      case .message(let message): logs[node].messages.append(message)
      case .channel(let event): logs[node].channelEvents.append(event)
      case .store(let entry): logs[node].stored[entry.id] = entry
      case .erase(let id): logs[node].stored[id] = nil
      case .accepted(let id): logs[node].accepted.append(id)
      case .expired(let id): logs[node].expired.append(id)
      case .notice: break
      }
    }
  }

  /// Runs all timers until the time has passed.
  mutating func run(_ duration: Duration) {
    let end = now.advanced(by: duration)
    drain()
    while true {
      let due = nodes.indices.compactMap { node in
        nodes[node].deadline(at: now, wall: wall).map { (time: max($0, now), node: node) }
      }.min { ($0.time, $0.node) < ($1.time, $1.node) }
      guard let due, due.time <= end else { break }
      now = due.time
      handle(due.node, .timer)
    }
    now = end
  }

  /// Makes the network ready for all nodes, which then connect to their relays.
  mutating func start() {
    for node in nodes.indices { handle(node, .network(isReady: true)) }
  }

  mutating func send(
    _ text: String, id: String, as kind: OutboxEntry.Kind = .message, from node: Int, to number: UInt64
  ) throws {
    let entry = try OutboxEntry(
      id: OutboxID(id), kind: kind, recipient: People.key(number).xOnlyKey, text: text, sentAt: wall)
    let intents = try nodes[node].send(entry, at: now, wall: wall)
    carryOut(node, intents)
    drain()
  }

  mutating func sendReceipt(_ text: String, from node: Int, to number: UInt64) throws {
    try send(text, id: "receipt \(text)", as: .receipt, from: node, to: number)
  }

  /// A message of a relay to a node, in the node's subscription.
  mutating func deliver(_ event: String, to node: Int, _ link: RelayLink) {
    guard let id = subscription(node, link) else { return }
    handle(node, .received(link, Array("[\"EVENT\",\"\(id)\",\(event)]".utf8)))
  }

  func subscription(_ node: Int, _ link: RelayLink) -> String? {
    relays[link.address]?.subscriptions.last { $0.node == node && $0.link == link }?.id
  }

  func count(_ name: String, of node: Int) -> UInt64? { nodes[node].tallies.first { $0.name == name }?.count }

  func state(_ node: Int, _ link: RelayLink) -> RelayState? { nodes[node].relays.first { $0.link == link }?.state }

  /// The times at which a node has sent events to a relay.
  func published(_ node: Int, _ link: RelayLink) -> [Instant] {
    logs[node].sent.filter { $0.link == link && $0.text.hasPrefix("[\"EVENT\"") }.map(\.at)
  }
}
