import Bytes
import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// Observed results of the originals for the same bytes; facts: bitchat.md section 13.
@Suite("Bitchat vectors: payloads")
struct PayloadVectorTests {
  let vectors = Vectors.shared

  private func announcement(_ name: String) throws -> (row: Vectors.PacketRow, value: Announcement) {
    let row = try vectors.packet(name)
    return (row, try Announcement(reading: row.payload.bytes))
  }

  @Test(
    "The recorded announcements are decoded, whatever the order of their records",
    arguments: [
      ("announce_ios_style", "alice"), ("announce_android_style", "bob"), ("announce_unknown_tlv_b5", "alice"),
      ("announce_minimal_relayed_ttl5", "carol"),
    ])
  func announcements(name: String, who: String) throws {
    let identity = try vectors.identity(who)
    let (row, announcement) = try announcement(name)
    #expect(announcement.nickname == who)
    #expect(announcement.peerID.description == row.sender)
    #expect(announcement.noiseKey.bytes == identity.noisePublic.bytes)
    #expect(announcement.signingKey.bytes == identity.ed25519Public.bytes)
    #expect((announcement.dialect == .seed) == (name == "announce_unknown_tlv_b5"))
    #expect(try Announcement(reading: announcement.bytes) == announcement)
    // Earshot writes the fields in the iOS app's order.
    if name != "announce_android_style" { #expect(announcement.bytes == row.payload.bytes) }
  }

  @Test("The recorded announcement of the iOS app has 5 capabilities, and the Android app's has its neighbours")
  func capabilities() throws {
    let ios: Capabilities = [.prekeys, .groups, .vouch, .privateMedia, .privateMediaReceipts]
    #expect(try announcement("announce_ios_style").value.capabilities == ios)
    let android = try announcement("announce_android_style").value
    #expect(android.capabilities == .privateMedia)
    #expect(android.neighbours?.isEmpty == false)
  }

  @Test("The recorded Noise payloads are decoded, and encoded unchanged")
  func noisePayloads() throws {
    let rows = vectors.noisePayloads
    let id = try MessageID("6E1B2C3D-0000-4000-8000-AABBCCDDEEFF")
    let alice = try vectors.identity("alice").signingKey().publicKey
    let expected: [([UInt8], NoisePayload)] = [
      (rows.privateMessage.bytes, .privateMessage(try PrivateMessage(id: id, text: "hi bob"))),
      (rows.delivered.bytes, .delivered(id)), (rows.readReceipt.bytes, .read(id)),
      (
        rows.authenticatedPeerState.bytes,
        .peerState(PeerState(capabilities: [.privateMedia, .privateMediaReceipts], signingKey: alice))
      ),
    ]
    for (bytes, payload) in expected {
      #expect(try NoisePayload(reading: bytes) == payload)
      #expect(payload.bytes == bytes)
    }
  }

  @Test("Recorded challenge and response are decoded and encoded, and the challenged peer signed the response")
  func challenge() throws {
    let rows = vectors.noisePayloads
    guard case .verificationChallenge(let challenge) = try NoisePayload(reading: rows.verifyChallenge.bytes),
      case .verificationResponse(let response) = try NoisePayload(reading: rows.verifyResponse.bytes)
    else { throw WireError.badValue("type") }
    let bob = try vectors.identity("bob")
    #expect(challenge.noiseKey.bytes == bob.noisePublic.bytes)
    #expect(challenge.signedBytes == rows.verifyResponseSignedBytes.bytes)
    #expect(NoisePayload.verificationChallenge(challenge).bytes == rows.verifyChallenge.bytes)
    #expect(NoisePayload.verificationResponse(response).bytes == rows.verifyResponse.bytes)
    #expect(VerificationResponse(to: challenge, key: try bob.signingKey()) == response)
    #expect(response.answers(challenge, key: try bob.signingKey().publicKey))
    #expect(!response.answers(challenge, key: try vectors.identity("alice").signingKey().publicKey))
    var random = SeededRandom(seed: 1)
    let other = VerificationChallenge(noiseKey: challenge.noiseKey, randomFrom: &random)
    #expect(!response.answers(other, key: try bob.signingKey().publicKey))
  }

  @Test("A favourite notice is decoded from a recorded private message and encoded")
  func favorite() throws {
    guard case .privateMessage(let message) = try NoisePayload(reading: vectors.noisePayloads.favorite.bytes) else {
      throw WireError.badValue("type")
    }
    let notice = try #require(FavoriteNotice(text: message.text))
    #expect(notice == FavoriteNotice(isFavorite: true, npub: vectors.verificationQr.npub))
    #expect(notice.text == message.text)
  }

  @Test("A recorded voice frame is refused as unknown type 08")
  func notUnderstood() {
    #expect(throws: NoisePayloadError.unknownType(0x08)) {
      try NoisePayload(reading: vectors.noisePayloads.voiceFrame.bytes)
    }
  }

