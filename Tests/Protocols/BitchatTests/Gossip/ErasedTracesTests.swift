import Bytes
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Hashes of erased packets and former peer IDs")
struct ErasedTracesTests {
  private func packet(_ number: Int) throws -> PacketID {
    PacketID(
      Packet(
        type: .message, timestamp: UInt64(number), sender: PeerID(rawValue: 7), payload: Array("text \(number)".utf8)))
  }

  @Test("Erased packets and former peer IDs are recognised by their hashes, also after a restart, and no others")
  func roundTrip() throws {
    var random = SeededRandom(seed: 1)
    var traces = ErasedTraces(randomFrom: &random)
    let (own, packets) = (PeerID(rawValue: 77), try (0..<50).map { try packet($0) })
    traces.add(packets, own: own, at: 1_000_000)
    let read = try ErasedTraces(reading: traces.bytes)
    #expect(read == traces)
    for packet in packets { #expect(read.contains(packet)) }
    #expect(try !read.contains(packet(50)) && read.isFormerSelf(own) && !read.isFormerSelf(PeerID(rawValue: 78)))
    for packet in packets { #expect(!Hex.encode(traces.bytes).contains(packet.description)) }
  }

  @Test("The hashes of the latest 8,000 erased packets are stored, and expire a day after the last wipe")
  func limits() throws {
    var random = SeededRandom(seed: 1)
    var traces = ErasedTraces(randomFrom: &random)
    traces.add(try (0..<9000).map { try packet($0) }, own: nil, at: 1000)
    #expect(try !traces.contains(packet(999)) && traces.contains(packet(1000)) && traces.contains(packet(8999)))
    #expect(try ErasedTraces(reading: traces.bytes) == traces)
    traces.add([], own: nil, at: 5000)
    #expect(!traces.isOver(at: 5000 + ErasedTraces.lifetime) && traces.isOver(at: 5001 + ErasedTraces.lifetime))
    #expect(traces.predatesWipe(5000) && !traces.predatesWipe(5001) && !traces.surelyPredatesWipe(4999))
  }
}
