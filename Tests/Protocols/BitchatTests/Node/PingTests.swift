import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Pings between mesh nodes")
struct PingTests {
  @Test("A pong reports the number of hops and the round-trip time")
  func pings() throws {
    var hall = FileTests.line(4)
    for place in 1...3 { try hall.ping(place, as: UInt32(place), at: 0) }
    hall.pass(.seconds(3))
    for place in 1...3 {
      let pong = try #require(hall.nodes[0].pongs[UInt32(place)])
      #expect(pong.hops == place)
      #expect((UInt32(10 * place)...UInt32(30 * place + 260 * (place - 1))).contains(pong.milliseconds))
    }
    #expect(hall.nodes[0].lostPings.isEmpty)
    hall.pass(.seconds(20))
    #expect(hall.nodes[0].lostPings.isEmpty)
  }

  @Test("A ping without a pong counts as lost after 10 s, and a later pong is ignored")
  func lost() throws {
    var hall = FileTests.line(2)
    hall.passes = { bytes, _, _ in bytes[1] != MessageType.pong.rawValue }
    try hall.ping(1, at: 0)
    hall.pass(.milliseconds(9_900))
    #expect(hall.nodes[0].lostPings.isEmpty)
    hall.pass(.milliseconds(200))
    #expect(hall.nodes[0].lostPings == [1])
  }

  @Test("A link gets at most 5 pongs in 10 s, whichever peer sends the pings")
  func limit() {
    var stage = LimitStage()
    func pongs() -> Int {
      (stage.ann.sent[stage.link] ?? []).count { $0[1] == MessageType.pong.rawValue }
    }
    // A link whose peer sends no announce closes.
    stage.inject(Stranger(0).announce(at: stage.time))
    var number: UInt64 = 0
    func ask(_ times: Int) {
      for _ in 0..<times {
        number += 1
        let eve = Stranger(number)
        let ping = PingPayload(nonce: number).bytes
        stage.inject(eve.packet(.ping, ping, at: stage.time + number, to: stage.ann.id, isSigned: false))
      }
    }
    ask(3)
    #expect(pongs() == 3)
    stage.hall.pass(.seconds(6))
    ask(10)
    #expect(pongs() == 5 && stage.ann.engine.counters.refusedPings == 8)
    stage.hall.pass(.milliseconds(3_900))
    ask(10)
    #expect(pongs() == 5, "the first ones are not yet ten seconds old")
    stage.hall.pass(.milliseconds(200))
    ask(10)
    #expect(pongs() == 8, "three of them are")
    stage.hall.pass(.seconds(6))
    ask(10)
    #expect(pongs() == 10, "the other two are")
  }

  @Test(
    "An Earshot neighbour gets 250 pongs a second, and pings that it relays the usual 5 in 10 s"
  )
  func often() {
    for isOwn in [true, false] {
      var stage = LimitStage()
      let eve = Stranger(1)
      stage.inject(eve.announce(at: stage.time, isEarshot: true))
      let before = stage.ann.engine.counters.refusedPings
      for number in 1...300 as ClosedRange<UInt64> {
        let sender = isOwn ? eve : Stranger(1000 + number)
        let ping = PingPayload(nonce: number).bytes
        stage.inject(sender.packet(.ping, ping, at: stage.time + number, to: stage.ann.id, isSigned: false))
      }
      #expect(stage.ann.engine.counters.refusedPings - before == (isOwn ? 50 : 295))
    }
  }

  @Test("Stopping a node reports each pending ping as lost once")
  func stopped() throws {
    var hall = FileTests.line(2)
    hall.passes = { bytes, _, _ in bytes[1] != MessageType.pong.rawValue }
    for number in 1...3 as ClosedRange<UInt32> { try hall.ping(1, as: number, at: 0) }
    hall.handle(.stop, at: 0)
    #expect(hall.nodes[0].lostPings == [1, 2, 3])
    hall.handle(.start, at: 0)
    hall.pass(.seconds(20))
    #expect(hall.nodes[0].lostPings.count == 3)
  }

  @Test("A pong from another peer, with another nonce, or without a ping is ignored and counted")
  func forged() throws {
    var hall = FileTests.line(2)
    let eve = Stranger(1)
    let link = hall.connect(stranger: eve, to: 0)
    hall.passes = { bytes, _, _ in bytes[1] != MessageType.pong.rawValue }
    try hall.ping(1, at: 0)
    let ping = hall.nodes[0].sent[link] ?? []
    #expect(ping.allSatisfy { $0[1] != MessageType.ping.rawValue }, "what is for a neighbour goes to it alone")
    for nonce in 0..<20 as Range<UInt64> {
      let payload = PingPayload(nonce: nonce).bytes
      hall.inject(
        eve.packet(.pong, payload, at: hall.time + nonce, to: hall.nodes[0].id, isSigned: false), on: link, to: 0)
    }
    hall.pass(.seconds(1))
    #expect(hall.nodes[0].pongs.isEmpty)
    let counters = hall.nodes[0].engine.counters
    #expect(counters.unaskedPongs == 20 && counters.unreadable == 0)
  }

  @Test("A pong with the right nonce from another peer is ignored, and at most 64 pings are pending")
  func answeredByAnother() throws {
    var hall = FileTests.line(2)
    let eve = Stranger(1)
    let link = hall.connect(stranger: eve, to: 0)
    let nonces = Nonces()
    hall.passes = { bytes, from, _ in
      if from == 0, bytes[1] == MessageType.ping.rawValue, let packet = try? Packet(decoding: bytes),
        let ping = try? PingPayload(reading: packet.payload)
      {
        nonces.seen.append(ping.nonce)
      }
      return bytes[1] != MessageType.pong.rawValue
    }
    for number in 1...64 as ClosedRange<UInt32> { try hall.ping(1, as: number, at: 0) }
    #expect(throws: MeshEngine.PingError.tooMany) { try hall.ping(1, as: 65, at: 0) }
    let payload = PingPayload(nonce: try #require(nonces.seen.first)).bytes
    hall.inject(eve.packet(.pong, payload, at: hall.time, to: hall.nodes[0].id, isSigned: false), on: link, to: 0)
    #expect(hall.nodes[0].pongs.isEmpty && hall.nodes[0].engine.counters.unaskedPongs == 1)
    hall.pass(.seconds(11))
    #expect(hall.nodes[0].lostPings.count == 64)
    try hall.ping(1, as: 66, at: 0)
  }

  /// The nonces of pings.
  private final class Nonces {
    var seen: [UInt64] = []
  }

  @Test("A node cannot ping itself, or ping without neighbours, and a blocked peer gets no pong")
  func refused() throws {
    var hall = FileTests.line(2)
    #expect(throws: MeshEngine.PingError.ourselves) { try hall.ping(0, at: 0) }
    hall.add(["cem"])
    #expect(throws: MeshEngine.PingError.notReady) { try hall.ping(0, at: 2) }
    hall.handle(.block(hall.nodes[0].id, true), at: 1)
    try hall.ping(1, at: 0)
    hall.pass(.seconds(11))
    #expect(hall.nodes[0].lostPings == [1], "who is blocked gets no answer")
  }
}
