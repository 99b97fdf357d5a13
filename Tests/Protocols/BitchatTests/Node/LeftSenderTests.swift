import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Messages of mesh peers that have left")
struct LeftSenderTests {
  @Test("A new node gets messages with their sender's announce, and no messages of a sender that left")
  func left() throws {
    var hall = MeshHall()
    hall.add(["ann"])
    let (dea, eli, cem) = (Stranger(1), Stranger(2), Stranger(3))
    let link = hall.connect(stranger: dea, to: 0)
    hall.inject(eli.announce(at: hall.time, timeToLive: 5), on: link, to: 0)
    for number in 0..<5 {
      hall.pass(.milliseconds(10))
      for peer in [dea, eli] { hall.inject(peer.line("\(number)", at: hall.time), on: link, to: 0) }
    }
    hall.pass(.seconds(2))
    hall.inject(eli.packet(.leave, [], at: hall.time, timeToLive: 5), on: link, to: 0)
    hall.pass(.seconds(2))
    #expect(hall.nodes[0].heard.count == 10 && hall.nodes[0].engine.peer(eli.id) == nil)
    let newcomer = hall.connect(stranger: cem, to: 0)
    hall.pass(.seconds(1))
    let before = hall.nodes[0].sent[newcomer]?.count ?? 0
    let request = try SyncRequest(filter: SyncFilter([]))
    hall.inject(
      cem.packet(.requestSync, request.bytes, at: hall.time, to: hall.nodes[0].id, timeToLive: 0), on: newcomer, to: 0)
    let answers = try (hall.nodes[0].sent[newcomer]?.dropFirst(before) ?? []).map { try PacketView($0) }
    let messages = answers.filter { $0.type == .message }
    #expect(messages.count == 5 && messages.allSatisfy { $0.sender == dea.id })
    #expect(answers.contains { $0.type == .announce && $0.sender == dea.id })
  }
}