  @Test("A recorded verification code is decoded, has the recorded signature, and is fresh for 5 min")
  func code() throws {
    let row = vectors.verificationQr
    let code = try VerificationCode(reading: row.url)
    #expect(code.noiseKey.bytes == row.noise.bytes)
    #expect(code.signingKey.bytes == row.sign.bytes)
    #expect(code.nickname == row.nick)
    #expect(code.npub == row.npub)
    #expect(code.seconds == row.ts)
    #expect(code.nonce == row.nonce)
    #expect(code.signature == row.sig.bytes)
    #expect(code.signedBytes == row.canonical.bytes)
    #expect(code.isSigned)
    #expect(code.text == row.url)
    let alice = try vectors.identity("alice")
    let made = try VerificationCode(
      noiseKey: alice.noiseKey(), key: alice.signingKey(), nickname: row.nick, npub: row.npub, seconds: row.ts,
      nonce: row.nonce)
    #expect(made == code)
    for (age, isFresh) in [(0, true), (300, true), (301, false), (-300, true), (-301, false)] as [(Int64, Bool)] {
      #expect(code.isFresh(at: row.ts + age) == isFresh)
    }
  }

  @Test("A packet is fragmented and reassembled as recorded", arguments: Vectors.shared.fragments)
  func fragments(row: Vectors.FragmentRow) throws {
    let inner = try PacketView(row.innerWire.bytes)
    let id = try FragmentID(reading: Hex.decode(row.fragmentId))
    let recorded = row.fragments.map(\.bytes)
    let plan = try #require(FragmentPlan(inner, id: id, sliceSize: row.chunk, recipient: inner.namedRecipient))
    #expect((try recorded.map { try Packet(decoding: $0) }) == plan.fragments)
    for (packet, wire) in zip(plan.fragments, recorded) {
      let encoded = try packet.encoded()
      // The recorded bytes may come from any deflate implementation.
      if !(try PacketView(wire).flags.contains(.compressed)) { #expect(encoded == wire) }
      #expect(try PacketView(encoded).count <= Limits.frameBytes)
    }
    for order in [recorded, recorded.reversed()] {
      var assembler = FragmentAssembler()
      var outcomes: [FragmentAssembler.Outcome] = []
      for wire in order {
        let packet = try Packet(decoding: wire)
        outcomes.append(assembler.add(try Fragment(reading: packet.payload), from: packet.sender, at: .zero))
      }
      let expected: [FragmentAssembler.Outcome] =
        [.stored, .stored].prefix(recorded.count - 1) + [.complete(row.innerWire.bytes)]
      #expect(outcomes == expected)
      #expect(assembler.count == 0)
      #expect(assembler.bytes == 0)
    }
  }

  @Test("Slice sizes of fragments follow the apps' rules, minus one byte if there is a recipient")
  func sliceSizes() throws {
    let rules = vectors.fragmentChunkRules
    #expect(FragmentPlan.sliceSize(frameLimit: 512, hasRecipient: false, hops: 0) == rules.iosDefault)
    #expect(FragmentPlan.sliceSize(frameLimit: 512, hasRecipient: true, hops: 0) == rules.iosDefault)
    #expect(FragmentPlan.sliceSize(frameLimit: 1000, hasRecipient: true, hops: 0) == rules.iosDefault)
    #expect(rules.iosLinkLimited == "max(64, linkLimit - 42)")
    #expect(FragmentPlan.sliceSize(frameLimit: 182, hasRecipient: false, hops: 0) == 182 - 42)
    #expect(FragmentPlan.sliceSize(frameLimit: 182, hasRecipient: true, hops: 0) == 182 - 43)
    #expect(rules.iosRouted == "max(64, 512-(16+8+8+1+8*hops+13+16))")
    for hops in 1...4 {
      let size = FragmentPlan.sliceSize(frameLimit: 512, hasRecipient: true, hops: hops)
      #expect(size == 512 - (16 + 8 + 8 + 1 + 8 * hops + 13 + 16))
    }
    #expect(FragmentPlan.sliceSize(frameLimit: 107, hasRecipient: true, hops: 0) == 64)
    #expect(FragmentPlan.sliceSize(frameLimit: 106, hasRecipient: true, hops: 0) == nil)
    // The Android app's fragments are shorter than ours, so its frames fit where ours do.
    for example in rules.androidExamples where example.routeHops == 0 {
      #expect(example.chunk <= rules.iosDefault)
    }
  }
}
