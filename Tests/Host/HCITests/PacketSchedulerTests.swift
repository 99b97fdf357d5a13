import Common
import Radio
import Testing

@testable import HCI

@Suite("Scheduling of raw HCI packets")
struct PacketSchedulerTests {
  static let anna = BluetoothAddress(0xA)
  static let bert = BluetoothAddress(0xB)
  static let patience = PacketScheduler.patience

  /// A scheduler with a kernel that answers at once, and a record of the results.
  struct Bench {
    var packets = PacketScheduler()
    var now = Instant.zero
    var links: [HCILink] = [HCILink(handle: 0x40, address: anna), HCILink(handle: 0x41, address: bert)]
    var lookUps = 0
    var sent: [[UInt8]] = []
    var outcomes: [UInt64: RawOutcome] = [:]
    var refused: [UInt64] = []
    var rooms: [BluetoothAddress] = []
    var isListening = false
    var wake: Instant?
    /// The errors of the next sends, in order.
    var failures: [HCIError] = []
    private var lastID: UInt64 = 0

    init(_ count: Int, length: Int = 27) { handle(.buffers(LEBuffers(length: length, count: count))) }

    mutating func handle(_ event: PacketScheduler.Event) {
      var events = [event]
      while !events.isEmpty {
        for action in packets.handle(events.removeFirst(), at: now) {
          switch action {
          case .listen(let isOn): isListening = isOn
          case .lookUp:
            lookUps += 1
            #expect(isListening)
            events.append(.found(links))
          case .send(let packet):
            #expect(isListening)
            guard failures.isEmpty else {
              events.append(.notSent(failures.removeFirst()))
              break
            }
            sent.append(packet)
            events.append(.sent)
          case .wake(let instant): wake = instant
          case .refuse(let id): refused.append(id)
          case .decided(let id, let outcome):
            #expect(outcomes[id] == nil)
            outcomes[id] = outcome
          case .room(let address): rooms.append(address)
          }
        }
      }
    }

    /// Offers a value of this number of bytes, whose first byte is its number.
    @discardableResult
    mutating func offer(_ address: BluetoothAddress, _ size: Int = 1) -> UInt64 {
      lastID += 1
      let value = [UInt8](repeating: UInt8(truncatingIfNeeded: lastID), count: size)
      handle(.offered(lastID, ATTNotification(handle: 1, value: value), to: address))
      return lastID
    }

    mutating func complete(_ handle: UInt16, _ count: Int = 1) {
      self.handle(.completed([.init(handle: handle, count: count)]))
    }

    mutating func pass(_ duration: Duration) {
      let end = now.advanced(by: duration)
      while let wake, wake <= end {
        now = wake
        handle(.woken)
        // The scheduler must not request a wake-up in the past, which would repeat endlessly.
        guard self.wake.map({ $0 > now }) ?? true else {
          Issue.record("at \(now) it is to be woken for what has passed")
          break
        }
      }
      now = end
    }

    /// The handles of the sent packets, in order.
    var handles: [UInt8] { sent.map { $0[1] } }
  }

  @Test("A value is sent by raw HCI at once, and its packet occupies a buffer until its completion is reported")
  func one() {
    var bench = Bench(2)
    let id = bench.offer(Self.anna)
    #expect(bench.outcomes == [id: .sent] && bench.handles == [0x40] && bench.lookUps == 1)
    #expect(bench.packets.inFlight == 1 && bench.isListening && bench.wake == Instant.zero.advanced(by: Self.patience))
    bench.complete(0x40)
    #expect(bench.packets.inFlight == 0 && !bench.isListening && bench.wake == nil)
  }

  @Test("Ten values for a controller with two buffers fill the two and never use a third")
  func countSurvivesAnEmptyQueue() {
    var bench = Bench(2)
    for _ in 0..<10 { bench.offer(Self.anna) }
    #expect(bench.sent.count == 2 && bench.packets.inFlight == 2)
    for done in 1...8 {
      bench.complete(0x40)
      #expect(bench.sent.count == 2 + done && bench.packets.inFlight == 2)
    }
    #expect(bench.outcomes.values.allSatisfy { $0 == .sent } && bench.outcomes.count == 10)
  }

