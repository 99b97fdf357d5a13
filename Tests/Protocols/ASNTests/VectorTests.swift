import Bytes
import Common
import Crypto
import Testing

@testable import ASN

@Suite("The ASN vectors")
struct VectorTests {
  let vectors = Vectors.shared

  @Test("The tests cover every section of the ASN vector file")
  func sections() throws {
    #expect(
      try Vectors.sectionNames() == [
        "blobs", "fixed_session", "fixed_session_client_smaller", "keys", "malformed",
        "nonce_rule", "requests",
      ])
  }

  @Test("The recorded ASN keys match, and the nonce is the beginning of the service key's signature")
  func keys() throws {
    for pair in [vectors.keys.admin, vectors.keys.server, vectors.keys.user] {
      #expect(try pair.encryption.publicKey.bytes == pair.encrPub.bytes)
      #expect(try pair.authentication.publicKey.bytes == pair.authPub.bytes)
      #expect(pair.authSec.bytes.suffix(32) == pair.authPub.bytes[...])
    }
    let signature = try vectors.keys.server.authentication.sign(vectors.keys.server.encrPub.bytes)
    #expect(Array(signature.prefix(24)) == vectors.keys.nonce.bytes)
  }

  /// Both sessions, with the key of the client larger and smaller than those of the server.
  static let sessions = [Vectors.shared.fixedSession, Vectors.shared.fixedSessionClientSmaller]

  @Test("Every recorded segment is sealed to the recorded bytes and opened to the recorded PDU", arguments: 0..<2)
  func segments(number: Int) throws {
    let session = Self.sessions[number]
    let client = try X25519.PrivateKey(copying: session.clientEphemeralSec.bytes)
    let (service, nonce) = (try vectors.keys.server.encryption, vectors.keys.nonce.bytes)
    #expect(client.publicKey.bytes == session.clientEphemeralPub.bytes)
    #expect(
      try NaClBox.Key(own: client, peer: service.publicKey).withUnsafeBytes { Array($0) } == session.initialShared.bytes
    )
    var sender = try BoxChannel(own: client, peer: service.publicKey, nonce: nonce)
    var receiver = try BoxChannel(own: service, peer: client.publicKey, nonce: nonce)
    #expect((sender.nextCounter == 1) == session.clientIsSmallerInitial)
    for event in session.events {
      let first = event.isFromClient ? sender.nextCounter : receiver.nextCounter
      #expect(first == event.firstCounter, "\(event.note)")
      let nonceCounters = event.nonces.map { UInt32($0.bytes[22]) << 8 | UInt32($0.bytes[23]) }
      #expect(nonceCounters == (0..<UInt32(event.segments.count)).map { first + 2 * $0 })
      let sealed = event.isFromClient ? try sender.seal(event.pdu.bytes) : try receiver.seal(event.pdu.bytes)
      #expect(sealed == event.segments.map(\.bytes), "\(event.note)")
      var stream = SegmentStream()
      stream.receive(event.segments.flatMap(\.bytes))
      var opened: [UInt8]?
      while let segment = try stream.next() {
        #expect(opened == nil)
        opened =
          event.isFromClient
          ? try receiver.open(segment, limit: 100_000) : try sender.open(segment, limit: 100_000)
      }
      #expect(opened == event.pdu.bytes, "\(event.note)")
      guard case .acknowledge(let answer) = try PDU(event.pdu.bytes, dialect: .seed), answer.data.count == 56 else {
        continue
      }
      // The secret of the key that a resume brings is not in the file; what the client computes is enough for both
      // sides.
      let key = try X25519.PublicKey(answer.data.prefix(32))
      sender = try BoxChannel(own: client, peer: key, nonce: answer.data.suffix(24))
      receiver = try BoxChannel(mirroring: client, peer: key, nonce: answer.data.suffix(24))
    }
  }

  @Test(
    "The server's session sends the recorded bytes, up to the new key after resume", arguments: 0..<2)
  func serverSession(number: Int) throws {
    let vector = Self.sessions[number]
    var configuration = ServerSession.Configuration(
      encryption: try vectors.keys.server.encryption, nonce: vectors.keys.nonce.bytes)
    configuration.isFramed = true
    var random = ScriptedRandom(vector.serverEphemeralSec.bytes + vector.sessionNonce.bytes)
    var session = ServerSession(SessionID(1), configuration: configuration, at: .zero)
    let admin = try vectors.keys.admin.user
    var sent = session.receive(vector.firstBytesOnWire.bytes, random: &random, at: .zero, epoch: 0)
    #expect(sent.isEmpty)
    for event in vector.events where !event.note.hasPrefix("resume ack") {
      if event.note == "quit" { return }
      if !event.isFromClient {
        #expect(sent.segments == event.segments.map(\.bytes), "\(event.note)")
        sent = []
        continue
      }
      for segment in event.segments {
        for action in session.receive(segment.bytes, random: &random, at: .zero, epoch: 0) {
          guard case .perform(let request, let slot?) = action else {
            sent.append(action)
            continue
          }
          sent += session.answer(slot, Self.outcome(request, admin), random: &random, at: .zero, epoch: 0)
        }
      }
    }
    Issue.record("the session has no quit")
  }

  /// Returns the outcome that a store would give. The sum is that of the vector, which depends on random octets.
  private static func outcome(_ request: StoreRequest, _ admin: UserKey) -> StoreOutcome {
    var outcome = StoreOutcome()
    switch request.kind {
    case .login(let user, _): outcome.login = .established(Login(user, .admin))
    case .exec(let command) where command.arguments[0] == "echo":
      outcome.data = Array((command.arguments.dropFirst().joined(separator: " ") + "\n").utf8)
    case .exec:
      let vector = Vectors.shared.fixedSession.events[7].pdu.bytes
      outcome.data = Array(vector.dropFirst(11))
    case .blob, .load, .make, .endMarks: break
    }
    return outcome
  }

  @Test(
    "Every recorded blob is decoded, has its sum and links, and is made again from its fields",
    arguments: Vectors.shared.blobs.keys.sorted())
  func blobs(key: String) throws {
    let row = try #require(vectors.blobs[key])
    let blob = try Blob(row.hex.bytes)
    #expect(blob.bytes == row.hex.bytes && blob.bytes.count == row.len && blob.header.size == row.len)
    #expect(blob.sum.bytes == row.sha512.bytes && blob.sum == Sum(of: row.hex.bytes))
    #expect(blob.header.owner.bytes == row.owner.bytes && blob.header.author.bytes == row.author.bytes)
    #expect(blob.header.epoch == row.epoch)
    let name = try #require(blob.header.name)
    #expect(name.text == row.name)
    let owner = blob.header.owner.hex
    #expect("\(owner.prefix(2))/\(owner.dropFirst(2))/" + name.link(blob.sum) == row.linkSeed)
    #expect("\(blob.sum.hex.prefix(2))/\(blob.sum.hex.dropFirst(2))" == row.file)
    let again = Blob(
      owner: blob.header.owner, author: blob.header.author, epoch: blob.header.epoch, name: name, content: blob.content,
      random: Array(row.hex.bytes[10..<42]))
    #expect(again == blob)
    try Permission.checkContent(name, blob.content)
    if name == .mark { #expect(try Mark(blob.content).bytes == Array(blob.content)) }
    if name == .removals { #expect(try Sum.list(blob.content).flatMap(\.bytes) == Array(blob.content)) }
  }

  @Test(
    "Every recorded request is decoded and encoded to the same bytes", arguments: Vectors.shared.requests.keys.sorted())
  func requests(key: String) throws {
    let bytes = try #require(vectors.requests[key]).bytes
    let dialect: Dialect = key.hasSuffix("2015") ? .year2015 : .seed
    let pdu = try PDU(bytes, dialect: dialect)
    #expect(pdu.bytes(dialect: dialect) == bytes)
    guard case .exec(_, let data) = pdu else { return }
    let command = try Command(reading: data, dialect: dialect)
    #expect(command.bytes(dialect: dialect) == Array(data))
    switch key {
    case "blob_input", "blob_input_2015":
      #expect(command == Command(["blob", "asn/z"], input: Array("stdin data\n".utf8)))
    case "echo_dash_suffix": #expect(command == Command(["echo", "a-", "b"]))
    default: break
    }
  }

  /// The fault of each malformed input. A malformed segment ends the stream, and a malformed PDU is refused.
  static let malformed: [String: String] = [
    "bad_magic": "blob(bad value in magic)", "name_overruns": "blob(truncated: 255 bytes needed, 15 available)",
    "short_blob_header": "blob(truncated: 32 bytes needed, 26 available)", "version_5": "version(5)",
    "id_0": "unknown(0)",
    "id_200": "unknown(200)", "login_short_sig": "short", "seg_len_0": "badLength(0)",
    "seg_len_16_empty": "badLength(16)",
    "seg_len_4097": "badLength(4097)",
  ]

  /// The error that the body throws, in words; nil if it throws none.
  private static func refusal(_ body: () throws -> Void) -> String? {
    do {
      try body()
      return nil
    } catch {
      return "\(error)"
    }
  }

  @Test("Every malformed ASN input is refused with its named error", arguments: Vectors.shared.malformed.keys.sorted())
  func malformedInputs(key: String) throws {
    let bytes = try #require(vectors.malformed[key]).bytes
    let expected = try #require(Self.malformed[key])
    if key.hasPrefix("seg_") {
      var stream = SegmentStream()
      stream.receive(bytes)
      #expect(Self.refusal { _ = try stream.next() } == expected)
    } else {
      #expect(Self.refusal { _ = try PDU(bytes, dialect: .seed) } == expected)
    }
  }
}

/// The octets of a script, and zeros behind them.
struct ScriptedRandom: RandomSource, Sendable {
  private var script: [UInt8]

  init(_ script: [UInt8]) { self.script = script }

  mutating func fill(_ bytes: inout [UInt8]) {
    for index in bytes.indices { bytes[index] = script.isEmpty ? 0 : script.removeFirst() }
  }
}

extension [ServerAction] {
  /// The segments that are sent.
  var segments: [[UInt8]] {
    compactMap { action in
      if case .send(let segment) = action { segment } else { nil }
    }
  }
}
