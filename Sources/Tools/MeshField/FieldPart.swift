import Bitchat
import BitchatWire
import Common
import Crypto

/// The nodes and events of one part of the simulation. It is a value type, so that Swift checks exclusive access once
/// per step and not at each use.
struct FieldPart: Sendable {
  /// The effects of one step on other parts, and the time of the next event.
  struct Step: Sendable {
    /// Events for nodes of other parts, by part.
    var outgoing: [[FieldEvent]]
    /// Links that engines have cut.
    var cut: [LinkNumber] = []
    /// Time of the next event; nil without any.
    var next: Int64?
  }

  /// Time after an event in which a further event does not count as a wake-up, in nanoseconds.
  private static let awake: Int64 = 1_000_000

  private let parts: Int
  private let part: Int
  private let air: AirSettings
  private let latency: ClosedRange<Int64>
  private let frameTime: Int64
  private let textBytes: Int
  /// The nodes of this part: those whose number modulo the number of parts is the number of the part.
  private var nodes: [FieldNode]
  /// Identities of all nodes of the field.
  private let people: [Person]
  private var queue = FieldQueue()
  private var tally = FieldTally()
  private var step = Step(outgoing: [])
  private var now: Int64 = 0
  /// Maximum of each kind of stored records in any node, as seen by the inspections.
  private var most = MeshEngine.Holdings()

  /// Public identity of a node.
  struct Person: Sendable {
    let id: PeerID
    let noiseKey: X25519.PublicKey
    let signingKey: Ed25519.PublicKey

    init(_ identity: MeshEngine.Identity) {
      (id, noiseKey, signingKey) = (identity.id, identity.noiseKey.publicKey, identity.signingKey.publicKey)
    }
  }

  init(part: Int, of parts: Int, nodes: [FieldNode], people: [Person], _ scenario: Scenario) {
    (self.part, self.parts, self.nodes, self.people) = (part, parts, nodes, people)
    air = scenario.air
    latency =
      scenario.air.latency.lowerBound.wholeNanoseconds...scenario.air.latency.upperBound.wholeNanoseconds
    frameTime = scenario.air.frameTime.wholeNanoseconds
    textBytes = scenario.talk.bytes
  }

  /// Handles the events before `end`, in nanoseconds since the start.
  mutating func run(_ incoming: [FieldEvent], until end: Int64) -> Step {
    step = Step(outgoing: Array(repeating: [], count: parts))
    for event in incoming { queue.add(event) }
    while let (key, event) = queue.popFirst(before: end) {
      now = key.time
      let place = Int(key.node) / parts
      if let event { handle(event.what, place) } else { handleTimer(key.time, place) }
    }
    step.next = queue.firstTime
    return step
  }

  /// Returns the final state and the results.
  mutating func finish() -> (nodes: [FieldNode], tally: FieldTally, most: MeshEngine.Holdings) {
    look()
    return (nodes, tally, most)
  }

  /// Updates the maximum holdings.
  mutating func look() {
    for node in nodes { most.raise(to: node.engine.holdings) }
  }

  // MARK: Events

  private mutating func handleTimer(_ time: Int64, _ place: Int) {
    if nodes[place].isDue(at: time) { give(.timer, place) } else { setTimer(place) }
  }

  private mutating func handle(_ what: FieldEvent.What, _ place: Int) {
    switch what {
    case .frame(let bytes, let link):
      guard nodes[place].port(link) != nil else { return }
      tally.countArrived(bytes)
      nodes[place].flooder?.hear(bytes)
      give(.received(bytes, on: LinkID(link)), place)
    case .room(let link): sendWaiting(link, place)
    case .open(let link, let other, let isOurs):
      nodes[place].ports.append(FieldNode.Port(link: link, other: other))
      give(.linkOpened(LinkID(link), frameLimit: air.frameBytes, isOurs: isOurs), place)
    case .close(let link), .hungUp(let link):
      guard let port = nodes[place].port(link) else { return }
      nodes[place].ports.remove(at: port)
      give(.linkClosed(LinkID(link)), place)
    case .arrive:
      nodes[place].isUp = true
      give(.clock(isTrusted: true), place)
      give(.start, place)
    case .leave:
      nodes[place].isUp = false
      nodes[place].ports = []
      give(.stop, place)
    case .say(let number): say(number, place)
    case .tell(let number, let other): tell(number, to: other, place)
    case .flood: flood(place)
    }
  }

