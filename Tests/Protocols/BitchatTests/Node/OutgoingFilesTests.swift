import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Pacing of outgoing mesh files")
struct OutgoingFilesTests {
  private static let link = LinkID(1)

  /// A file of this number of fragments that is to go over the link.
  private static func file(_ number: UInt32, fragments: Int) throws -> OutgoingFile {
    var file = OutgoingFile(
      number: number, file: try SharedFile(name: "a.bin", mime: nil, content: [1]), peer: nil, at: .zero)
    let size = 400
    let packet = Packet(
      type: .fileTransfer, timestamp: 1, sender: PeerID(rawValue: 1), payload: FileTests.content(size * fragments - 100)
    )
    let view = try PacketView(try packet.encoded())
    let id = try FragmentID(reading: [UInt8](repeating: UInt8(number), count: FragmentID.size))
    file.cut = OutgoingFile.Cut(
      bytes: view.bytes, cutter: FragmentCutter(view, id: id, sliceSize: size, recipient: nil), madeAt: .zero)
    (file.phase, file.legs) = (.sending, [link: 0])
    return file
  }

  @Test("Timers that fire 4 ms late do not reduce the rate of fragments to a phone")
  func late() throws {
    var files = OutgoingFiles()
    files[1] = try Self.file(1, fragments: 101)
    var (now, sent) = (Instant.zero, 0)
    while let due = files.deadline(isFast: { _ in false }), sent < 101 {
      now = max(now, due).advanced(by: .milliseconds(4))
      guard files.take(for: Self.link, isFast: false, at: now) != nil else { continue }
      sent += 1
      files.hasRoom(Self.link, waiting: 0)
    }
    #expect(sent == 101)
    let taken = Instant.zero.duration(to: now)
    #expect(taken >= OutgoingFiles.pause * 100 && taken <= OutgoingFiles.pause * 100 + .milliseconds(10), "\(taken)")
  }

  @Test("If two files share a link, fragments of the one with fewer remaining are sent first")
  func smallFirst() throws {
    var files = OutgoingFiles()
    files[1] = try Self.file(1, fragments: 30)
    files[2] = try Self.file(2, fragments: 5)
    var order: [UInt32] = []
    var now = Instant.zero
    while let packet = files.take(for: Self.link, isFast: false, at: now) {
      order.append(packet.number)
      files.hasRoom(Self.link, waiting: 0)
      now = now.advanced(by: OutgoingFiles.pause)
    }
    #expect(order == Array(repeating: 2, count: 5) + Array(repeating: 1, count: 30))
  }
}
