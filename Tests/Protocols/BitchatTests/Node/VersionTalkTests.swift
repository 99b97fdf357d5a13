import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Version hello and answer, exchanged with a stranger. Facts: bitchat.md section 16.1.
@Suite("Version negotiation of dialect S")
struct VersionTalkTests {
  /// Ann, who prefers dialect S, and a stranger with a link to her.
  private struct Stage {
    var hall = MeshHall()
    let eve = Stranger(1)
    let link: LinkID
    var ann: MeshHall.Node { hall.nodes[0] }

    init(isMarked: Bool, dialect: MeshDialect = .seed) {
      hall.add(["ann"]) { $0.dialect = dialect }
      link = hall.connect(to: 0)
      announce(isMarked: isMarked)
    }

    mutating func announce(isMarked: Bool) {
      let announcement = try? Announcement(
        nickname: "eve", noiseKey: eve.noiseKey.publicKey, signingKey: eve.signingKey.publicKey,
        dialect: isMarked ? .seed : .live)
      inject(eve.packet(.announce, announcement?.bytes ?? [], at: hall.time))
    }

    mutating func inject(_ bytes: [UInt8]) { hall.inject(bytes, on: link, to: 0) }

    mutating func greet(_ payload: [UInt8], timeToLive: UInt8 = 0, isSigned: Bool = true) {
      inject(eve.packet(.fragment, payload, at: hall.time, to: ann.id, timeToLive: timeToLive, isSigned: isSigned))
    }

    mutating func answer(_ payload: [UInt8], timeToLive: UInt8 = 0, isSigned: Bool = true) {
      inject(eve.packet(.requestSync, payload, at: hall.time, to: ann.id, timeToLive: timeToLive, isSigned: isSigned))
    }

    /// The packets of this type number that Ann has sent, without sync requests.
    func sent(_ type: UInt8) -> [Packet] {
      (ann.sent[link] ?? []).compactMap { try? Packet(decoding: $0) }
        .filter { $0.type.rawValue == type && !$0.payload.starts(with: [1, 0, 1]) }
    }
  }

  private let hello = Vectors.shared.legacy2025.versionHello.bytes
  private let ack = Vectors.shared.legacy2025.versionAck.bytes

