import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Mesh files of departed senders, and withdrawn files")
struct FileSyncTests {
  @Test(
    "A new node gets a file from a neighbour 2 min after its sender left, with the sender's announce",
    arguments: [200, 20_000, 300_000])
  func gone(size: Int) throws {
    var hall = FileTests.line(2)
    let content = FileTests.content(size)
    try hall.sendFile(content, as: 7, at: 0)
    hall.pass(.seconds(30))
    #expect(hall.nodes[1].files.count == 1)
    hall.disconnect(hall.links(0, 1)[0])
    hall.pass(.seconds(120))
    hall.add(["late"])
    hall.connect(1, 2)
    hall.pass(.seconds(60))
    #expect(hall.nodes[2].files.map(\.content) == [content])
    #expect(hall.nodes[2].files.first?.nickname == "node 0")
  }

  @Test("A cancelled small file is given to no further peer, even if one link has received it")
  func cancelled() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let (cem, fox) = (Stranger(1), Stranger(2))
    let links = [cem, fox].map { hall.connect(stranger: $0, to: 0) }
    for (peer, link) in zip([cem, fox], links) { hall.inject(peer.announce(at: hall.time), on: link, to: 0) }
    hall.pass(.seconds(2))
    hall.stalled = [links[1]]
    try hall.sendFile(FileTests.content(300_000), as: 7, at: 0)
    hall.pass(.seconds(60))
    let content = Array("taken back".utf8)
    try hall.sendFile(content, as: 8, at: 0)
    hall.pass(.seconds(5))
    func holds(_ bytes: [UInt8]) -> Bool { bytes.windows(of: content.count).contains { $0.elementsEqual(content) } }
    let sent = hall.nodes[0].sent
    #expect(sent[links[0]]?.contains(where: holds) == true && hall.nodes[0].fileStates[8] == [.sending])
    func given() throws -> Int {
      let request = try SyncRequest(filter: SyncFilter([]), types: .fileTransfer)
      let before = hall.nodes[0].sent[links[0]]?.count ?? 0
      let packet = cem.packet(.requestSync, request.bytes, at: hall.time, to: hall.nodes[0].id, timeToLive: 0)
      hall.inject(packet, on: links[0], to: 0)
      return hall.nodes[0].sent[links[0]]?.dropFirst(before).count(where: holds) ?? 0
    }
    #expect(try given() == 1)
    hall.pass(.seconds(1))
    hall.handle(.cancelFile(8), at: 0)
    #expect(try given() == 0)
  }

  @Test("A public file that was deleted after sending is not given to new nodes", arguments: [200, 20_000])
  func takenBack(size: Int) throws {
    for isDeleted in [false, true] {
      var hall = FileTests.line(2)
      try hall.sendFile(FileTests.content(size), as: 7, at: 0)
      hall.pass(.seconds(30))
      #expect(hall.nodes[0].fileStates[7] == [.sending, .sent])
      hall.disconnect(hall.links(0, 1)[0])
      if isDeleted { hall.handle(.cancelFile(7), at: 0) }
      hall.add(["late"])
      hall.connect(0, 2)
      hall.pass(.seconds(60))
      #expect(hall.nodes[2].files.count == (isDeleted ? 0 : 1))
      #expect(hall.nodes[0].fileStates[7] == [.sending, .sent])
    }
  }

  @Test("A relay neither requests missing fragments nor gets requests for them")
  func relays() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    hall.add(["relay"]) { $0.role = .relay }
    hall.add(["bob"])
    for (one, other) in [(0, 1), (0, 2), (1, 2)] { hall.connect(one, other) }
    hall.pass(.seconds(20))
    final class Asked { var pairs: [[Int]] = [] }
    let asked = Asked()
    hall.passes = { bytes, from, to in
      guard let packet = try? Packet(decoding: bytes) else { return true }
      if packet.type == .requestSync, let request = try? SyncRequest(reading: packet.payload),
        !request.fragments.isEmpty
      {
        asked.pairs.append([from, to])
      }
      guard packet.type == .fragment, let fragment = try? Fragment(reading: packet.payload) else { return true }
      // The packet comes from its sender, before the sync request.
      return fragment.index != 3 || packet.timeToLive == 0
    }
    try hall.sendFile(FileTests.content(20_000), as: 7, at: 0)
    hall.pass(.seconds(60))
    #expect(hall.nodes[2].files.count == 1)
    #expect(!asked.pairs.isEmpty && asked.pairs.allSatisfy { $0 == [2, 0] }, "\(asked.pairs)")
  }

  @Test("Withdrawing a file removes its packet, also as sync answer and relayed, and no other packet")
  func answersOfFiles() throws {
    let packet = Packet(
      version: .v2, type: .fileTransfer, timestamp: 1_800_000_000_000, sender: PeerID(rawValue: 1), payload: [1, 2, 3])
    let bytes = try packet.encoded()
    let answer = try PacketView(bytes).syncAnswer
    #expect(answer != bytes)
    let whole = FilePackets.whole(bytes)
    let relayed = try PacketView(bytes).relayed(timeToLive: 3)
    #expect(whole.contains(bytes) && whole.contains(answer) && whole.contains(relayed))
    for index in [1, 3, bytes.count - 1] {
      var other = bytes
      other[index] ^= 1
      #expect(!whole.contains(other))
    }
    #expect(!whole.contains(Array(bytes.dropLast())) && !whole.contains([]))
  }
}
