import Bytes
import Crypto
import Testing

@testable import Noise

@Suite("Noise vectors")
struct VectorTests {
  /// Runs a handshake: one side writes each message as in the vector, and the other side reads it. Then it runs the
  /// transport messages, whose nonces count up from 0 in each direction.
  private static func play(
    _ messages: [(payload: [UInt8], wire: [UInt8])], _ sides: (Handshake, Handshake),
    _ ephemerals: ([UInt8], [UInt8]), isOneWay: Bool, hash: [UInt8]
  ) throws -> (TransportSession, TransportSession) {
    var (initiator, responder) = sides
    var (first, second) = (FixedRandom(ephemerals.0), FixedRandom(ephemerals.1))
    let count = isOneWay ? 1 : 3
    for (index, message) in messages.prefix(count).enumerated() {
      #expect(!initiator.isComplete)
      let written: [UInt8]
      let read: [UInt8]
      if index.isMultiple(of: 2) {
        written = try initiator.write(message.payload, randomFrom: &first)
        read = try responder.read(message.wire)
      } else {
        written = try responder.write(message.payload, randomFrom: &second)
        read = try initiator.read(message.wire)
      }
      #expect(written == message.wire)
      #expect(read == message.payload)
    }
    #expect(initiator.isComplete)
    #expect(responder.isComplete)
    #expect(initiator.hash == hash)
    #expect(responder.hash == hash)
    var (one, other) = (try initiator.session(), try responder.session())
    for (index, message) in messages.dropFirst(count).enumerated() {
      let isFirst = isOneWay || !index.isMultiple(of: 2)
      let written: [UInt8] = isFirst ? try one.seal(message.payload) : try other.seal(message.payload)
      let wire: [UInt8] = Array(written.dropFirst(4))
      #expect(wire == message.wire)
      let read: [UInt8] = isFirst ? try other.open(written) : try one.open(written)
      #expect(read == message.payload)
    }
    return (one, other)
  }

  @Test(
    "The handshake writes and reads the published Noise vectors message by message",
    arguments: PublishedVectors.shared.vectors)
  func published(_ vector: PublishedVectors.Vector) throws {
    let key = try X25519.PrivateKey(copying: vector.initStatic.bytes)
    let other = try X25519.PrivateKey(copying: vector.respStatic.bytes)
    let isOneWay = vector.protocolName.contains("_X_")
    let parts: (Handshake.Part, Handshake.Part)
    if isOneWay {
      let remote = try X25519.PublicKey(try #require(vector.initRemoteStatic).bytes)
      #expect(remote == other.publicKey)
      parts = (.xSender(to: remote), .xReceiver)
    } else {
      parts = (.xxInitiator, .xxResponder)
    }
    let sides = (
      Handshake(parts.0, key: key, prologue: vector.initPrologue.bytes),
      Handshake(parts.1, key: other, prologue: vector.respPrologue.bytes)
    )
    // After the third message of XX the responder sends.
    _ = try Self.play(
      vector.messages.map { ($0.payload.bytes, $0.ciphertext.bytes) }, sides,
      (vector.initEphemeral.bytes, vector.respEphemeral?.bytes ?? []), isOneWay: isOneWay,
      hash: vector.handshakeHash.bytes)
  }

  @Test("The handshake writes and reads the vector that the Bitchat app's tests use")
  func copy() throws {
    let vector = AppVectors.shared.noiseCacophonyXx
    let prologue = vector.prologue.bytes
    let sides = (
      Handshake(.xxInitiator, key: try X25519.PrivateKey(copying: vector.is.bytes), prologue: prologue),
      Handshake(.xxResponder, key: try X25519.PrivateKey(copying: vector.rs.bytes), prologue: prologue)
    )
    _ = try Self.play(
      vector.msgs.map { ($0[0].bytes, $0[1].bytes) }, sides, (vector.ie.bytes, vector.re.bytes), isOneWay: false,
      hash: vector.hash.bytes)
  }

  @Test("The recorded session of the Bitchat app has messages of 32, 96 and 64 bytes and the recorded keys and nonces")
  func application() throws {
    let vectors = AppVectors.shared
    let vector = vectors.noiseBitchatXx
    let sides = (
      Handshake(.xxInitiator, key: try vectors.key(vector.initiator), prologue: vector.prologue.bytes),
      Handshake(.xxResponder, key: try vectors.key(vector.responder), prologue: vector.prologue.bytes)
    )
    let wires = [vector.msg1.bytes, vector.msg2.bytes, vector.msg3.bytes]
    #expect(wires.map(\.count) == [32, 96, 64])
    var (initiator, responder) = try Self.play(
      wires.map { ([], $0) }, sides,
      (vector.initiatorEphemeralPrivate.bytes, vector.responderEphemeralPrivate.bytes), isOneWay: false,
      hash: vector.handshakeHash.bytes)
    let keys = SecretBytes(copying: vector.keyIToR.bytes + vector.keyRToI.bytes)
    for message in vector.transport {
      let isFirst = message.dir == "i->r"
      let opened: [UInt8] =
        isFirst ? try responder.open(message.wire.bytes) : try initiator.open(message.wire.bytes)
      #expect(opened == message.plaintext.bytes)
      var sender = try TransportSession(keys: keys, isInitiator: isFirst, sealed: message.nonce)
      #expect(try sender.seal(message.plaintext.bytes) == message.wire.bytes)
    }
    #expect(vector.transport.count == 6)
  }

  @Test("The recorded one-way message of the Bitchat app is written and read, and shows the sender's key")
  func oneWay() throws {
    let vectors = AppVectors.shared
    let (alice, bob) = (try vectors.key("alice"), try vectors.key("bob"))
    let prekey = try X25519.PrivateKey(copying: vectors.prekey.prekeyPrivate.bytes)
    let text = vectors.courier.plaintext.bytes
    let rows = [
      (bob, Array(vectors.courier.prologueAscii.utf8), vectors.courier.noiseXMessage.bytes),
      (prekey, vectors.prekey.prologue.bytes, vectors.prekey.noiseXMessage.bytes),
    ]
    for (receiver, prologue, wire) in rows {
      var random = FixedRandom(vectors.courier.ephemeralPrivate.bytes)
      let sealed = try OneWayMessage.seal(
        text, to: receiver.publicKey, from: alice, prologue: prologue, randomFrom: &random)
      #expect(sealed == wire)
      #expect(sealed.count == text.count + OneWayMessage.overhead)
      let opened = try OneWayMessage.open(wire, with: receiver, prologue: prologue)
      #expect(opened.text == text)
      #expect(opened.sender == alice.publicKey)
      #expect(throws: NoiseError.authenticationFailed) {
        try OneWayMessage.open(wire, with: receiver, prologue: prologue + [0])
      }
      #expect(throws: NoiseError.authenticationFailed) {
        try OneWayMessage.open(wire, with: alice, prologue: prologue)
      }
    }
  }
}
