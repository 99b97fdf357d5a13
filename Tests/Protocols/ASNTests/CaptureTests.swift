import Bytes
import Common
import Crypto
import Testing

@testable import ASN

/// Sessions with the original servers of 2014 and 2015, recorded on a loopback interface.
@Suite("Captured ASN sessions, decoded as client and as server")
struct CaptureTests {
  struct Role: Sendable, CustomTestStringConvertible {
    let capture: Capture
    let dialect: Dialect
    var testDescription: String { capture.dialect }
  }
  static let all = [
    Role(capture: .year2014, dialect: .seed), Role(capture: .year2015, dialect: .year2015),
  ]

  /// The channel of the captured server, computed from the client's secret.
  private static func mirror(_ capture: Capture, _ key: X25519.PublicKey, _ nonce: [UInt8]) throws -> BoxChannel {
    try BoxChannel(
      mirroring: X25519.PrivateKey(copying: capture.clientEphemeralSec.bytes), peer: key, nonce: nonce)
  }

  private static func open(_ segments: [[UInt8]], _ channel: inout BoxChannel) throws -> [[UInt8]] {
    var stream = SegmentStream()
    stream.receive(segments.flatMap { $0 })
    var pdus: [[UInt8]] = []
    while let segment = try stream.next() {
      if let pdu = try channel.open(segment, limit: 1 << 20) { pdus.append(pdu) }
    }
    #expect(stream.pending == 0)
    return pdus
  }

  private static func segments(_ actions: [ClientAction]) -> [[UInt8]] {
    actions.compactMap { action in
      if case .send(let bytes) = action { bytes } else { nil }
    }
  }