  private mutating func give(_ event: MeshEngine.Event, _ place: Int) {
    if now - nodes[place].wokeAt >= Self.awake {
      tally.wakeUps += 1
      if case .timer = event { tally.timedWakeUps += 1 }
    }
    nodes[place].wokeAt = now
    carryOut(nodes[place].engine.handle(event, at: Instant(nanoseconds: now), time: time), place)
    setTimer(place)
  }

  /// Milliseconds since 1970, equal for all nodes.
  private var time: UInt64 { FieldRun.epoch + UInt64(now / 1_000_000) }

  private mutating func setTimer(_ place: Int) {
    guard let at = nodes[place].setTimer(at: now) else { return }
    queue.addTimer(at: at, of: nodes[place].number)
  }

  private mutating func carryOut(_ actions: [MeshEngine.Action], _ place: Int) {
    for action in actions {
      switch action {
      case .send(let bytes, let link, let kind): send(bytes, on: link.number, kind, place)
      case .cut(let link, _): hangUp(link.number, place)
      case .heard(let message):
        guard let number = FieldText.number(of: message.text, "#"), nodes[place].heard.indices.contains(number),
          nodes[place].heard[number] == 0
        else { continue }
        nodes[place].heard[number] = stamp | (message.isLate ? FieldNode.lateBit : 0)
      case .told(let message, let peer, _):
        if let number = FieldText.number(of: message.text, "$") {
          nodes[place].told[number] = min(nodes[place].told[number] ?? .max, stamp)
        }
        give(.kept(message.id, from: peer), place)
      case .toldAgain(let id, let peer): give(.kept(id, from: peer), place)
      case .progress(let number, .delivered): tally.receipts[Int(number)] = stamp
      // Simulated nodes do not send files, ping or ask for proofs, and have no uplink.
      case .uplink, .uplinkDone, .wentByUplink, .file, .arriving, .arrivalEnded, .fileState, .fileProgress, .withdraw,
        .pong, .pingLost, .proof, .session:
        break
      case .bound, .peer, .gone, .favourited, .trouble, .noticeSettled, .receiptSettled, .progress, .dated, .keep,
        .state:
        break
      }
    }
  }

  private var stamp: UInt32 { UInt32(now / 1_000_000) + 1 }

  // MARK: Messages

  private mutating func say(_ number: Int, _ place: Int) {
    let text = FieldText.text("#", number, bytes: textBytes)
    guard nodes[place].isUp,
      let said = nodes[place].engine.say(text, at: Instant(nanoseconds: now), time: time)
    else {
      tally.unsaid.append(number)
      return
    }
    for case .send(let bytes, _, _) in said.actions { tally.numbers[FieldTally.MessageKey(bytes)] = number }
    carryOut(said.actions, place)
    setTimer(place)
  }

  private mutating func tell(_ number: Int, to other: Int32, _ place: Int) {
    let text = FieldText.text("$", number, bytes: textBytes)
    let recipient = people[Int(other)]
    // The nodes must know each other, because a message cannot be sealed for an unknown key.
    nodes[place].engine.restorePin(
      of: recipient.id, recipient.signingKey, isProven: true, at: Instant(nanoseconds: now))
    nodes[place].engine.restoreNoiseKey(of: recipient.id, recipient.noiseKey)
    guard nodes[place].isUp,
      let actions = try? nodes[place].engine.tell(
        text, to: recipient.id, as: UInt32(number), at: Instant(nanoseconds: now), time: time)
    else { return }
    carryOut(actions, place)
    setTimer(place)
  }

