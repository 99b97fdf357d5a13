import Bitchat
import MeshStore
import Testing

@testable import Mesh

@Suite("The list of files")
struct FileLogTests {
  private static let sender = PeerID(rawValue: 5)

  private static func kept(_ number: UInt32, packet: PacketID? = nil, receipt: MessageID? = nil) -> MeshFile {
    MeshFile(
      number: number, time: 1, sender: sender, nickname: "ann", name: "a", mime: "image/png", size: 3, packet: packet,
      receipt: receipt, place: UInt64(number))
  }

  private static func own(_ number: UInt32, _ state: FileState) -> FileLog.Entry {
    FileLog.Entry(
      number: number, direction: .outgoing, name: "a", mime: "image/png", size: 3, peer: nil, nickname: "",
      isPrivate: false, time: 1, state: state)
  }

  @Test("A file is known by its packet or its receipt until it is removed, and may come again then")
  func removed() throws {
    var log = FileLog()
    let id = PacketID(Packet(type: .fileTransfer, timestamp: 1, sender: Self.sender, payload: []))
    let receipt = try MessageID("FILE-1")
    log.add(Self.kept(1, packet: id))
    log.add(Self.kept(2, receipt: receipt))
    #expect(log.has(id) && log.has(receipt, from: Self.sender) && log.numbers == [1, 2])
    #expect(!log.has(receipt, from: PeerID(rawValue: 6)), "of another sender it is another file")
    log.remove(1)
    log.remove(2)
    #expect(!log.has(id) && !log.has(receipt, from: Self.sender) && log.numbers.isEmpty)
  }

  @Test("Of this node's files that have ended a hundred are listed, and those on their way as well")
  func ended() {
    var log = FileLog()
    let underWay = log.add(Self.own(1, .sending))
    #expect(underWay == nil)
    for number in 2...101 as ClosedRange<UInt32> {
      let old = log.add(Self.own(number, number.isMultiple(of: 2) ? .sent : .cancelled))
      #expect(old == nil)
    }
    let old = log.add(Self.own(102, .delivered))
    #expect(old == 2, "the oldest that has ended goes, and not the one on its way")
  }
}