  @Test("Our ASN client sends the captured bytes and reads the captured answers", arguments: all)
  func client(role: Role) throws {
    let (capture, dialect) = (role.capture, role.dialect)
    let service = try X25519.PublicKey(capture.keys.server.encrPub.bytes)
    let secret = try X25519.PrivateKey(copying: capture.clientEphemeralSec.bytes)
    var configuration = ClientSession.Configuration(
      service: service, nonce: capture.keys.nonce.bytes, user: try capture.keys.admin.user,
      authentication: try capture.keys.admin.authentication)
    configuration.dialect = dialect
    var client = ClientSession(configuration: configuration, ephemeral: secret)
    #expect(Self.segments(client.start()) == [secret.publicKey.bytes])
    var server = try Self.mirror(capture, service, capture.keys.nonce.bytes)
    var checked = 0
    for entry in capture.log {
      var actions: [ClientAction] = []
      if let sent = entry.sent {
        let pdu = try PDU(try #require(try Self.open(sent.map(\.bytes), &server).first), dialect: dialect)
        switch pdu {
        case .exec(let requester, let data):
          if client.state == .opened, entry.note != "echo before login" { Issue.record("a command before login") }
          actions = try client.exec(Command(reading: data, dialect: dialect), requester: requester).actions
        case .login: actions = try client.logIn()
        case .pause: actions = try client.pause()
        case .quit: actions = try client.quit()
        default: Issue.record("\(entry.note): not a client's request")
        }
        #expect(Self.segments(actions) == sent.map(\.bytes), "\(entry.note)")
      } else if let pdu = entry.pdu {
        let blob = try Blob(pdu.bytes)
        #expect(blob.sum.bytes == entry.sha512?.bytes)
        #expect(try Self.open(Self.segments(try client.send(blob)), &server) == [pdu.bytes])
        continue
      } else {
        #expect(try Self.open(Self.segments(try client.resume()), &server).count == 1)
      }
      let pdus = (entry.blobs ?? []).map(\.bytes) + [try #require(entry.ackPdu).bytes]
      let sealed = try pdus.flatMap { try server.seal($0) }
      if let received = entry.received { #expect(sealed == received.map(\.bytes), "\(entry.note)") }
      let answers = client.receive(sealed.flatMap { $0 })
      var blobs: [[UInt8]] = []
      for action in answers {
        switch action {
        case .arrived(let blob): blobs.append(blob.bytes)
        case .answered(_, let answer):
          #expect(answer.result.rawValue == entry.code ?? 0)
          #expect((answer.time != nil) == (dialect == .year2015))
          if let digits = entry.data, let data = try? Hex.decode(digits) { #expect(answer.data == data) }
          checked += 1
          if answer.data.count >= 56, entry.note == "login" || entry.note == "resume" {
            server = try Self.mirror(
              capture, try X25519.PublicKey(answer.data.prefix(32)), Array(answer.data[32..<56]))
          }
        default: break
        }
      }
      #expect(blobs == (entry.blobs ?? []).map(\.bytes))
    }
    #expect(checked == capture.log.count - 1)
    #expect(client.state == (dialect == .seed ? .closed : .established))
  }

  /// Answers that are the same on every server in the state of the captured one. The others have random octets (login,
  /// sums), or texts of their own, or tell of blobs from an earlier session (`ls` of 2014).
  private static let same: [Dialect: Set<String>] = [
    .seed: ["echo before login", "echo", "cat", "fetch", "cat mark", "pause", "echo after resume", "quit"],
    .year2015: ["echo before login", "echo", "ls", "cat", "objdump", "fetch", "cat mark"],
  ]

  @Test(
    "Our ASN server executes the captured requests and sends the captured bytes, except for random ones",
    arguments: all)
  func server(role: Role) throws {
    let (capture, dialect) = (role.capture, role.dialect)
    let world = try SocialWorld(keys: capture.keys)
    world.epoch = try Self.blob(#require(capture.log[3].pdu).bytes).header.epoch + 1_000_000_000
    let id = try world.connect(user: capture.keys.admin, dialect: dialect, logsIn: false)
    var channel = try Self.mirror(
      capture, try X25519.PublicKey(capture.keys.server.encrPub.bytes), capture.keys.nonce.bytes)
    var compared: Set<String> = []
    for entry in capture.log {
      let ack = try entry.ackPdu.map { try PDU($0.bytes, dialect: dialect) }
      if case .acknowledge(let captured)? = ack { world.epoch = captured.time ?? world.epoch }
      if entry.note == "login" {
        try world.client(id) { (client) throws(ClientError) in try client.logIn() }
      } else if let pdu = entry.pdu {
        try world.client(id) { (client) throws(ClientError) in try client.send(Self.blob(pdu.bytes)) }
        _ = try Self.advance(&channel, pdu.bytes)
      } else if let sent = entry.sent {
        let pdu = try PDU(try #require(try Self.open(sent.map(\.bytes), &channel).first), dialect: dialect)
        try world.client(id) { (client) throws(ClientError) in
          switch pdu {
          case .exec(let requester, let data):
            return try client.exec(Self.command(data, dialect), requester: requester).actions
          case .pause: return try client.pause()
          case .quit: return try client.quit()
          default: return []
          }
        }
      } else {
        try world.client(id) { (client) throws(ClientError) in try client.resume() }
      }
      if entry.note == "login", let sent = entry.sent { _ = try Self.open(sent.map(\.bytes), &channel) }
      guard case .acknowledge(let captured)? = ack else { continue }
      if captured.data.count >= 56, entry.note == "login" || entry.note == "resume" {
        channel = try Self.mirror(
          capture, try X25519.PublicKey(captured.data.prefix(32)), Array(captured.data[32..<56]))
      }
      let answer = try #require(world.peers[id]?.answers.last)
      #expect(answer.requester == captured.requester, "\(entry.note)")
      #expect((answer.result == .success) == (captured.result == .success), "\(entry.note): \(answer.text)")
      if Self.same[dialect]?.contains(entry.note) == true {
        #expect(PDU.acknowledge(answer).bytes(dialect: dialect) == entry.ackPdu?.bytes, "\(entry.note)")
        compared.insert(entry.note)
      }
    }
    #expect(compared == Self.same[dialect])
    let fetched = world.peers[id]?.blobs.map(\.bytes) ?? []
    let sent = try #require(capture.log[3].pdu).bytes
    #expect(fetched == [sent])
  }

  private static func advance(_ channel: inout BoxChannel, _ pdu: [UInt8]) throws -> Int {
    // The object was sent, but the file does not have its segment; its counter was used all the same.
    channel.skipReceived(BoxChannel.segments(pdu.count))
    return 1
  }

  private static func blob(_ bytes: [UInt8]) -> Blob {
    guard let blob = try? Blob(bytes) else { preconditionFailure("the capture has a blob") }
    return blob
  }

  private static func command(_ data: ArraySlice<UInt8>, _ dialect: Dialect) -> Command {
    guard let command = try? Command(reading: data, dialect: dialect) else { preconditionFailure("a command") }
    return command
  }
}
