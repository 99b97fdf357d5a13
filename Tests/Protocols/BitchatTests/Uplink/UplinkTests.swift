import BitchatWire
import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat

@Suite("Private mesh messages over the uplink")
struct UplinkTests {
  private static let keys = ["a", "b"].map { "npub1" + String(repeating: $0 == "a" ? "q" : "p", count: 58) }

  /// Ann and Bob, mutual favourites who know each other's keys. They are out of range of each other.
  private func pair(isMutual: Bool = true, isApart: Bool = true) throws -> (MeshHall, LinkID) {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    for node in 0...1 { hall.handle(.uplinkOpened(key: Self.keys[node]), at: node) }
    let link = hall.connect(0, 1)
    hall.pass(.seconds(2))
    hall.handle(.favourite(hall.nodes[1].id, true), at: 0)
    if isMutual { hall.handle(.favourite(hall.nodes[0].id, true), at: 1) }
    hall.pass(.seconds(5))
    if isApart {
      hall.disconnect(link)
      hall.pass(.seconds(600))
    }
    #expect(hall.nodes[0].offered.isEmpty && hall.nodes[1].offered.isEmpty)
    return (hall, link)
  }

  /// Delivers what a node has handed over, and forgets it.
  private func carry(_ hall: inout MeshHall, from node: Int) {
    let packets = hall.nodes[node].offered
    hall.nodes[node].offered = []
    for packet in packets {
      #expect(packet.key == Self.keys[1 - node] && packet.id.peer == hall.nodes[1 - node].id)
      #expect(hall.bring(packet.text, from: Self.keys[node], to: 1 - node) == nil)
    }
  }

