import Common
import Radio
import Testing

@testable import HCI

@Suite("Random events in the packet scheduler")
struct RandomPacketTests {
  /// Conditions of a run.
  struct Conditions: Sendable {
    var buffers: Int
    /// Whether the kernel sends packets of its own on the links, which are reported in the same events.
    var hasForeignReports = false
    /// Tenths of the packets that are never reported.
    var unreported = 0
    /// Tenths of the sends for which the kernel has no buffer space.
    var busy = 0
    /// Whether the raw socket sometimes misses a disconnection.
    var missesEnds = false
  }

  static let conditions = [
    Conditions(buffers: 1), Conditions(buffers: 2), Conditions(buffers: 8),
    Conditions(buffers: 2, hasForeignReports: true),
    Conditions(buffers: 3, unreported: 3), Conditions(buffers: 2, busy: 4), Conditions(buffers: 2, missesEnds: true),
    Conditions(buffers: 4, hasForeignReports: true, unreported: 2, busy: 2, missesEnds: true),
  ]

  @Test(
    "In 100 runs of 300 random events each value has exactly one outcome, on the link that it was sent to",
    arguments: conditions.indices)
  func runs(_ number: Int) {
    for seed in 0..<100 as Range<UInt64> {
      var world = World(Self.conditions[number], seed: seed * 8 + UInt64(number))
      for _ in 0..<300 { world.step() }
      world.finish()
      guard world.faults.isEmpty else {
        Issue.record("seed \(seed): \(world.faults)")
        return
      }
    }
  }

  /// Peers whose links open and close on few handles, a controller, and a kernel.
  struct World {
    private struct Link {
      var handle: UInt16
      var generation: Int
      /// A partly received frame: its value, and the number of missing bytes.
      var open: (value: UInt64, missing: Int)?
    }

    /// A value without an outcome, and the link at the time of its offer.
    private struct Value {
      var address: BluetoothAddress
      var generation: Int?
      var isComplete = false
    }

    let conditions: Conditions
    private(set) var faults: [String] = []
    private var random: SplitMix64
    private var packets = PacketScheduler()
    private var now = Instant.zero
    private var links: [BluetoothAddress: Link] = [:]
    private var generation = 0
    /// Handles of a peer on which a disconnection was missed. The peer does not reuse them, because a reuse would be
    /// invisible.
    private var missed: [BluetoothAddress: Set<UInt16>] = [:]
    /// Packets in the controller, by handle, without those that are never reported.
    private var held: [UInt16] = []
    private var isListening = false
    private var wake: Instant?
    private var values: [UInt64: Value] = [:]
    private var lastSent: [BluetoothAddress: UInt64] = [:]
    private var lastID: UInt64 = 0

    init(_ conditions: Conditions, seed: UInt64) {
      self.conditions = conditions
      random = SplitMix64(seed: seed)
      handle(.buffers(LEBuffers(length: 27, count: conditions.buffers)))
    }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }

    mutating func step() {
      let address = BluetoothAddress(UInt64(1 + below(4)))
      switch below(12) {
      case 0...4: offer(to: address)
      case 5...7: report()
      case 8: if links[address] == nil { connect(address) } else { disconnect(address) }
      case 9 where links[address] != nil && below(3) == 0:
        // The handle is reused at once, for the same peer or another one.
        disconnect(address)
        connect(BluetoothAddress(UInt64(1 + below(4))))
      case 10: pass(.milliseconds(below(120)))
      case 11 where below(4) == 0:
        // The program gets the disconnection before or after the raw socket.
        if below(2) == 0 { disconnect(address) }
        if links[address] == nil { handle(.forgotten(address)) }
      default: if conditions.hasForeignReports { foreign() }
      }
    }

    /// Advances time until no packet waits any more.
    mutating func finish() {
      for _ in 0..<500 { pass(.milliseconds(100)) }
      if let id = values.keys.min() { faults.append("value \(id) has no outcome") }
      if packets.inFlight > 0 || isListening || wake != nil { faults.append("it does not come to rest") }
    }

    // MARK: Random events

    private mutating func offer(to address: BluetoothAddress) {
      lastID += 1
      values[lastID] = Value(address: address, generation: links[address]?.generation)
      let value = [UInt8](repeating: UInt8(truncatingIfNeeded: lastID), count: below(3) == 0 ? 30 + below(150) : 1)
      handle(.offered(lastID, ATTNotification(handle: 1, value: value), to: address))
    }

