import ASN
import Bytes
import Common
import Crypto
import Foundation

extension Target {
  /// ASN: what a stranger sends before and after login, and what people write in commands.
  static let asn = [
    Target(
      name: "asn-segments",
      seeds: { try ASNVectors.read().fixedSession.events.flatMap { try $0.segments.map { try Hex.decode($0) } } },
      goals: ["segment", "bad length"],
      play: { bytes in
        // The same stream whole, and one octet at a time.
        func read(_ portions: [[UInt8]]) -> (segments: [SegmentStream.Segment], error: SegmentError?) {
          var (stream, segments) = (SegmentStream(), [SegmentStream.Segment]())
          for portion in portions {
            stream.receive(portion)
            do throws(SegmentError) {
              while let segment = try stream.next() { segments.append(segment) }
            } catch {
              return (segments, error)
            }
          }
          return (segments, nil)
        }
        let (whole, single) = (read([Array(bytes)]), read(bytes.map { [$0] }))
        promise(whole.error == single.error, "a stream ends alike however it is cut")
        promise(
          whole.segments.map { Array($0.sealed) } == single.segments.map { Array($0.sealed) }, "segments are alike")
        promise(whole.segments.allSatisfy { (17...4096).contains($0.sealed.count) }, "a segment has its limits")
        return Set(whole.segments.isEmpty ? [] : ["segment"]).union(whole.error == nil ? [] : ["bad length"])
      }),
    Target(
      name: "asn-pdu",
      seeds: {
        let vectors = try ASNVectors.read()
        let requests = vectors.requests.values.sorted() + vectors.malformed.values.sorted()
        return try (requests + vectors.blobs.values.map(\.hex).sorted()).map { try Hex.decode($0) }
      },
      goals: ["acknowledge", "exec", "login", "pause", "quit", "redirect", "resume", "blob", "refused"],
      play: { bytes in
        var reached: Set<String> = []
        for dialect in Dialect.allCases {
          guard let pdu = taken({ try PDU(Array(bytes), dialect: dialect) }) else {
            reached.insert("refused")
            continue
          }
          promise(pdu.bytes(dialect: dialect).elementsEqual(bytes), "a PDU is written as it was read")
          reached.insert("\(pdu.identifier)")
        }
        return reached
      }),
    Target(
      name: "asn-exec",
      seeds: {
        try ASNVectors.read().requests.values.sorted().map { try Array(Hex.decode($0).dropFirst(10)) }
      },
      goals: ["seed", "2015", "input"],
      play: { bytes in
        var reached: Set<String> = []
        for dialect in Dialect.allCases {
          guard let command = taken({ try Command(reading: Array(bytes)[...], dialect: dialect) }) else { continue }
          reached.insert(dialect.rawValue)
          if command.input != nil { reached.insert("input") }
          promise((1...256).contains(command.arguments.count), "arguments have their limit")
          promise(!command.arguments.contains("-"), "a dash is no argument")
          let again = taken { try Command(reading: command.bytes(dialect: dialect)[...], dialect: dialect) }
          // NUL NUL ends arguments in the dialect of 2015, so a first argument after the name is never empty there.
          promise(again == command, "a command is read as it was written")
        }
        return reached
      }),
    Target(
      name: "asn-blob",
      seeds: { try ASNVectors.read().blobs.values.map(\.hex).sorted().map { try Hex.decode($0) } },
      goals: ["named", "bad name"],
      play: { bytes in
        guard let blob = taken({ try Blob(Array(bytes)) }) else { return [] }
        promise(blob.bytes.elementsEqual(bytes) && blob.sum == Sum(of: blob.bytes), "a blob is verbatim")
        promise(blob.header.contentStart + blob.content.count == bytes.count, "the content is the rest")
        guard let name = blob.header.name else { return ["bad name"] }
        let parts = name.link(blob.sum).split(separator: "/", omittingEmptySubsequences: false)
        promise(parts.allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." }, "a link stays in its directory")
        _ = taken { try Permission.checkContent(name, blob.content) }
        return ["named"]
      }),
    Target(
      name: "asn-mark",
      seeds: {
        try ASNVectors.read().blobs.filter { $0.key.hasPrefix("mark") }.values.map(\.hex).sorted().map {
          try Array(Hex.decode($0).suffix(16))
        }
      },
      goals: ["place", "coordinates"],
      play: { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let value = Mark.millionths(text, limit: 180) {
          promise(abs(Int(value)) <= 180_000_000, "degrees are in range")
        }
        guard let mark = taken({ try Mark(Array(bytes)[...]) }) else { return [] }
        promise(mark.bytes.elementsEqual(bytes), "a mark is written as it was read")
        if case .place = mark.position { return ["place"] }
        return ["coordinates"]
      }),
    Target(
      name: "asn-reference",
      seeds: {
        [
          "asn/messages@1412294821523593019", "a0b1c2d3/asn/hel*", "a0b1c2d3", "~a0b1c2d3/x", "@7", "~*/asn/mark",
          "$a0b1c2d3@9",
          "~./x", "../x", "*a*b?",
        ].map { Array($0.utf8) }
      },
      goals: ["own", "digits", "sum", "user"],
      play: { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let slash = text.firstIndex(of: "/") {
          _ = Wildcard(text[..<slash]).matches(text[slash...])
        }
        var reached: Set<String> = []
        for dialect in Dialect.allCases {
          guard let reference = taken({ try Reference(text, dialect: dialect) }) else { continue }
          switch reference.target {
          case .own(let name), .everybody(let name), .user(_, let name), .digitsAndName(_, let name):
            promise(!name.hasPrefix("/") && !name.split(separator: "/").contains(".."), "a name stays in its directory")
            reached.insert("own")
            if case .user = reference.target { reached.insert("user") }
          case .sum: reached.insert("sum")
          case .digits: reached.insert("digits")
          case .allSums: break
          }
        }
        return reached
      }),
    Target(
      name: "asn-server",
      seeds: {
        let commands = [
          "ls\0asn", "blob\0n\0-\0content", "rm\0n", "mark\01\02", "newuser\0forum", "cat\0@1", "objdump\0*", "gc\0-v",
          "approve\0asn/messages", "vouch\0aaaa\000", "trace", "fetch\0@1", "clone",
        ]
        return commands.map { [2, UInt8($0.utf8.count)] + Array($0.utf8) } + [[1, 0, 4, 0, 7, 0, 0, 5]]
      },
      goals: ["answered", "pushed", "closed"],
      play: { bytes in ASNStand.play(bytes) }),
  ]
}

/// A server with two sessions, one of the administrator and one of a user, that send what a script says.
private struct ASNStand {
  private let service: X25519.PrivateKey
  private var server: SocialServer
  private var engine: CommandEngine<MemoryBlobStore>
  private var clients: [SessionID: ClientSession] = [:]
  private var reached: Set<String> = []
  private var steps: [SocialServer.Intent] = []
  private let epoch: UInt64 = 1_412_294_821_523_593_019

