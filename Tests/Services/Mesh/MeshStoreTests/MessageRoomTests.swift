import Bitchat
import Loop
import TestSupport
import Testing

@testable import MeshStore

@Suite("Eviction of mesh messages")
struct MessageRoomTests {
  init() { EventLoop.shared.runInBackground() }

  /// A message from a peer, or to it.
  private static func message(
    _ number: UInt32, of peer: UInt64, isOwn: Bool = false, isPublic: Bool = false, text: String = "",
    via: UInt32? = nil
  ) -> MeshChange {
    .message(
      MeshMessage(
        number: number, time: Sample.time, conversation: isPublic ? nil : Sample.peer(peer),
        sender: Sample.peer(isOwn ? 0 : peer), nickname: "", text: text, state: isOwn ? .sent : .unread,
        via: via))
  }

  /// Stores messages, and returns the numbers of those that were evicted.
  @discardableResult
  private static func write(
    _ numbers: ClosedRange<UInt32>, to ledger: inout RecordIndex, _ message: (UInt32) -> MeshChange
  ) throws -> [UInt32] {
    var removed: [UInt32] = []
    for number in numbers { removed += try ledger.apply(message(number), at: Sample.time).removedMessages }
    return removed
  }

  /// An index of records in which peers 1 to 4 are favourites.
  private static func ledger() throws -> RecordIndex {
    var ledger = RecordIndex(NodeStore.Settings())
    for number in 1...4 as ClosedRange<UInt64> {
      _ = try ledger.apply(.peer(PeerMarks(peer: Sample.peer(number), isFavourite: true, seenAt: 1)), at: 1)
    }
    return ledger
  }

  private static func shelf(_ isPublic: Bool) -> RecordIndex.Shelf { isPublic ? .publicMessages : .privateMessages }

  @Test(
    "In the mesh store a sender of more messages than the limit evicts only its own messages", arguments: [false, true])
  func flood(isPublic: Bool) throws {
    var ledger = RecordIndex(NodeStore.Settings())
    let limit = UInt32(Self.shelf(isPublic).limit.count)
    try Self.write(1...30, to: &ledger) { Self.message($0, of: 2, isOwn: $0 > 20, isPublic: isPublic) }
    let removed = try Self.write(31...limit + 25, to: &ledger) { Self.message($0, of: 9, isPublic: isPublic) }
    #expect(removed == Array(31...55))
    #expect(ledger.count(Self.shelf(isPublic)) == Int(limit))
  }

  @Test(
    "In the mesh store a sender of long messages that exceed the limit evicts only its own messages",
    arguments: [false, true])
  func longFlood(isPublic: Bool) throws {
    var ledger = RecordIndex(NodeStore.Settings())
    let text = String(repeating: "x", count: Self.shelf(isPublic).limit.bytes / 16)
    try Self.write(1...1, to: &ledger) { Self.message($0, of: 2, isPublic: isPublic) }
    let removed = try Self.write(2...20, to: &ledger) { Self.message($0, of: 9, isPublic: isPublic, text: text) }
    #expect(removed == [2, 3, 4, 5])
  }

  @Test("In the mesh store many senders of one message each evict none of favourites, verified peers or the user")
  func identities() throws {
    var ledger = try Self.ledger()
    let verified = PeerMarks(peer: Sample.peer(5), isVerified: true, seenAt: 1)
    let other = PeerMarks(peer: Sample.peer(6), isBlocked: true, isFavouriteOfPeer: true, seenAt: 1)
    for marks in [verified, other] { _ = try ledger.apply(.peer(marks), at: 1) }
    try Self.write(1...10, to: &ledger) { Self.message($0, of: 1) }
    try Self.write(11...20, to: &ledger) { Self.message($0, of: 5) }
    try Self.write(21...30, to: &ledger) { Self.message($0, of: 7, isOwn: true) }
    try Self.write(31...31, to: &ledger) { Self.message($0, of: 6) }
    let removed = try Self.write(32...3515, to: &ledger) { Self.message($0, of: 1000 + UInt64($0)) }
    #expect(removed == Array(31...45))
  }

