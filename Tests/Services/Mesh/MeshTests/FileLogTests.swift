import Bitchat
import BitchatWire
import MeshStore
import Testing

@testable import Mesh

@Suite("The list of mesh files")
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

  @Test("A listed file can be found by its packet ID or receipt ID until it is removed")
  func removed() throws {
    var log = FileLog()
    let id = PacketID(Packet(type: .fileTransfer, timestamp: 1, sender: Self.sender, payload: []))
    let receipt = try MessageID("FILE-1")
    log.add(Self.kept(1, packet: id))
    log.add(Self.kept(2, receipt: receipt))
    let keys: [MeshFile.Key] = [.packet(id), .receipt(Self.sender, receipt)]
    for key in keys { #expect(log.knows([key], at: 1)) }
    #expect(log.numbers == [1, 2])
    #expect(!log.knows([.receipt(PeerID(rawValue: 6), receipt)], at: 1), "of another sender it is another file")
    // A file in clear for this node alone has both keys, and its sender retries in another packet.
    let (other, second) = (
      PacketID(Packet(type: .fileTransfer, timestamp: 2, sender: Self.sender, payload: [])), try MessageID("FILE-2")
    )
    log.add(Self.kept(3, packet: other, receipt: second))
    #expect(log.knows([.packet(other)], at: 1) && log.knows([.receipt(Self.sender, second)], at: 1))
    log.remove(3)
    #expect(!log.knows([.packet(other), .receipt(Self.sender, second)], at: 1))
    log.remove(1)
    log.remove(2)
    #expect(!log.knows(keys, at: 1) && log.numbers.isEmpty)
  }

  @Test("A deleted file is remembered for 17 min, whatever changes are made to the clock")
  func deleted() throws {
    var log = FileLog()
    let (start, life) = (UInt64(1_800_000_000_000), DeletedFile.lifetime)
    let receipts = try (0...DeletedFile.limit).map { try MessageID("FILE-\($0)") }
    func knows(_ number: Int, at time: UInt64) -> Bool {
      log.knows([.receipt(Self.sender, receipts[number])], at: time)
    }
    log.note(DeletedFile(Self.kept(1, receipt: receipts[0]), at: start))
    for time in [start, start + life - 1, start - life + 1] { #expect(knows(0, at: time)) }
    for time in [start + life, start - life] { #expect(!knows(0, at: time)) }
    for number in 1...DeletedFile.limit {
      log.note(DeletedFile(Self.kept(UInt32(number), receipt: receipts[number]), at: start + UInt64(number)))
    }
    #expect(!knows(0, at: start + 5000) && knows(1, at: start + 5000) && knows(DeletedFile.limit, at: start + 5000))
    // A file known by its packet and by its receipt takes two entries.
    var other = FileLog()
    for number in 0...DeletedFile.limit / 2 {
      let packet = PacketID(Packet(type: .fileTransfer, timestamp: UInt64(number), sender: Self.sender, payload: []))
      let file = Self.kept(UInt32(number), packet: packet, receipt: receipts[number])
      other.note(DeletedFile(file, at: start + UInt64(number)))
      if number == 0 { #expect(other.knows(file.keys, at: start)) }
    }
    #expect(!other.knows([.receipt(Self.sender, receipts[0])], at: start))
    #expect(other.knows([.receipt(Self.sender, receipts[1])], at: start))
    log.note(DeletedFile(Self.kept(9), at: start + life + 1))
    #expect(!knows(1, at: start), "what is too old takes no place")
    #expect(knows(2, at: start + life + 1))
  }

  @Test("The list has at most 100 ended files of this node, and all that are being sent")
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
