import Common
import Testing

@testable import Bitchat

@Suite("Packets in a stream of notifications")
struct NotificationCutterTests {
  private func frame(_ number: UInt8, route: Int = 0) throws -> [UInt8] {
    try Packet(
      version: .v2, type: .message, timestamp: 1, sender: PeerID(rawValue: 2),
      route: [PeerID](repeating: PeerID(rawValue: 3), count: route), payload: [number, 1, 2],
      signature: [UInt8](repeating: number, count: 64)
    ).encoded()
  }

  private func instant(_ milliseconds: Int) -> Instant { Instant.zero.advanced(by: .milliseconds(milliseconds)) }

  @Test("Packets are returned complete, however the stream is divided", arguments: [1, 2, 3, 17, 64, 200, 1000])
  func portions(size: Int) throws {
    let frames = try (0..<6).map { try frame($0, route: Int($0)) }
    // Padding of 16 bytes or more, and some other bytes.
    let padding = [UInt8](repeating: 16, count: 16)
    let long = [UInt8](repeating: 0xFF, count: 255)
    let parts: [[UInt8]] = [
      frames[0], frames[1], padding, frames[2], [0, 0, 9], frames[3], long, frames[4], frames[5],
    ]
    let stream: [UInt8] = Array(parts.joined())
    var cutter = NotificationCutter()
    var cut = NotificationCutter.Cut()
    for start in stride(from: 0, to: stream.count, by: size) {
      let next = cutter.append(Array(stream[start...].prefix(size)), at: .zero)
      cut.packets += next.packets
      cut.skipped += next.skipped
      cut.lost += next.lost
    }
    #expect(cut == .init(packets: frames, skipped: 16 + 3 + 255, lost: 0))
    #expect(cutter.pending == 0)
  }

  @Test("An incomplete packet is dropped 250 ms after it began, and the next packet is read")
  func stalled() throws {
    let (first, second) = (try frame(1), try frame(2))
    for (wait, packets) in [(249, [first]), (250, [])] as [(Int, [[UInt8]])] {
      var cutter = NotificationCutter()
      #expect(cutter.append(Array(first.dropLast(10)), at: instant(1000)).packets == [])
      let cut = cutter.append(Array(first.suffix(10)), at: instant(1000 + wait))
      #expect(cut.packets == packets)
      #expect(cut.lost == (packets.isEmpty ? first.count - 10 : 0))
    }
    var cutter = NotificationCutter()
    _ = cutter.append(Array(first.dropLast(10)), at: instant(0))
    #expect(cutter.append(second, at: instant(300)).packets == [second])
    // The timeout counts from the beginning of the incomplete packet, not of the one before it.
    _ = cutter.append(Array(first.dropLast(10)), at: instant(400))
    let both = cutter.append(Array(first.suffix(10)) + second.dropLast(10), at: instant(600))
    #expect(both.packets == [first])
    #expect(cutter.append(Array(second.suffix(10)), at: instant(800)).packets == [second])
  }

  @Test("The buffer holds one packet of maximum length; a header that claims more empties it")
  func bounds() throws {
    var header = Array(try frame(1).prefix(24))
    header.replaceSubrange(12..<16, with: [0x00, 0x12, 0x00, 0x70])
    var cutter = NotificationCutter()
    _ = cutter.append(header, at: .zero)
    for _ in 0..<100 { _ = cutter.append([UInt8](repeating: 0, count: 20_000), at: .zero) }
    #expect(cutter.pending <= Limits.payloadBytes + 100)
    header[15] = 0x71
    var other = NotificationCutter()
    let cut = other.append(header + [1, 2, 3], at: .zero)
    #expect(cut == .init(packets: [], skipped: 0, lost: header.count + 3))
    #expect(other.append(try frame(2), at: .zero).packets.count == 1)
  }
}