  @Test("A waiting raw HCI packet looks up its link again, and is dropped if its peer has a new link")
  func lookedUpAgain() {
    var bench = Bench(1)
    let ids = [bench.offer(Self.anna), bench.offer(Self.anna), bench.offer(Self.anna, 60)]
    // The link of each value's recipient was looked up when the value was offered.
    #expect(bench.lookUps == 2)
    bench.complete(0x40)
    #expect(bench.lookUps == 3 && bench.handles == [0x40, 0x40])
    // No disconnection was reported; the peer has a new handle, and the old handle belongs to another peer.
    bench.links = [HCILink(handle: 0x42, address: Self.anna), HCILink(handle: 0x40, address: Self.bert)]
    bench.complete(0x40)
    #expect(bench.sent.count == 2 && bench.outcomes[ids[2]] == .linkGone)
    bench.offer(Self.anna)
    #expect(bench.handles == [0x40, 0x40, 0x42])
  }

  @Test("When a link ends, its waiting raw HCI packets are dropped and its controller buffers are free")
  func ended() {
    var bench = Bench(1)
    let first = bench.offer(Self.anna, 60)
    let second = bench.offer(Self.anna)
    let other = bench.offer(Self.bert)
    bench.complete(0x40)
    #expect(bench.handles == [0x40, 0x40])
    // The handle is reassigned to another peer at once.
    bench.links[0].address = BluetoothAddress(0xC)
    bench.handle(.disconnected(handle: 0x40))
    #expect(bench.outcomes == [first: .linkGone, second: .linkGone, other: .sent])
    #expect(bench.handles == [0x40, 0x40, 0x41] && bench.packets.inFlight == 1)
    bench.pass(.seconds(3))
    #expect(bench.sent.count == 3 && bench.packets.inFlight == 0 && !bench.isListening)
  }

  @Test(
    "A value that waits for a buffer belongs to the link that existed when the value arrived"
  )
  func endedBefore() {
    var bench = Bench(1)
    bench.offer(Self.bert)
    let id = bench.offer(Self.anna)
    // The peer reconnects, with the former handle or another one.
    bench.handle(.disconnected(handle: 0x40))
    #expect(bench.outcomes[id] == .linkGone)
    bench.complete(0x41)
    #expect(bench.handles == [0x41])
  }

  @Test("A link end that the program reports also drops the link's packets")
  func forgotten() {
    var bench = Bench(1)
    bench.offer(Self.bert)
    let id = bench.offer(Self.anna)
    bench.handle(.forgotten(Self.anna))
    #expect(bench.outcomes[id] == .linkGone)
    bench.complete(0x41)
    #expect(bench.handles == [0x41])
    // The packets of the ended link no longer count as in the controller.
    bench.offer(Self.anna)
    bench.offer(Self.anna)
    bench.handle(.forgotten(Self.anna))
    bench.offer(Self.bert)
    #expect(bench.handles == [0x41, 0x40, 0x41])
  }

  @Test("If a link ends during a look-up of links for raw HCI, the look-up is repeated")
  func endedMeanwhile() {
    var packets = PacketScheduler()
    let value = ATTNotification(handle: 1, value: [1])
    #expect(packets.handle(.offered(1, value, to: Self.anna), at: .zero) == [.listen(true), .lookUp])
    #expect(packets.handle(.disconnected(handle: 0x40), at: .zero).isEmpty)
    #expect(packets.handle(.found([HCILink(handle: 0x40, address: Self.anna)]), at: .zero) == [.lookUp])
    #expect(packets.handle(.found([]), at: .zero) == [.decided(1, .linkGone), .listen(false)])
  }

  @Test("A peer without a connected LE link, or with two, gets no value by raw HCI")
  func noLink() {
    let links: [[HCILink]] = [
      [], [HCILink(handle: 1, address: Self.bert)], [HCILink(handle: 1, address: Self.anna, isLE: false)],
      [HCILink(handle: 1, address: Self.anna, isConnected: false)],
      [HCILink(handle: 1, address: Self.anna), HCILink(handle: 2, address: Self.anna)],
    ]
    for links in links {
      var bench = Bench(1)
      bench.links = links
      #expect(bench.outcomes[bench.offer(Self.anna)] == .linkGone)
      #expect(bench.sent.isEmpty)
    }
  }

  @Test("A completion report frees at most as many raw HCI packets as are in flight on its link")
  func foreignReports() {
    var bench = Bench(2)
    bench.offer(Self.anna)
    bench.offer(Self.bert)
    for _ in 0..<4 { bench.offer(Self.bert) }
    bench.complete(0x42, 5)
    #expect(bench.sent.count == 2)
    bench.complete(0x40, 5)
    #expect(bench.sent.count == 3 && bench.packets.inFlight == 2)
    bench.handle(.completed([.init(handle: 0x41, count: 0)]))
    #expect(bench.sent.count == 3)
    // One report completes several packets.
    bench.complete(0x41, 2)
    #expect(bench.sent.count == 5 && bench.packets.inFlight == 2)
  }