  @Test(
    "If favourites' messages fill the store, a quarter of the capacity stays reserved for others")
  func newcomers() throws {
    var ledger = try Self.ledger()
    try Self.write(1...1500, to: &ledger) { Self.message($0, of: UInt64($0 % 4) + 1, isPublic: true) }
    let first = try Self.write(1501...1502, to: &ledger) { Self.message($0, of: UInt64($0), isPublic: true) }
    #expect(first == [1, 2])

    ledger = try Self.ledger()
    try Self.write(1...1126, to: &ledger) { Self.message($0, of: UInt64($0 % 4) + 1, isPublic: true) }
    let others = try Self.write(1127...1503, to: &ledger) { Self.message($0, of: UInt64($0), isPublic: true) }
    #expect(others == [1, 1127, 1128])
  }

  @Test(
    "40 identities over one link do not evict strangers' messages of another link or of the same relay"
  )
  func oneLink() throws {
    var ledger = RecordIndex(NodeStore.Settings())
    try Self.write(1...2, to: &ledger) { Self.message($0, of: 500 + UInt64($0), isPublic: true, via: $0 == 1 ? 1 : 66) }
    let removed = try Self.write(3...6000, to: &ledger) {
      Self.message($0, of: 1000 + UInt64($0 % 40), isPublic: true, via: 66)
    }
    #expect(removed.count == 4500 && !removed.contains(1) && !removed.contains(2))
    // A second link still has capacity.
    let other = try Self.write(6001...6001, to: &ledger) { Self.message($0, of: 7, isPublic: true, via: 2) }
    #expect(other.count == 1 && other[0] > 2)
  }

  @Test("The user's own messages are evicted after those of peers, unless they use over half of the mesh store")
  func own() throws {
    var ledger = try Self.ledger()
    try Self.write(1...600, to: &ledger) { Self.message($0, of: 1, isOwn: true, isPublic: true) }
    let removed = try Self.write(601...1510, to: &ledger) { Self.message($0, of: UInt64($0 % 4) + 1, isPublic: true) }
    #expect(removed == Array(601...610))

    ledger = try Self.ledger()
    try Self.write(1...1500, to: &ledger) { Self.message($0, of: 1, isOwn: true, isPublic: true) }
    let others = try Self.write(1501...1503, to: &ledger) { Self.message($0, of: UInt64($0), isPublic: true) }
    #expect(others == [1, 2, 3])
  }

  @Test("The newest mesh message is stored even if it uses more than a quarter of the capacity")
  func newest() throws {
    var ledger = RecordIndex(NodeStore.Settings())
    let text = String(repeating: "x", count: 1 << 20)
    try Self.write(1...12, to: &ledger) { Self.message($0, of: UInt64($0), text: text) }
    let long = String(repeating: "x", count: 5 << 20)
    let removed = try Self.write(13...13, to: &ledger) { Self.message($0, of: 13, text: long) }
    #expect(removed == [1, 2] && ledger.has(.message(13), on: .privateMessages))
  }

  @Test("Removed messages no longer count towards their sender's share")
  func counted() throws {
    var ledger = RecordIndex(NodeStore.Settings())
    try Self.write(1...500, to: &ledger) { Self.message($0, of: 9, isPublic: true) }
    _ = ledger.keepArchive(for: .zero)
    _ = ledger.keepArchive(for: .seconds(3600))
    #expect(ledger.count(.publicMessages) == 0)
    try Self.write(501...510, to: &ledger) { Self.message($0, of: UInt64($0), isPublic: true) }
    try Self.write(511...511, to: &ledger) { Self.message($0, of: 9, isPublic: true) }
    let removed = try Self.write(512...2003, to: &ledger) { Self.message($0, of: UInt64($0), isPublic: true) }
    #expect(removed == [501, 502, 503])
  }

  @Test("A flood of messages in one commit evicts only its own messages, and the others are on the disk")
  @LoopActor
  func commit() {
    let stand = NodeStoreTests.Stand()
    var removed: [UInt32] = []
    stand.keeper.onRemoved = { removed += $0 }
    let numbers: ClosedRange<UInt32> = 1...3510
    stand.keeper.keep(numbers.map { Self.message($0, of: $0 <= 5 ? 2 : 9) })
    stand.work()
    #expect(removed == Array(6...15))
    #expect(stand.disk.count == 3502, "identity, number and 3,500 messages")
  }
}
