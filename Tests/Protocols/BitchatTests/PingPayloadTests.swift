import Bytes
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Encoding of mesh pings")
struct PingPayloadTests {
  @Test("A ping has a nonce, a TTL and an optional confirmation interval, and further bytes are ignored")
  func layout() throws {
    let ping = try PingPayload(reading: Hex.decode("0102030405060708" + "07"))
    #expect(ping.nonce == 0x0102_0304_0506_0708 && ping.firstTimeToLive == 7 && ping.interval == nil)
    #expect(Hex.encode(ping.bytes) == "010203040506070807")
    let asking = PingPayload(nonce: ping.nonce, interval: 12)
    #expect(Hex.encode(asking.bytes) == "0102030405060708070c")
    #expect(try PingPayload(reading: asking.bytes + [1, 2]) == asking)
    for count in 0..<9 { #expect(throws: WireError.self) { try PingPayload(reading: Array(ping.bytes.prefix(count))) } }
  }

  @Test("The hop count of a pong is the TTL difference plus one, and impossible values give none")
  func hops() {
    let ping = PingPayload(nonce: 1)
    #expect((1...7).map { ping.hops(at: $0) } == [7, 6, 5, 4, 3, 2, 1])
    #expect(ping.hops(at: 0) == nil && ping.hops(at: 8) == nil)
    #expect(PingPayload(nonce: 1, firstTimeToLive: 255).hops(at: 7) == nil)
    #expect(PingPayload(nonce: 1, firstTimeToLive: 3).hops(at: 4) == nil)
  }

  @Test("The recorded ping and pong are decoded")
  func vectors() throws {
    let packets = Vectors.shared.packets
    for (name, type) in [("ping", MessageType.ping), ("pong", .pong)] {
      let vector = try #require(packets.first { $0.name == name })
      let packet = try Packet(decoding: vector.wire.bytes)
      #expect(packet.type == type)
      #expect(try PingPayload(reading: packet.payload).firstTimeToLive <= 7)
    }
  }
}