  @Test("A message to an unreachable mutual favourite is sent over the uplink, and its receipts return")
  func wholeWay() throws {
    var (hall, _) = try pair()
    try hall.tell("over the hills", to: 1, at: 0)
    #expect(hall.nodes[0].offered.map(\.id.kind) == [.message])
    #expect(hall.nodes[0].progress[1] == [.sent] && hall.nodes[0].wentByUplink == [1])
    carry(&hall, from: 0)
    #expect(hall.nodes[1].told.map(\.text) == ["over the hills"])
    #expect(hall.nodes[1].offered.map(\.id.kind) == [.delivered])
    carry(&hall, from: 1)
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered])
    #expect(hall.nodes[0].uplinkDone.map(\.message) == hall.nodes[1].told.map(\.id))
    hall.handle(.read(hall.nodes[1].told[0].id, from: hall.nodes[0].id), at: 1)
    #expect(hall.nodes[1].offered.map(\.id.kind) == [.read])
    #expect(hall.nodes[1].receiptsSettled == hall.nodes[1].told.map(\.id))
    carry(&hall, from: 1)
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered, .read])
  }

  @Test("A peer that is reachable over the mesh gets its messages only over the mesh")
  func meshFirst() throws {
    var (hall, _) = try pair(isApart: false)
    try hall.tell("here", to: 1, at: 0)
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].offered.isEmpty && hall.nodes[1].offered.isEmpty)
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered] && hall.nodes[0].wentByUplink.isEmpty)
  }

  @Test("A peer that is blocked or not a mutual favourite gets nothing over the uplink")
  func onlyFavourites() throws {
    var (hall, _) = try pair(isMutual: false)
    try hall.tell("hello", to: 1, at: 0)
    try hall.tell("hello", to: 0, at: 1)
    hall.pass(.seconds(600))
    #expect(hall.nodes[0].offered.isEmpty && hall.nodes[1].offered.isEmpty)
    var (other, _) = try pair()
    other.handle(.block(other.nodes[1].id, true), at: 0)
    try other.tell("hello", to: 1, at: 0)
    #expect(other.nodes[0].offered.isEmpty)
    other.handle(.block(other.nodes[1].id, false), at: 0)
    #expect(other.nodes[0].offered.count == 1)
  }

  @Test("A message that arrives over both mesh and uplink is reported once, and acknowledged over both")
  func once() throws {
    var (hall, _) = try pair()
    try hall.tell("twice", to: 1, at: 0)
    let packets = hall.nodes[0].offered
    carry(&hall, from: 0)
    hall.nodes[1].offered = []
    // The receipt is lost, and the nodes meet.
    hall.connect(0, 1)
    hall.pass(.seconds(60))
    #expect(hall.nodes[1].told.count == 1)
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered])
    #expect(hall.nodes[0].uplinkDone == packets.map(\.id))
    // The relay delivers the message again.
    #expect(hall.bring(packets[0].text, from: Self.keys[0], to: 1) == nil)
    #expect(hall.nodes[1].told.count == 1)
  }

  @Test("A message received over the mesh is not reported again when it arrives over the uplink")
  func meshBeforeUplink() throws {
    var (hall, _) = try pair()
    hall.nodes[0].hasUplink = false
    try hall.tell("late", to: 1, at: 0)
    let packet = try #require(hall.nodes[0].offered.first)
    #expect(hall.nodes[0].progress[1] == nil)
    hall.connect(0, 1)
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered] && hall.nodes[0].wentByUplink.isEmpty)
    #expect(hall.bring(packet.text, from: Self.keys[0], to: 1) == nil)
    #expect(hall.nodes[1].told.count == 1)
  }

  @Test("A packet that the uplink program refuses is offered again after 30 s, and to a new program at once")
  func refusals() throws {
    var (hall, _) = try pair()
    hall.nodes[0].hasUplink = false
    try hall.tell("again", to: 1, at: 0)
    let id = try #require(hall.nodes[0].offered.first?.id)
    hall.handle(.uplinkRefused(id), at: 0)
    hall.pass(.seconds(29))
    #expect(hall.nodes[0].offered.count == 1)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].offered.map(\.id) == [id, id])
    hall.handle(.uplinkClosed, at: 0)
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].offered.count == 2)
    hall.handle(.uplinkOpened(key: Self.keys[0]), at: 0)
    #expect(hall.nodes[0].offered.map(\.id) == [id, id, id])
  }

  @Test("Of a hundred messages, 32 are passed to the uplink program before it answers")
  func bounded() throws {
    var (hall, _) = try pair()
    hall.nodes[0].hasUplink = false
    for number in 1...100 { try hall.tell("\(number)", to: 1, as: UInt32(number), at: 0) }
    #expect(hall.nodes[0].offered.count == 32)
    for packet in hall.nodes[0].offered { hall.handle(.uplinkTaken(packet.id), at: 0) }
    #expect(hall.nodes[0].offered.count == 64)
    for packet in hall.nodes[0].offered.suffix(32) { hall.handle(.uplinkTaken(packet.id), at: 0) }
    for packet in hall.nodes[0].offered.suffix(32) { hall.handle(.uplinkTaken(packet.id), at: 0) }
    #expect(hall.nodes[0].offered.count == 100 && Set(hall.nodes[0].offered.map(\.id)).count == 100)
  }

  @Test("A message passed to the uplink before a restart is passed again, with the same ID")
  func restart() throws {
    var (hall, _) = try pair()
    try hall.tell("kept", to: 1, at: 0)
    let id = try #require(hall.nodes[0].offered.first?.id)
    let bob = hall.nodes[1].id
    hall.restart(0)
    hall.handle(.favourite(bob, true), at: 0)
    hall.nodes[0].engine.favour(by: bob, true)
    hall.nodes[0].engine.note(uplinkKey: Self.keys[1], of: bob, at: hall.now)
    hall.handle(.uplinkOpened(key: Self.keys[0]), at: 0)
    #expect(hall.nodes[0].offered.map(\.id) == [id, id])
  }

  @Test("A receipt for an uplink message uses the uplink even while the mesh still lists the sender as present")
  func justApart() throws {
    var (hall, link) = try pair(isApart: false)
    try hall.tell("near", to: 1, at: 0)
    hall.pass(.seconds(5))
    hall.disconnect(link)
    hall.pass(.seconds(1))
    try hall.tell("gone", to: 1, as: 2, at: 0)
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].offered.map(\.id.kind) == [.message])
    carry(&hall, from: 0)
    #expect(hall.nodes[1].offered.map(\.id.kind) == [.delivered])
    carry(&hall, from: 1)
    #expect(hall.nodes[0].progress[2]?.last == .delivered)
  }

  @Test("Favourites get the uplink key with the favourite notice, and again when it has changed")
  func notices() throws {
    var hall = MeshHall()
    hall.add(["ann", "bob"])
    hall.connect(0, 1)
    hall.pass(.seconds(2))
    hall.handle(.favourite(hall.nodes[1].id, true), at: 0)
    hall.pass(.seconds(5))
    let ann = hall.nodes[0].id
    #expect(hall.nodes[1].engine.uplinkKey(of: ann) == nil)
    for key in Self.keys {
      hall.handle(.uplinkOpened(key: key), at: 0)
      hall.pass(.seconds(5))
      #expect(hall.nodes[1].engine.uplinkKey(of: ann) == key)
    }
    let notices = hall.nodes[1].favourited.count
    // The same key is not sent again.
    hall.handle(.uplinkOpened(key: Self.keys[1]), at: 0)
    hall.pass(.seconds(60))
    #expect(hall.nodes[1].favourited.count == notices)
  }

  @Test("Uplink packets that are not messages of a favourite for this node are dropped and counted")
  func refused() throws {
    var (hall, _) = try pair()
    let (ann, bob) = (hall.nodes[0].id, hall.nodes[1].id)
    let message = try PrivateMessage(id: MessageID("m"), text: "hello")
    func packet(
      _ payload: [UInt8], type: MessageType = .noiseEncrypted, from sender: PeerID? = nil, to recipient: PeerID?,
      offset: Int64 = 0
    ) throws -> String {
      let packet = Packet(
        type: type, timestamp: UInt64(Int64(hall.time) + offset), sender: sender ?? ann, recipient: recipient,
        payload: payload)
      return Self.text(try packet.encoded(padded: true))
    }
    let good = NoisePayload.privateMessage(message).bytes
    let hour: Int64 = 3_600_000
    let cases: [(UplinkRefusal, String)] = [
      (.otherText, ""), (.otherText, "hello"), (.malformed, EmbeddedPacket.mark + "%"), (.malformed, Self.text([])),
      (.malformed, Self.text([1, 2, 3])), (.malformed, try packet([], to: bob)),
      (.unopened, try packet([0, 1], to: bob)), (.malformed, try packet([1, 0, 9], to: bob)),
      (.unexpected, try packet([0x77, 1], to: bob)),
      (.unexpected, try packet(good, type: .message, to: bob)), (.unexpected, try packet(good, to: nil)),
      (.unexpected, try packet(good, to: ann)), (.stranger, try packet(good, from: bob, to: bob)),
      (.stranger, try packet(good, from: PeerID(rawValue: 7), to: bob)),
      (.date, try packet(good, to: bob, offset: -26 * hour)), (.date, try packet(good, to: bob, offset: hour)),
    ]
    var counts: [UplinkRefusal: UInt64] = [:]
    for (reason, text) in cases {
      #expect(hall.bring(text, from: Self.keys[0], to: 1) == reason)
      counts[reason, default: 0] += 1
    }
    // The key of another peer.
    #expect(hall.bring(try packet(good, to: bob), from: Self.keys[1], to: 1) == .stranger)
    counts[.stranger, default: 0] += 1
    hall.handle(.block(ann, true), at: 1)
    #expect(hall.bring(try packet(good, to: bob), from: Self.keys[0], to: 1) == .blocked)
    hall.handle(.block(ann, false), at: 1)
    hall.handle(.favourite(ann, false), at: 1)
    #expect(hall.bring(try packet(good, to: bob), from: Self.keys[0], to: 1) == .stranger)
    (counts[.blocked], counts[.stranger]) = (1, (counts[.stranger] ?? 0) + 1)
    #expect(hall.nodes[1].engine.counters.uplink.dropped == counts)
    #expect(hall.nodes[1].told.isEmpty)
  }

  @Test("With nostr_inner_noise an uplink payload is encrypted, and a recipient without the setting opens it")
  func sealed() throws {
    var (hall, _) = try pair()
    hall.nodes[0].engine.configuration.sealsUplink = true
    try hall.tell("secret", to: 1, at: 0)
    let packet = try #require(hall.nodes[0].offered.first)
    let embedded = try EmbeddedPacket(text: packet.text)
    guard case .sealed = embedded.content else { throw EmbeddedPacketError.otherPacket }
    carry(&hall, from: 0)
    #expect(hall.nodes[1].told.map(\.text) == ["secret"])
    let answer = try EmbeddedPacket(text: try #require(hall.nodes[1].offered.first).text)
    guard case .plain = answer.content else { throw EmbeddedPacketError.otherPacket }
    carry(&hall, from: 1)
    #expect(hall.nodes[0].progress[1] == [.sent, .delivered])
  }

  @Test("An uplink payload sealed with another key than the sender's, or for another node, is dropped and counted")
  func unopened() throws {
    var (hall, _) = try pair()
    var random = SeededRandom(seed: 5)
    let (ann, bob) = (hall.nodes[0].engine.identity, hall.nodes[1].engine.identity)
    let receipt = NoisePayload.delivered(try MessageID("m"))
    let other = X25519.PrivateKey(randomFrom: &random)
    let forOther = try EmbeddedPacket(
      sealing: receipt, from: ann.noiseKey, to: other.publicKey, timestamp: hall.time, randomFrom: &random)
    let byOther = try EmbeddedPacket(
      sealing: receipt, from: other, to: bob.noiseKey.publicKey, timestamp: hall.time, randomFrom: &random)
    let good = try EmbeddedPacket(
      sealing: receipt, from: ann.noiseKey, to: bob.noiseKey.publicKey, timestamp: hall.time, randomFrom: &random)
    let forged = [(forOther, bob.id), (byOther, bob.id)].map { embedded, recipient in
      Packet(
        type: .noiseEncrypted, timestamp: hall.time, sender: ann.id, recipient: recipient,
        payload: [0] + embedded.sealedBytes)
    }
    for packet in forged {
      #expect(hall.bring(Self.text(try packet.encoded(padded: true)), from: Self.keys[0], to: 1) == .unopened)
    }
    #expect(hall.bring(try good.text(), from: Self.keys[0], to: 1) == nil)
    #expect(hall.nodes[1].engine.counters.uplink.dropped == [.unopened: 2])
  }

  /// A text with these bytes as its packet.
  private static func text(_ bytes: [UInt8]) -> String { EmbeddedPacket.mark + Base64URL.encode(bytes) }

  @Test("Uplink packets for a peer are withdrawn when it is forgotten or no longer a favourite")
  func withdrawn() throws {
    for isForgotten in [true, false] {
      var (hall, _) = try pair()
      try hall.tell("hello", to: 1, at: 0)
      let ids = hall.nodes[0].offered.map(\.id)
      let bob = hall.nodes[1].id
      hall.handle(isForgotten ? .forget(bob) : .favourite(bob, false), at: 0)
      #expect(hall.nodes[0].uplinkDone == ids)
    }
  }

  /// Brings a favourite notice of Bob to Ann over the uplink.
  private func bring(_ notice: FavoriteNotice, as id: String, in hall: inout MeshHall) throws {
    let message = try PrivateMessage(id: MessageID(id), text: notice.text)
    let packet = try EmbeddedPacket(
      .privateMessage(message), from: hall.nodes[1].id, to: hall.nodes[0].id, timestamp: hall.time)
    #expect(hall.bring(try packet.text(), from: Self.keys[1], to: 0) == nil)
    hall.pass(.seconds(1))
  }

  @Test("A favourite notice that is older than another one of its sender is dropped and counted")
  func oldNotice() throws {
    var (hall, _) = try pair()
    let (ann, bob) = (hall.nodes[0].id, hall.nodes[1].id)
    func notice(_ isFavorite: Bool, _ id: String, age: UInt64) throws -> String {
      let message = try PrivateMessage(id: MessageID(id), text: FavoriteNotice(isFavorite: isFavorite).text)
      return try EmbeddedPacket(.privateMessage(message), from: bob, to: ann, timestamp: hall.time - age).text()
    }
    #expect(hall.bring(try notice(false, "removed", age: 1000), from: Self.keys[1], to: 0) == nil)
    #expect(hall.bring(try notice(true, "set", age: 2000), from: Self.keys[1], to: 0) == .date)
    #expect(hall.nodes[0].engine.counters.uplink.dropped == [.date: 1])
    try hall.tell("hello", to: 1, at: 0)
    #expect(!hall.nodes[0].offered.contains { $0.id.kind == .message })
    #expect(hall.bring(try notice(true, "set again", age: 0), from: Self.keys[1], to: 0) == nil)
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].offered.contains { $0.id.kind == .message })
  }

  @Test("A favourite notice over the uplink that is older than one in the mesh is dropped, also after a restart")
  func olderThanMesh() throws {
    var (hall, _) = try pair()
    let (ann, bob) = (hall.nodes[0].id, hall.nodes[1].id)
    let message = try PrivateMessage(id: MessageID("removed"), text: FavoriteNotice(isFavorite: false).text)
    // Bob's notice in the mesh came about 600 s ago.
    let old = try EmbeddedPacket(
      .privateMessage(message), from: bob, to: ann, timestamp: hall.time - 3_600_000
    ).text()
    #expect(hall.bring(old, from: Self.keys[1], to: 0) == .date)
    let noticeTime = hall.nodes[0].engine.noticeTime(of: bob, at: hall.time)
    #expect(noticeTime > hall.time - 700_000 && noticeTime < hall.time - 500_000)
    hall.restart(0)
    hall.handle(.favourite(bob, true), at: 0)
    hall.nodes[0].engine.note(uplinkKey: Self.keys[1], of: bob, at: hall.now)
    hall.nodes[0].engine.note(noticeTime: noticeTime, of: bob)
    #expect(hall.bring(old, from: Self.keys[1], to: 0) == .date)
    let new = try EmbeddedPacket(.privateMessage(message), from: bob, to: ann, timestamp: hall.time - 60_000).text()
    #expect(hall.bring(new, from: Self.keys[1], to: 0) == nil)
  }

  @Test("A notice time further in the future than the clocks of peers may differ does not block later notices")
  func noticeOfWrongClock() throws {
    var (hall, _) = try pair()
    hall.nodes[0].engine.note(noticeTime: hall.time + 86_400_000, of: hall.nodes[1].id)
    try bring(FavoriteNotice(isFavorite: false, npub: nil), as: "removed", in: &hall)
  }

  @Test("A message whose recipient states another key is withdrawn, and handed over for that key")
  func otherKey() throws {
    var (hall, _) = try pair()
    try hall.tell("hello", to: 1, at: 0)
    let id = try #require(hall.nodes[0].offered.first?.id)
    let key = "npub1" + String(repeating: "z", count: 58)
    try bring(FavoriteNotice(isFavorite: true, npub: Self.keys[1]), as: "same", in: &hall)
    #expect(hall.nodes[0].uplinkDone.isEmpty)
    try bring(FavoriteNotice(isFavorite: true, npub: key), as: "other", in: &hall)
    #expect(hall.nodes[0].uplinkDone.contains(id))
    let messages = hall.nodes[0].offered.filter { $0.id.kind == .message }
    #expect(messages.map(\.key) == [Self.keys[1], key] && messages.map(\.id) == [id, id])
  }

  @Test("A message that is withdrawn before the program has answered is handed over again after the answer")
  func withdrawnEarly() throws {
    for isTaken in [true, false] {
      var (hall, _) = try pair()
      hall.nodes[0].hasUplink = false
      try hall.tell("hello", to: 1, at: 0)
      let id = try #require(hall.nodes[0].offered.first?.id)
      let key = "npub1" + String(repeating: "z", count: 58)
      try bring(FavoriteNotice(isFavorite: true, npub: key), as: "other", in: &hall)
      #expect(hall.nodes[0].uplinkDone == [id])
      hall.pass(.seconds(60))
      #expect(hall.nodes[0].offered.filter { $0.id == id }.count == 1)
      hall.handle(isTaken ? .uplinkTaken(id) : .uplinkRefused(id), at: 0)
      hall.pass(.seconds(1))
      #expect(hall.nodes[0].offered.filter { $0.id == id }.map(\.key) == [Self.keys[1], key])
      #expect(hall.nodes[0].wentByUplink.isEmpty)
    }
  }

  @Test("A message for a peer that removes its mark is withdrawn, and handed over when the peer sets the mark again")
  func otherMark() throws {
    var (hall, _) = try pair()
    try hall.tell("hello", to: 1, at: 0)
    let id = try #require(hall.nodes[0].offered.first?.id)
    try bring(FavoriteNotice(isFavorite: false, npub: nil), as: "removed", in: &hall)
    hall.pass(.seconds(60))
    #expect(hall.nodes[0].uplinkDone.contains(id))
    #expect(hall.nodes[0].offered.filter { $0.id.kind == .message }.map(\.id) == [id])
    try bring(FavoriteNotice(isFavorite: true, npub: nil), as: "set", in: &hall)
    #expect(hall.nodes[0].offered.filter { $0.id.kind == .message }.map(\.id) == [id, id])
  }
}

extension EmbeddedPacket {
  /// The sealed payload without its first byte; empty for a plain payload.
  fileprivate var sealedBytes: [UInt8] {
    switch content {
    case .sealed(let bytes): bytes
    case .plain: []
    }
  }
}
