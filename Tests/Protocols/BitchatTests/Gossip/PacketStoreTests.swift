import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Collections of packets in the sync archive")
struct PacketStoreTests {
  private let time: UInt64 = 1_800_000_000_000

  private func item(_ number: UInt64, from sender: UInt64 = 1, bytes: Int = 100) -> GossipArchive.Item {
    let packet = Packet(type: .fragment, timestamp: time + number, sender: PeerID(rawValue: sender), payload: [])
    return GossipArchive.Item(
      bytes: [UInt8](repeating: 0, count: bytes), id: PacketID(packet), type: .fragment, sender: packet.sender,
      timestamp: packet.timestamp)
  }

  /// Whether the byte count and the index agree with the stored items.
  private func isCounted(_ shelf: PacketStore) -> Bool {
    shelf.bytes == shelf.items.reduce(0) { $0 + $1.bytes.count } && shelf.items.allSatisfy { shelf.has($0.id) }
  }

  @Test("A packet store with more than 160 packets evicts its oldest sixteenth")
  func limit() {
    var shelf = PacketStore(limit: 160, byteLimit: 1 << 20)
    for number in UInt64(0)..<500 {
      let isTaken = shelf.insert(item(number))
      #expect(isTaken && isCounted(shelf))
      let fewest = min(Int(number) + 1, 151)
      #expect((fewest...160).contains(shelf.count))
      let newest = (0..<UInt64(fewest)).map { item(number - $0).id }
      #expect(newest.allSatisfy { shelf.has($0) })
    }
    let isGone = (UInt64(0)..<340).allSatisfy { !shelf.has(item($0).id) }
    #expect(isGone)
  }

  @Test("A packet store above its byte limit evicts the oldest packets")
  func bytes() {
    var shelf = PacketStore(limit: 160, byteLimit: 10_000)
    for number in UInt64(0)..<300 { _ = shelf.insert(item(number)) }
    #expect(isCounted(shelf) && (90...100).contains(shelf.count) && shelf.has(item(299).id))
    let isTaken = shelf.insert(item(300, bytes: 10_001))
    #expect(!isTaken && shelf.items.isEmpty && shelf.bytes == 0)
  }

  @Test(
    "Fragments with equal timestamps stay in the order of arrival, and messages are sorted by ID",
    arguments: [false, true])
  func oneMoment(isShared: Bool) {
    var shelf = PacketStore(limit: 160, byteLimit: 1 << 20, isShared: isShared)
    let came = [item(5, from: 3), item(7, from: 1)] + (0..<20).map { item(6, from: $0 * 7 % 20) } + [item(5, from: 2)]
    for item in came {
      let isTaken = shelf.insert(item)
      #expect(isTaken && isCounted(shelf))
    }
    let ordered: [GossipArchive.Item] =
      isShared
      ? came.sorted(by: GossipArchive.Item.isOlder)
      : [came[0], came[22]] + came[2..<22] + [came[1]]
    #expect(shelf.items.map(\.id) == ordered.map(\.id))
  }

  @Test("A packet removed from the packet store frees its slot, and may be stored again")
  func removal() {
    var shelf = PacketStore(limit: 160, byteLimit: 1 << 20)
    for number in UInt64(0)..<160 { _ = shelf.insert(item(number, from: number % 2)) }
    shelf.removeAll { $0.sender == PeerID(rawValue: 0) }
    #expect(isCounted(shelf) && shelf.count == 80 && !shelf.has(item(0, from: 0).id) && shelf.has(item(1, from: 1).id))
    for number in UInt64(0)..<160 where number % 2 == 0 {
      let isTaken = shelf.insert(item(number, from: 0))
      #expect(isTaken)
    }
    let isOrdered = zip(shelf.items, shelf.items.dropFirst()).allSatisfy { $0.timestamp < $1.timestamp }
    #expect(isCounted(shelf) && shelf.count == 160 && isOrdered)
    let isTakenTwice = shelf.insert(item(7, from: 1))
    #expect(!isTakenTwice)
  }

  @Test("In a packet store with fair shares, a sender with more than a quarter is evicted first")
  func shared() {
    var shelf = PacketStore(limit: 160, byteLimit: 1 << 20, isShared: true)
    for number in UInt64(0)..<20 { _ = shelf.insert(item(number, from: 2)) }
    for number in UInt64(20)..<400 { _ = shelf.insert(item(number, from: 1)) }
    let others = (UInt64(0)..<20).map { item($0, from: 2).id }
    #expect(isCounted(shelf) && shelf.count == 160 && others.allSatisfy { shelf.has($0) })
  }
}