  @Test("The buffers of a link without completion reports are freed 200 ms after its last event")
  func patience() {
    var bench = Bench(2)
    for _ in 0..<2 { bench.offer(Self.anna) }
    for _ in 0..<3 { bench.offer(Self.bert) }
    bench.pass(.milliseconds(150))
    bench.complete(0x40)
    #expect(bench.handles == [0x40, 0x40, 0x41])
    bench.pass(.milliseconds(199))
    #expect(bench.sent.count == 3)
    bench.pass(.milliseconds(1))
    #expect(bench.handles == [0x40, 0x40, 0x41, 0x41, 0x41] && bench.packets.inFlight == 2)
    bench.pass(.milliseconds(199))
    #expect(bench.packets.inFlight == 2 && bench.isListening)
    bench.pass(.milliseconds(1))
    #expect(bench.packets.inFlight == 0 && !bench.isListening && bench.wake == nil)
  }

  @Test("Each sent packet restarts the 200 ms after which the buffers of its link are freed")
  func patienceSinceLastPacket() {
    var bench = Bench(2)
    bench.offer(Self.anna)
    bench.pass(.milliseconds(150))
    bench.offer(Self.anna)
    bench.pass(.milliseconds(199))
    #expect(bench.packets.inFlight == 2)
    bench.pass(.milliseconds(1))
    #expect(bench.packets.inFlight == 0)
  }

  @Test("Two links share the buffers, and a link without completion reports occupies at most half of them")
  func shared() {
    var bench = Bench(2)
    for _ in 0..<4 { bench.offer(Self.anna) }
    for _ in 0..<4 { bench.offer(Self.bert) }
    #expect(bench.handles == [0x40, 0x40])
    bench.complete(0x40)
    #expect(bench.handles == [0x40, 0x40, 0x41])
    for _ in 0..<3 { bench.complete(0x41) }
    #expect(bench.handles == [0x40, 0x40, 0x41, 0x41, 0x41, 0x41])
  }

  @Test("The raw HCI packets of one value are sent together, after waiting until there are buffers for all")
  func whole() {
    var bench = Bench(3)
    bench.offer(Self.anna)
    bench.offer(Self.bert)
    // Two packets, and buffer space for one; a value of one packet does not overtake it.
    bench.offer(Self.anna, 40)
    bench.offer(Self.anna)
    #expect(bench.sent.count == 2)
    bench.complete(0x41)
    #expect(bench.handles == [0x40, 0x41, 0x40, 0x40])
    // A value longer than all buffers is sent in parts as space permits.
    bench.handle(.disconnected(handle: 0x40))
    bench.offer(Self.bert, 200)
    #expect(bench.handles.suffix(3) == [0x41, 0x41, 0x41] && bench.packets.inFlight == 3)
    let starts = bench.sent.filter { $0[2] == 0 }.count
    bench.offer(Self.bert)
    for _ in 0..<5 { bench.complete(0x41) }
    #expect(bench.sent.filter { $0[2] == 0 }.count == starts)
    bench.complete(0x41)
    #expect(bench.sent.filter { $0[2] == 0 }.count == starts + 1)
  }

  @Test(
    "If the kernel is busy, sending is repeated every 50 ms, 20 times, and then the value fails"
  )
  func busy() {
    var bench = Bench(1)
    bench.failures = [.busy("x"), .busy("x")]
    let id = bench.offer(Self.anna)
    #expect(bench.outcomes.isEmpty)
    bench.pass(.milliseconds(99))
    #expect(bench.outcomes.isEmpty && bench.lookUps == 2)
    bench.pass(.milliseconds(1))
    #expect(bench.outcomes == [id: .sent] && bench.lookUps == 3)
    bench.complete(0x40)
    bench.failures = [HCIError](repeating: .busy("y"), count: PacketScheduler.attemptLimit)
    let (second, third) = (bench.offer(Self.anna), bench.offer(Self.anna))
    bench.pass(.milliseconds(949))
    #expect(bench.outcomes[second] == nil)
    bench.pass(.milliseconds(1))
    #expect(bench.outcomes[second] == .failed(.busy("y")) && bench.outcomes[third] == .sent)
  }