    private mutating func report() {
      guard !held.isEmpty else { return }
      let handle = held.remove(at: below(held.count))
      if isListening { self.handle(.completed([.init(handle: handle, count: 1)])) }
    }

    private mutating func foreign() {
      guard isListening, let link = links.values.randomElement(using: &random) else { return }
      handle(.completed([.init(handle: link.handle, count: 1 + below(3))]))
    }

    private mutating func connect(_ address: BluetoothAddress) {
      guard links[address] == nil else { return }
      let used = Set(links.values.map(\.handle))
      let free = (0x40...0xEF).map(UInt16.init).filter { !used.contains($0) && missed[address]?.contains($0) != true }
      guard let handle = free.first else { return }
      generation += 1
      links[address] = Link(handle: handle, generation: generation)
    }

    private mutating func disconnect(_ address: BluetoothAddress) {
      guard let link = links.removeValue(forKey: address) else { return }
      held.removeAll { $0 == link.handle }
      if conditions.missesEnds, below(2) == 0 {
        missed[address, default: []].insert(link.handle)
        return
      }
      if isListening { handle(.disconnected(handle: link.handle)) }
    }

    /// Advances time, and lets the controller report everything that it will report.
    private mutating func pass(_ duration: Duration) {
      while !held.isEmpty { report() }
      let end = now.advanced(by: duration)
      while let wake, wake <= end {
        now = wake
        handle(.woken)
      }
      now = end
    }

    // MARK: The kernel

    private mutating func handle(_ event: PacketScheduler.Event) {
      var events = [event]
      while !events.isEmpty {
        for action in packets.handle(events.removeFirst(), at: now) {
          switch action {
          case .listen(let isOn): isListening = isOn
          case .lookUp: events.append(lookUp())
          case .send(let packet): events.append(send(packet))
          case .wake(let instant): wake = instant
          case .refuse(let id): decide(id, isSent: false)
          case .decided(let id, let outcome): decide(id, isSent: outcome == .sent)
          case .room: break
          }
        }
      }
    }

    private mutating func lookUp() -> PacketScheduler.Event {
      if below(10) < conditions.busy { return .notFound(.busy("no room")) }
      return .found(links.map { HCILink(handle: $1.handle, address: $0) })
    }

    private mutating func send(_ packet: [UInt8]) -> PacketScheduler.Event {
      if below(10) < conditions.busy { return .notSent(.busy("no room")) }
      let (handle, isFirst, body) = (UInt16(packet[1]), packet[2] == 0, packet.dropFirst(5))
      guard let address = links.first(where: { $1.handle == handle })?.key, var link = links[address] else {
        faults.append("a packet to no link")
        return .sent
      }
      if isFirst {
        if link.open != nil { faults.append("a frame amid another") }
        link.open = (UInt64(packet[12]), 4 + Int(packet[5]) - body.count)
        begin(UInt64(packet[12]), on: link, of: address)
      } else if var open = link.open {
        if body.contains(where: { UInt64($0) != open.value }) { faults.append("two values in one frame") }
        open.missing -= body.count
        link.open = open
      } else {
        faults.append("a continuation of nothing")
      }
      if let open = link.open, open.missing == 0 {
        values[open.value]?.isComplete = true
        link.open = nil
      }
      links[address] = link
      if below(10) >= conditions.unreported { held.append(handle) }
      let isExact = conditions.unreported == 0 && !conditions.hasForeignReports && !conditions.missesEnds
      if isExact, held.count > conditions.buffers { faults.append("a packet without a buffer") }
      return .sent
    }

    private mutating func begin(_ id: UInt64, on link: Link, of address: BluetoothAddress) {
      guard let value = values[id] else { return faults.append("a value that has its outcome") }
      if value.address != address { faults.append("a value for another peer") }
      // Without a list from the kernel at the time of the offer, the recipient may be any of the peer's links.
      if conditions.busy == 0, value.generation != link.generation { faults.append("a value for an earlier link") }
      if let last = lastSent[address], last >= id { faults.append("a value that overtook another") }
      lastSent[address] = id
    }

    private mutating func decide(_ id: UInt64, isSent: Bool) {
      guard let value = values.removeValue(forKey: id) else { return faults.append("value \(id) has two outcomes") }
      if value.isComplete != isSent { faults.append("value \(id) has the wrong outcome") }
    }
  }
}