  private init() throws {
    var random = SeededRandom(seed: 1)
    service = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(24)
    let authentication = Ed25519.PrivateKey(randomFrom: &random)
    let admin = X25519.PrivateKey(randomFrom: &random)
    server = SocialServer(
      configuration: .init(session: .init(encryption: service, nonce: nonce)), random: SeededRandom(seed: 2))
    var rules = CommandEngine<MemoryBlobStore>.Configuration(
      service: UserKey(service.publicKey), serviceAuthentication: authentication.publicKey)
    rules.admin = UserKey(admin.publicKey)
    rules.adminAuthentication = authentication.publicKey
    rules.newUsers = .anyone
    engine = CommandEngine(configuration: rules, store: MemoryBlobStore(), random: SeededRandom(seed: 3))
    for (user, isNew) in [(admin, false), (X25519.PrivateKey(randomFrom: &random), true)] {
      guard let id = server.open(address: "a", at: .zero) else { continue }
      var configuration = ClientSession.Configuration(
        service: service.publicKey, nonce: nonce, user: UserKey(user.publicKey), authentication: authentication)
      configuration.isNewUser = isNew
      var client = ClientSession(configuration: configuration, random: &random)
      let key = client.start()
      clients[id] = client
      send(key, id)
      send((try? clients[id]?.logIn()) ?? [], id)
      promise(clients[id]?.state == .established, "a login succeeds")
    }
  }

  /// Octets of a script: which session, and what it does.
  static func play(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    guard var stand = taken({ try ASNStand() }) else { return [] }
    var script = Script(bytes)
    let ids = stand.clients.keys.sorted()
    while !script.isAtEnd {
      let step = script.byte()
      let id = ids[Int(step >> 7)]
      switch step & 7 {
      case 0: stand.send((try? stand.clients[id]?.pause()) ?? [], id)
      case 1: stand.send((try? stand.clients[id]?.resume()) ?? [], id)
      case 2, 3:
        let command = taken { try Command(reading: script.value()[...], dialect: .seed) }
        if let command { stand.send((try? stand.clients[id]?.exec(command).actions) ?? [], id) }
      case 4:
        guard let blob = taken({ try Blob(script.bytes(script.u16())) }) else { continue }
        stand.send((try? stand.clients[id]?.send(blob)) ?? [], id)
      case 5: stand.receive(script.value(), id)
      case 6:
        stand.carryOut(stand.server.timer(at: Instant(nanoseconds: Int64(script.u16()) << 24), epoch: stand.epoch))
      default: stand.send((try? stand.clients[id]?.quit()) ?? [], id)
      }
    }
    return stand.reached
  }

  private mutating func send(_ actions: [ClientAction], _ id: SessionID) {
    for action in actions {
      switch action {
      case .send(let segment): receive(segment, id)
      case .answered: reached.insert("answered")
      case .arrived: reached.insert("pushed")
      default: break
      }
    }
  }

  private mutating func receive(_ bytes: [UInt8], _ id: SessionID) {
    carryOut(server.receive(id, bytes, at: .zero, epoch: epoch))
  }

  private mutating func carryOut(_ intents: [SocialServer.Intent]) {
    let isFirst = steps.isEmpty
    steps += intents
    guard isFirst else { return }
    var next = 0
    while next < steps.count {
      switch steps[next] {
      case .send(let id, let segment):
        promise((19...4098).contains(segment.count), "a segment has its limits")
        let actions = clients[id]?.receive(segment) ?? []
        for action in actions {
          if case .close(let reason) = action, case .segment = reason {
            promise(false, "a segment of the server opens")
          }
        }
        steps += server.wrote(id, segment.count, at: .zero, epoch: epoch)
        send(actions, id)
      case .perform(let request, let job):
        let outcome = engine.perform([request], epoch: epoch)[0]
        steps += server.outcome(job, outcome, at: .zero, epoch: epoch)
      case .close: reached.insert("closed")
      case .ping: break
      }
      next += 1
    }
    steps = []
  }
}

/// What the seeds take from the vectors of ASN.
private struct ASNVectors: Decodable {
  struct Event: Decodable { let segments: [String] }
  struct Session: Decodable { let events: [Event] }
  struct BlobRow: Decodable { let hex: String }

  let fixedSession: Session
  let blobs: [String: BlobRow]
  let requests: [String: String]
  let malformed: [String: String]

  static func read() throws -> ASNVectors {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(
      ASNVectors.self, from: Data(contentsOf: tests.appending(path: "Protocols/ASNTests/Vectors/asn.json")))
  }
}