  private mutating func flood(_ place: Int) {
    guard nodes[place].flooder != nil else { return }
    for port in nodes[place].ports.map(\.link) {
      let (identity, time) = (nodes[place].engine.identity, time)
      let frames = nodes[place].flooder?.frames(identity, at: time) ?? []
      for frame in frames { send(frame, on: port, .publicChat, place) }
    }
    let next = now + Flooder.pause.wholeNanoseconds
    queue.add(FieldEvent(time: next, node: nodes[place].number, order: nodes[place].nextOrder(), what: .flood))
  }

  // MARK: Links

  private mutating func send(_ bytes: [UInt8], on link: LinkNumber, _ kind: PacketClass, _ place: Int) {
    guard let port = nodes[place].port(link) else { return }
    if nodes[place].ports[port].freeAt <= now, nodes[place].ports[port].queue?.isEmpty ?? true {
      return depart(bytes, port, place)
    }
    var queue = nodes[place].ports[port].queue.take() ?? LinkQueue()
    tally.dropped += UInt64(queue.append(bytes, as: kind).count)
    nodes[place].ports[port].queue = queue
    waitForRoom(port, place)
  }

  private mutating func waitForRoom(_ port: Int, _ place: Int) {
    guard !nodes[place].ports[port].isWaiting, nodes[place].ports[port].queue?.isEmpty == false else { return }
    nodes[place].ports[port].isWaiting = true
    queue.add(
      FieldEvent(
        time: max(now, nodes[place].ports[port].freeAt), node: nodes[place].number, order: nodes[place].nextOrder(),
        what: .room(nodes[place].ports[port].link)))
  }

  private mutating func sendWaiting(_ link: LinkNumber, _ place: Int) {
    guard let port = nodes[place].port(link) else { return }
    nodes[place].ports[port].isWaiting = false
    guard let bytes = nodes[place].ports[port].queue?.first else { return }
    nodes[place].ports[port].queue?.removeFirst()
    if nodes[place].ports[port].queue?.isEmpty == true { nodes[place].ports[port].queue = nil }
    depart(bytes, port, place)
    waitForRoom(port, place)
  }

  private mutating func depart(_ bytes: [UInt8], _ port: Int, _ place: Int) {
    tally.countSent(bytes)
    nodes[place].ports[port].freeAt = now + frameTime
    guard !nodes[place].air.chance(percent: air.loss) else {
      tally.lost += 1
      return
    }
    let due = max(now + nodes[place].air.number(latency), nodes[place].ports[port].lastArrival)
    nodes[place].ports[port].lastArrival = due
    let link = nodes[place].ports[port].link
    emit(.frame(bytes, on: link), to: nodes[place].ports[port].other, at: due, place)
  }

  private mutating func hangUp(_ link: LinkNumber, _ place: Int) {
    guard let port = nodes[place].port(link) else { return }
    let other = nodes[place].ports[port].other
    nodes[place].ports.remove(at: port)
    tally.cuts += 1
    step.cut.append(link)
    emit(.hungUp(link), to: other, at: now + latency.lowerBound, place)
  }

  private mutating func emit(_ what: FieldEvent.What, to other: Int32, at time: Int64, _ place: Int) {
    let event = FieldEvent(time: time, node: other, order: nodes[place].nextOrder(), what: what)
    let target = Int(other) % parts
    if target == part { queue.add(event) } else { step.outgoing[target].append(event) }
  }
}

extension MeshEngine.Holdings {
  /// Sets each value to the maximum of both.
  mutating func raise(to other: Self) {
    for path in Self.all { self[keyPath: path.path] = max(self[keyPath: path.path], other[keyPath: path.path]) }
  }

  /// All values by name.
  static var all: [(name: String, path: WritableKeyPath<Self, Int>)] {
    [
      ("peers", \.peers), ("pins", \.pins), ("announces", \.announces), ("messages", \.messages),
      ("fragments", \.fragments), ("archiveBytes", \.archiveBytes), ("recentPackets", \.recentPackets),
      ("pendingRelays", \.pendingRelays), ("pendingBytes", \.pendingBytes), ("assemblies", \.assemblies),
      ("assemblyBytes", \.assemblyBytes), ("waitingChat", \.waitingChat), ("pacedFrames", \.pacedFrames),
    ]
  }
}
