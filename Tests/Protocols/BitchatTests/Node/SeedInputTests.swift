import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Packets of dialect S, valid and invalid, to a node of dialect L. Facts: bitchat.md section 16.1.
@Suite("Received packets of dialect S")
struct SeedInputTests {
  private func line(_ text: String, _ sender: Stranger, at time: UInt64, isPrivate: Bool = false) -> [UInt8] {
    var message = SeedMessage(timestamp: time, id: "6E1B2C3D-0000-4000-8000-AABBCCDDEEFF", sender: "x", text: text)
    message.isPrivate = isPrivate
    return sender.packet(SeedNumbers.seed.message, message.bytes, at: time, to: .everybody)
  }

  @Test("Messages, leaves and fragments of dialect S are handled, and not relayed to peers of dialect L")
  func taken() throws {
    var stage = LimitStage()
    let eve = Stranger(1)
    stage.inject(eve.announce(at: stage.time))
    stage.hall.pass(.seconds(1))
    let air = Overheard.listen(to: &stage.hall)
    let said = line("hello", eve, at: stage.time)
    stage.inject(said)
    stage.inject(said)
    #expect(stage.ann.heard.map(\.text) == ["hello"] && stage.ann.heard.first?.nickname == "stranger 1")
    let live = PacketID(
      Packet(type: .message, timestamp: stage.time, sender: eve.id, payload: Array("hello".utf8)))
    #expect(stage.ann.heard.first?.packet == live)
    let long = line(LimitStage.text(900), eve, at: stage.time + 1)
    for numbers in [SeedNumbers.seed, .mid2025] {
      let view = try PacketView(long.with(time: stage.time + 1))
      let parts = try #require(
        SeedFragments.packets(of: view, numbers: numbers, id: FragmentID(rawValue: 7), frameLimit: 512))
      for part in parts { stage.inject(try part.encoded()) }
    }
    #expect(stage.ann.heard.count == 2 && stage.ann.engine.counters.badFragments == 0)
    stage.inject(eve.packet(SeedNumbers.seed.leave, [], at: stage.time + 2))
    #expect(stage.ann.gone == [eve.id] && stage.ann.engine.counters.translatedPackets > 3)
    stage.hall.pass(.seconds(2))
    #expect(air.packets.allSatisfy { [0x01, 0x21].contains($0.type) }, "\(air.types())")
    #expect(stage.bob.heard.isEmpty)
  }

  @Test("A message that arrives in both dialects is shown once, in either order", arguments: [true, false])
  func both(seedFirst: Bool) {
    var stage = LimitStage()
    let eve = Stranger(1)
    stage.inject(eve.announce(at: stage.time))
    let forms = [line("hello", eve, at: stage.time), eve.line("hello", at: stage.time)]
    for form in seedFirst ? forms : forms.reversed() { stage.inject(form) }
    stage.hall.pass(.seconds(1))
    #expect(stage.ann.heard.map(\.text) == ["hello"])
    #expect(stage.bob.heard.map(\.text) == ["hello"], "the form of dialect L is passed on")
  }

  @Test("A dialect S message is dropped if badly signed, from an unknown peer, or private and not sealed")
  func refused() {
    var stage = LimitStage()
    let (eve, mallory) = (Stranger(1), Stranger(2))
    stage.inject(line("too early", eve, at: stage.time))
    #expect(stage.ann.heard.isEmpty)
    stage.inject(eve.announce(at: stage.time))
    #expect(stage.ann.heard.map(\.text) == ["too early"], "it has waited for the announce")
    stage.inject(line("forged", mallory, at: stage.time + 1).with(sender: eve.id))
    stage.inject(line("altered", eve, at: stage.time + 2).flipped(at: 60))
    stage.inject(line("secret", eve, at: stage.time + 3, isPrivate: true))
    #expect(stage.ann.heard.count == 1)
    #expect(stage.ann.engine.counters.badSignatures >= 1 && stage.ann.engine.counters.unreadable == 1)
    stage.hall.handle(.block(eve.id, true), at: 0)
    stage.inject(line("blocked", eve, at: stage.time + 4))
    #expect(stage.ann.heard.count == 1)
    let leave = mallory.packet(SeedNumbers.seed.leave, [], at: stage.time + 5).with(sender: eve.id)
    stage.inject(leave)
    #expect(stage.ann.gone.isEmpty)
  }

  @Test("A dialect S message for another peer is not shown, and an inflation bomb counts against its link")
  func directed() {
    var stage = LimitStage()
    let eve = Stranger(1)
    stage.inject(eve.announce(at: stage.time))
    let message = SeedMessage(timestamp: 1, id: "i", sender: "x", text: "for bob")
    stage.inject(eve.packet(SeedNumbers.seed.message, message.bytes, at: stage.time, to: stage.bob.id))
    #expect(stage.ann.heard.isEmpty)
    let bomb = SeedMessage(timestamp: 1, id: "i", sender: "x", text: String(repeating: "a", count: 60_000))
    for number in 0..<60 {
      stage.inject(
        eve.packet(SeedNumbers.seed.message, bomb.bytes, at: stage.time + UInt64(number), to: stage.bob.id))
    }
    #expect(stage.ann.engine.counters.tooMuchInflation > 0)
  }

  @Test("A receipt of dialect S counts only with its recipient's signature, with either packet number")
  func acknowledgements() throws {
    var stage = LimitStage()
    let (eve, mallory) = (Stranger(1), Stranger(2))
    stage.inject(eve.announce(at: stage.time))
    stage.inject(mallory.announce(at: stage.time))
    let ids = try (1...4).map { number in
      try MessageUUID(text: "00000000-0000-4000-8000-00000000000\(number)")
    }
    for (number, id) in ids.enumerated() {
      let message = OutgoingMessage(
        number: UInt32(number), peer: eve.id, pieces: [.init(id: try MessageID(id.description), text: "t")],
        createdAt: stage.time, tries: 1)
      _ = try stage.hall.nodes[0].engine.restore(message, at: stage.hall.now, time: stage.time)
    }
    func ack(_ id: MessageUUID, by sender: Stranger, of recipient: Stranger) throws -> [UInt8] {
      try SeedDeliveryAck(message: id, ack: ids[0], recipient: recipient.id, hops: 1, timestamp: 1, nickname: "e").bytes
    }
    let time = stage.time + 5
    // Mallory sends in Eve's name, and in her own.
    let forged = mallory.packet(
      SeedNumbers.seed.deliveryAck, try ack(ids[0], by: mallory, of: eve), at: time, to: stage.ann.id)
    stage.inject(forged.with(sender: eve.id))
    stage.inject(forged)
    stage.inject(
      mallory.packet(
        SeedNumbers.seed.deliveryAck, try ack(ids[0], by: mallory, of: mallory), at: time, to: stage.ann.id))
    stage.inject(
      eve.packet(
        SeedNumbers.seed.deliveryAck, try ack(ids[0], by: eve, of: eve), at: time, to: stage.ann.id, isSigned: false))
    stage.inject(
      eve.packet(SeedNumbers.seed.deliveryAck, try ack(ids[0], by: eve, of: eve), at: time, to: stage.bob.id))
    #expect(stage.ann.progress.isEmpty)
    stage.inject(
      eve.packet(SeedNumbers.seed.deliveryAck, try ack(ids[0], by: eve, of: eve), at: time, to: stage.ann.id))
    stage.inject(
      eve.packet(SeedNumbers.mid2025.deliveryAck, try ack(ids[1], by: eve, of: eve), at: time, to: stage.ann.id))
    let receipts = try ids[2...].map {
      try SeedReadReceipt(message: $0, receipt: ids[0], reader: eve.id, timestamp: 1, nickname: "e").bytes
    }
    stage.inject(eve.packet(SeedNumbers.seed.readReceipt, receipts[0], at: time, to: stage.ann.id))
    stage.inject(eve.packet(SeedNumbers.mid2025.readReceipt, receipts[1], at: time, to: stage.ann.id))
    #expect(stage.ann.progress == [0: [.delivered], 1: [.delivered], 2: [.read], 3: [.read]])
  }

  @Test("A node of dialect L neither answers nor relays a hello, and changes no state because of it")
  func hello() throws {
    var stage = LimitStage()
    let eve = Stranger(1)
    stage.inject(eve.announce(at: stage.time))
    let hello = Vectors.shared.legacy2025.versionHello.bytes
    let air = Overheard.listen(to: &stage.hall)
    for timeToLive in [7, 0] as [UInt8] {
      for recipient in [nil, stage.ann.id, stage.bob.id] {
        stage.inject(eve.packet(.fragment, hello, at: stage.time, to: recipient, timeToLive: timeToLive))
      }
    }
    stage.hall.pass(.seconds(1))
    #expect(air.all(0x20).isEmpty && (stage.ann.sent[stage.link] ?? []).allSatisfy { $0[1] != 0x20 })
    #expect((stage.ann.sent[stage.link] ?? []).allSatisfy { $0[1] != 0x21 || $0.count > 100 })
    #expect(stage.ann.engine.counters.refusedTranslations > 0 && stage.ann.engine.counters.badFragments == 0)
    #expect(stage.ann.engine.dialect(of: eve.id) == .live)
  }

  @Test("Invalid packets with dialect S numbers are dropped, and so are packets 12 without a session")
  func nothing() {
    var stage = LimitStage()
    let eve = Stranger(1)
    stage.inject(eve.announce(at: stage.time))
    let before = stage.ann.engine.counters.refusedTranslations
    let air = Overheard.listen(to: &stage.hall)
    for (count, type) in ([0x05, 0x06, 0x07, 0x0A, 0x0B, 0x0C, 0x12] as [UInt8]).enumerated() {
      let type = MessageType(rawValue: type)
      stage.inject(eve.packet(type, [0xFF, 0xFE, 1], at: stage.time, to: stage.ann.id))
      #expect(stage.ann.engine.counters.refusedTranslations == before + UInt64(count) + 1, "\(type)")
      stage.inject(eve.packet(type, [0xFF, 0xFE, 1], at: stage.time, to: stage.bob.id))
    }
    // A packet 04 that does not decode is relayed as an unknown type.
    stage.inject(eve.packet(.courier, [0xFF, 0xFE, 1], at: stage.time))
    stage.hall.pass(.seconds(1))
    #expect(air.types(from: 0).filter { $0 != 0x01 && $0 != 0x21 } == [0x04])
  }
}