  @Test("An error for a raw HCI packet fails its value, and a lost controller fails all values")
  func failures() {
    var bench = Bench(1)
    bench.failures = [.denied("no")]
    let ids = [bench.offer(Self.anna, 60)]
    #expect(bench.outcomes == [ids[0]: .failed(.denied("no"))])
    bench.offer(Self.anna)
    let waiting = [bench.offer(Self.anna), bench.offer(Self.bert)]
    bench.failures = [.noController]
    bench.complete(0x40)
    for id in waiting { #expect(bench.outcomes[id] == .failed(.noController)) }
    #expect(bench.packets.inFlight == 0 && !bench.isListening && bench.wake == nil)
    bench.offer(Self.anna)
    let last = bench.offer(Self.anna)
    bench.handle(.closed(.noController))
    #expect(bench.outcomes[last] == .failed(.noController) && bench.packets.inFlight == 0)
  }

  @Test("After the controller is lost, no packets count as in flight")
  func lostWithPackets() {
    var bench = Bench(2)
    bench.offer(Self.anna)
    #expect(bench.packets.inFlight == 1)
    bench.failures = [.noController]
    bench.offer(Self.bert)
    #expect(bench.packets.inFlight == 0 && !bench.isListening && bench.wake == nil)
  }

  @Test("A value that fails between two of its packets leaves no packet in the queue")
  func failsAmid() {
    var bench = Bench(1)
    let ids = [bench.offer(Self.anna, 60), bench.offer(Self.anna)]
    bench.failures = [.denied("no")]
    bench.complete(0x40)
    #expect(bench.outcomes == [ids[0]: .failed(.denied("no")), ids[1]: .sent])
    #expect(bench.sent.map { $0[2] } == [0, 0] && bench.sent.last?.last == 2)
  }

  @Test("A permanent error of the link look-up fails waiting values, and after a temporary one it is repeated")
  func lookUpFails() {
    var packets = PacketScheduler()
    let value = ATTNotification(handle: 1, value: [1])
    _ = packets.handle(.offered(1, value, to: Self.anna), at: .zero)
    let later = Instant.zero.advanced(by: PacketScheduler.retryDelay)
    #expect(packets.handle(.notFound(.busy("x")), at: .zero) == [.wake(later)])
    #expect(packets.handle(.woken, at: later) == [.lookUp, .wake(nil)])
    #expect(
      packets.handle(.notFound(.denied("x")), at: later) == [.decided(1, .failed(.denied("x"))), .listen(false)])
  }

  @Test("At most 16 values wait for each peer and 64 in all, and capacity is reported once")
  func limits() {
    var bench = Bench(1)
    for _ in 0..<17 { bench.offer(Self.anna) }
    #expect(bench.refused.isEmpty)
    let refused = [bench.offer(Self.anna), bench.offer(Self.anna)]
    #expect(bench.refused == refused && bench.rooms.isEmpty)
    bench.complete(0x40)
    #expect(bench.rooms == [Self.anna])
    bench.complete(0x40)
    #expect(bench.rooms == [Self.anna])
    #expect(bench.outcomes.keys.allSatisfy { !refused.contains($0) })
    bench = Bench(1)
    bench.links = (1...9).map { HCILink(handle: UInt16($0), address: BluetoothAddress(UInt64($0))) }
    for peer in 1...8 as ClosedRange<UInt64> { for _ in 0..<8 { bench.offer(BluetoothAddress(peer)) } }
    #expect(bench.refused.isEmpty)
    bench.offer(BluetoothAddress(9))
    #expect(bench.refused.isEmpty)
    let last = bench.offer(BluetoothAddress(9))
    #expect(bench.refused == [last])
    bench.handle(.forgotten(BluetoothAddress(8)))
    #expect(bench.rooms == [BluetoothAddress(9)])
  }

  @Test(
    "A controller whose buffers are not known yet gets one packet of 27 bytes at a time")
  func leastBuffers() {
    var bench = Bench(0, length: 3)
    bench.offer(Self.anna, 60)
    #expect(bench.sent.map(\.count) == [32])
    bench.complete(0x40)
    bench.handle(.buffers(LEBuffers(length: 251, count: 8)))
    #expect(bench.sent.map(\.count) == [32, 32, 18])
    bench.offer(Self.anna, 200)
    #expect(bench.sent.map(\.count) == [32, 32, 18, 212])
  }
}