  @Test("Only a peer that announces dialect S gets a hello, once, on its link")
  func proven() throws {
    var stage = Stage(isMarked: false)
    stage.hall.pass(.seconds(3))
    #expect(stage.sent(0x20).isEmpty)
    stage.announce(isMarked: true)
    let hello = try #require(stage.sent(0x20).first)
    #expect(hello.timeToLive == 0 && hello.recipient == stage.eve.id)
    let view = try PacketView(try #require(stage.ann.sent[stage.link]?.last))
    #expect(SignatureCheck(view, decoded: hello, key: stage.ann.engine.identity.signingKey.publicKey).isValid)
    #expect(PacketMeaning(type: hello.type, payload: hello.payload) == .versionHello)
    stage.hall.pass(.seconds(60))
    #expect(stage.sent(0x20).count == 1)
  }

  @Test(
    "A signed, direct hello of dialect S to this node proves that the peer uses dialect S, and is answered",
    arguments: [true, false])
  func heard(isJSON: Bool) throws {
    var stage = Stage(isMarked: false)
    let json = #"{"supportedVersions" : [1, 3],"preferredVersion":1,"clientVersion":"1.0.0","platform":"iOS"}"#
    stage.greet(isJSON ? Array(json.utf8) : hello)
    let answer = try VersionAck(reading: try #require(stage.sent(0x21).first).payload)
    #expect(answer.agreed == 1 && !answer.isRejected && stage.sent(0x20).isEmpty)
    #expect(stage.ann.engine.dialect(of: stage.eve.id) == .seed)
    _ = stage.hall.say("in dialect S", at: 0)
    #expect(stage.sent(0x04).count == 1 && stage.sent(0x02).isEmpty)
    stage.greet(hello)
    #expect(stage.sent(0x21).count == 1, "one answer a second")
    stage.hall.handle(.linkClosed(stage.link), at: 0)
    #expect(stage.ann.engine.dialect(of: stage.eve.id) == .live)
  }

  @Test("A dialect S hello that is unsigned, relayed, from another peer or for another peer proves nothing")
  func doubted() {
    var stage = Stage(isMarked: false)
    stage.greet(hello, isSigned: false)
    stage.greet(hello, timeToLive: 1)
    stage.inject(stage.eve.packet(.fragment, hello, at: stage.hall.time, timeToLive: 0))
    stage.inject(Stranger(2).packet(.fragment, hello, at: stage.hall.time, to: stage.ann.id, timeToLive: 0))
    let other = stage.hall.connect(stranger: Stranger(3), to: 0)
    stage.hall.inject(
      stage.eve.packet(.fragment, hello, at: stage.hall.time, to: stage.ann.id, timeToLive: 0), on: other, to: 0)
    #expect(stage.sent(0x21).isEmpty && stage.ann.engine.dialect(of: stage.eve.id) == .live)
    #expect(stage.ann.engine.counters.refusedTranslations == 5)
  }

  @Test("Without a common version this node rejects a hello, and cuts the link if the peer rejects its own hello")
  func incompatible() throws {
    var stage = Stage(isMarked: true)
    stage.greet(Array(#"{"supportedVersions":[3,4],"clientVersion":"9"}"#.utf8))
    let answer = try VersionAck(reading: try #require(stage.sent(0x21).first).payload)
    #expect(answer.isRejected && answer.agreed == 0 && answer.reason == "no common version" && stage.ann.cuts.isEmpty)
    stage.answer(Vectors.shared.legacy2025.versionAckRejected.bytes)
    #expect(stage.ann.cuts.map(\.1) == [.incompatible])
  }

  @Test("A version answer of dialect S that was not requested, is unsigned, or is not the neighbour's is ignored")
  func unasked() {
    var stage = Stage(isMarked: false)
    stage.answer(Vectors.shared.legacy2025.versionAckRejected.bytes)
    stage.announce(isMarked: true)
    stage.answer(Vectors.shared.legacy2025.versionAckRejected.bytes, isSigned: false)
    stage.answer(Vectors.shared.legacy2025.versionAckRejected.bytes, timeToLive: 7)
    #expect(stage.ann.cuts.isEmpty && stage.ann.engine.counters.refusedTranslations == 3)
    stage.answer(ack)
    #expect(stage.ann.engine.translator.talks[stage.link]?.agreed == .v1)
    #expect(stage.sent(0x10).count == 1, "this node alone has said hello, so it begins the handshake")
    stage.answer(Vectors.shared.legacy2025.versionAckRejected.bytes)
    #expect(stage.ann.cuts.isEmpty, "one answer is enough")
  }

  @Test("A peer that does not answer a hello within 10 s gets version 1, and a later rejection is ignored")
  func unanswered() {
    var stage = Stage(isMarked: true)
    stage.hall.pass(.milliseconds(9_900))
    #expect(stage.ann.engine.translator.talks[stage.link]?.agreed == nil)
    stage.hall.pass(.milliseconds(200))
    #expect(stage.ann.engine.translator.talks[stage.link]?.agreed == .v1)
    stage.answer(Vectors.shared.legacy2025.versionAckRejected.bytes)
    #expect(stage.ann.cuts.isEmpty, "it comes too late")
    _ = stage.hall.say("hello", at: 0)
    #expect(stage.sent(0x04).count == 1)
  }

  @Test("A relay sends no dialect S hello, but answers one")
  func relay() {
    var stage = Stage(isMarked: true)
    #expect(stage.sent(0x20).count == 1)
    stage.hall.add(["relay"]) { configuration in
      configuration.dialect = .seed
      configuration.role = .relay
    }
    let link = stage.hall.connect(to: 1)
    let announcement = try? Announcement(
      nickname: "eve", noiseKey: stage.eve.noiseKey.publicKey, signingKey: stage.eve.signingKey.publicKey,
      dialect: .seed)
    stage.hall.inject(stage.eve.packet(.announce, announcement?.bytes ?? [], at: stage.hall.time), on: link, to: 1)
    let relay = stage.hall.nodes[1]
    stage.hall.inject(
      stage.eve.packet(.fragment, hello, at: stage.hall.time, to: relay.id, timeToLive: 0), on: link, to: 1)
    let types = (relay.sent[link] ?? []).map { $0[1] }
    #expect(!types.contains(0x20) && types.contains(0x21) && !types.contains(0x10))
  }

  @Test("Versions in JSON are read by member name, and an invalid object is refused")
  func json() throws {
    let good = try VersionHello(payload: Array(#"{"platform":"iOS","supportedVersions":[2 ,1]}"#.utf8))
    #expect(good.versions == [.v2, .v1] && good.platform == "iOS" && good.clientVersion == "")
    let ack = try VersionAck(payload: Array(#"{"agreedVersion":2,"rejected":true,"reason":"no"}"#.utf8))
    #expect(ack.agreed == 2 && ack.isRejected && ack.reason == "no")
    let bad = [
      "{", "{}", #"{"supportedVersions"}"#, #"{"supportedVersions":1}"#, #"{"supportedVersions":[1]"#,
      #"{"supportedVersions":[\#([String](repeating: "1", count: 17).joined(separator: ","))]}"#,
      #"{"supportedVersions":[1],"x":"\#(String(repeating: "y", count: 1024))"}"#,
    ]
    for text in bad { #expect(throws: WireError.badValue("versions")) { try VersionHello(payload: Array(text.utf8)) } }
    #expect(throws: WireError.badValue("agreed")) { try VersionAck(payload: Array("{}".utf8)) }
    #expect(try VersionHello(payload: Array(#"{"supportedVersions":[]}"#.utf8)).versions.isEmpty)
    #expect(try VersionHello(payload: Array(#"{"supportedVersions":[300,1]}"#.utf8)).versions == [.v1])
  }
}

extension MeshEngine {
  /// Dialect in which this node addresses the peer.
  func dialect(of peer: PeerID) -> MeshDialect { translator.dialect(of: peer, neighbourhood.peers) }
}
