import Bytes
import Common
import Crypto
import Foundation

@testable import Thali

extension Target {
  /// Private presence: what strangers advertise, announce, multicast and serve, and what comes over a multiplexed link.
  static let thali = [
    Target(
      name: "thali-announcement",
      seeds: {
        try ThaliVectors.read().beacons.values.map { try Hex.decode($0.stream) }.sorted { $0.count < $1.count }
      },
      goals: ["recognized", "dropped"],
      play: { bytes in
        let bytes = Array(bytes)
        guard let known = ThaliPlay.known else { return [] }
        var recognizer = Recognizer(dialects: [.spec, .node])
        let verdict = recognizer.judge(bytes, known: known, at: ThaliPlay.time)
        promise(recognizer.tallies.map(\.count).reduce(0, +) == 1, "a verdict is counted once")
        if let announcement = taken({ try RawAnnouncement(reading: bytes).checked(at: ThaliPlay.time) }) {
          promise(announcement.bytes == bytes, "an announcement is written as it was read")
          let again = recognizer.judge(bytes, known: known, at: ThaliPlay.time)
          promise(again == .dropped(.replayed), "a well-formed announcement is judged once")
        }
        guard case .recognized(let found) = verdict else { return ["dropped"] }
        promise(found.identity.utf8.count <= TLSIdentity.maximumCount, "an identity has its limit")
        promise(taken { try known.preSharedKey(for: found, at: ThaliPlay.time) } != nil, "a recognised peer has a key")
        return ["recognized"]
      }),
    Target(
      name: "thali-advertisement",
      seeds: {
        try ThaliVectors.read().advdata.payloads.values.map { try Hex.decode($0.hex) }.sorted { $0.count < $1.count }
      },
      goals: ["beacons", "iOS", "foreign"],
      play: { bytes in
        switch Advertisement(reading: Array(bytes)) {
        case .beacons(let generation, let address):
          for form in [Advertisement.Form.recommended, .literal] {
            let written = Advertisement.bytes(generation: generation ?? 0, address: address, form: form)
            promise(written.count <= 31, "an advertisement fits")
            let expected = form == .literal ? nil : generation ?? 0
            let again = Advertisement(reading: written)
            promise(again == .beacons(generation: expected, address), "an advertisement is read as it was written")
          }
          return ["beacons"]
        case .iOSDevice: return ["iOS"]
        case .addressRequest: return ["request"]
        case nil: return ["foreign"]
        }
      }),
    Target(
      name: "thali-multiplexer",
      seeds: {
        let multiplex = try ThaliVectors.read().multiplex
        let session = try Hex.decode(multiplex.sessionInitiator)
        return [
          [0] + session, [3] + session, try [1] + Hex.decode(multiplex.sessionReceiver), [2, 0x02, 0x81, 0x80, 0x40],
        ]
      },
      goals: ["opened", "data", "ended", "destroyed", "failed"],
      play: { bytes in
        guard let first = bytes.first else { return [] }
        let stream = Array(bytes.dropFirst())
        var whole = ThaliPlay.Link(isServer: first & 1 == 0)
        whole.receive(stream[...])
        var parts = ThaliPlay.Link(isServer: first & 1 == 0)
        let portion = 1 + Int(first >> 1) % 7
        for start in stride(from: 0, to: stream.count, by: portion) { parts.receive(stream[start...].prefix(portion)) }
        promise(whole.log == parts.log, "where a stream is split changes nothing")
        whole.answer()
        return whole.reached
      }),
    Target(
      name: "thali-service",
      seeds: {
        [ServiceLabel("files")?.request ?? [], [0, 64] + [UInt8](repeating: 0x61, count: 64), [0, 0], [0x47]]
      },
      goals: ["named", "unnamed", "malformed"],
      play: { bytes in
        let bytes = Array(bytes)
        var whole = ServiceRequestReader()
        let outcome = whole.receive(bytes[...])
        var parts = ServiceRequestReader()
        var split = ServiceRequestReader.Outcome.incomplete
        for index in bytes.indices {
          split = parts.receive(bytes[index...index])
          guard split == .incomplete else { break }
        }
        switch (outcome, split) {
        case (.incomplete, .incomplete): return []
        case (.malformed, .malformed): return ["malformed"]
        case (.service(let label, let isAnswered, let rest), .service(let other, _, _)):
          promise(label == other, "portions do not change the service")
          promise((isAnswered ? label.request : []) + rest == bytes, "no byte is lost")
          return [isAnswered ? "named" : "unnamed"]
        default:
          promise(false, "portions do not change the outcome")
          return []
        }
      }),
    Target(
      name: "thali-ssdp",
      seeds: {
        let ssdp = try ThaliVectors.read().ssdp
        return [ssdp.alive, ssdp.byebye, ssdp.search, ssdp.searchResponse, ssdp.phoneAlive].map { Array($0.utf8) }
      },
      goals: ["alive", "byebye", "search", "response", "followed", "dropped"],
      play: ThaliPlay.datagram),
    Target(
      name: "thali-http",
      seeds: {
        let http = try ThaliVectors.read().http
        let body = try Hex.decode(http.body)
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        return [Array(http.request.utf8), Array(http.head.utf8) + body, Array(http.empty.utf8), Array(chunks.utf8)]
      },
      goals: ["request", "response", "announcement", "refused"],
      play: ThaliPlay.http),
  ]
}

private enum ThaliPlay {
  static let time = WallTime(milliseconds: 1_446_000_000_000)
  /// The receiver of the vectors, who knows their sender; nil where the vectors cannot be read.
  static let known: KnownPeers? = taken {
    let row = try ThaliVectors.read().beacons["spec"]
    guard let row, let receiver = row.receivers.first else { throw WireError.badValue("vectors") }
    var known = KnownPeers(own: try Secp256k1.PrivateKey(copying: Hex.decode(receiver.private)))
    _ = try known.add(Secp256k1.PrivateKey(copying: Hex.decode(row.senderPrivate)).publicKey)
    return known
  }

  /// One side of a link, and what its owner was asked to do.
  struct Link {
    private var side: Multiplexer
    private var open: [Multiplexer.StreamID] = []
    private(set) var log: [String] = []
    private(set) var reached: Set<String> = []

    init(isServer: Bool) {
      side = Multiplexer(role: isServer ? .server : .client)
      guard !isServer else { return }
      for _ in 0..<2 { if let id = side.open() { open.append(id) } }
      _ = side.output(limit: 100)
    }

    mutating func receive(_ bytes: ArraySlice<UInt8>) {
      for intent in side.receive(bytes) {
        switch intent {
        case .opened(let id, let name):
          reached.insert("opened")
          open.append(id)
          log.append("open \(id.number) \(name)")
        case .deliver(let id, let data):
          reached.insert("data")
          promise(open.contains(id) && !data.isEmpty, "data is of an open stream")
          side.consumed(data.count, of: id)
          for byte in data { log.append("\(id.number) \(byte)") }
        case .ended(let id):
          reached.insert("ended")
          log.append("end \(id.number)")
        case .destroyed(let id, let reason):
          reached.insert("destroyed")
          promise(reason.utf8.count <= 3 * Limits.frameTextBytes, "a reason is bounded")
          open.removeAll { $0 == id }
          log.append("destroy \(id.number) \(reason)")
        case .fail(let failure):
          reached.insert("failed")
          log.append("fail \(failure)")
          promise(!side.isReading && side.count == 0, "a link that failed has nothing")
        }
      }
      promise(side.count <= Limits.streams, "streams are bounded")
    }

    /// Writes on every stream and ends it; what goes out is readable.
    mutating func answer() {
      for id in open {
        _ = side.write([1, 2, 3], to: id)
        side.end(id)
      }
      var reader = MultiplexerFrameReader()
      while side.hasOutput {
        let output = side.output(limit: 1000).bytes
        promise(taken { try reader.read(output[...]) { _ in } } != nil, "frames are read as they were written")
      }
    }
  }

  static func datagram(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    let source = NetworkAddress.v4(0xC0A8_0117)
    guard let message = taken({ try SSDPMessage(reading: Array(bytes)) }) else { return ["dropped"] }
    for group in SSDPGroup.allCases {
      let written = message.bytes(for: group)
      if written.count <= Limits.datagramBytes {
        promise(taken { try SSDPMessage(reading: written) } == message, "a datagram is read as it was written")
      }
    }
    func follow(_ text: String, _ name: ServiceName) -> Set<String> {
      promise(ServiceName(name.text) == name, "a name is read as it was written")
      guard let location = taken({ try Location(text, from: source) }) else { return [] }
      promise(location.address == source && location.port >= 1024, "a location is followed to its source only")
      promise(taken { try Location(location.url, from: source) } == location, "a location is read as it was written")
      return ["followed"]
    }
    switch message {
    case .alive(let name, let location): return follow(location, name).union(["alive"])
    case .response(let name, let location): return follow(location, name).union(["response"])
    case .byebye: return ["byebye"]
    case .search(_, let wait):
      promise((0...5).contains(wait), "an answer is not put off for long")
      return ["search"]
    }
  }

  static func http(_ bytes: UnsafeRawBufferPointer) -> Set<String> {
    let bytes = Array(bytes)
    var reached: Set<String> = []
    if let head = taken({ try HTTPHead.read(bytes) }), let head {
      promise(head.count <= Limits.httpHeadBytes && head.head.headers.count <= Limits.headerLines, "a head is bounded")
      if let request = taken({ try HTTPRequest(head.head) }) {
        promise(request.path.first == "/", "a path is absolute")
        reached.insert("request")
      }
    }
    let results = [bytes.count, 1, 7].map { portion -> HTTPResponseReader.Response? in
      var reader = HTTPResponseReader()
      for start in stride(from: 0, to: bytes.count, by: max(1, portion)) {
        guard let result = taken({ try reader.receive(bytes[start...].prefix(portion)) }) else { return nil }
        if let result { return result }
      }
      return taken { try reader.finish() }
    }
    promise(results.allSatisfy { $0 == results[0] }, "where a response is split changes nothing")
    guard let response = results[0] else { return reached.union(["refused"]) }
    promise(response.body.count <= Limits.announcementBytes, "a body is bounded")
    if case .announcement = BeaconResponse(response) { reached.insert("announcement") }
    return reached.union(["response"])
  }
}

/// What the seeds take from the vectors.
private struct ThaliVectors: Decodable {
  struct Receiver: Decodable { let `private`: String }
  struct Beacons: Decodable {
    let stream: String
    let senderPrivate: String
    let receivers: [Receiver]

    enum CodingKeys: String, CodingKey {
      case stream, receivers
      case senderPrivate = "sender_private"
    }
  }
  struct Payload: Decodable { let hex: String }
  struct Advdata: Decodable { let payloads: [String: Payload] }
  struct Multiplex: Decodable {
    let sessionInitiator: String
    let sessionReceiver: String

    enum CodingKeys: String, CodingKey {
      case sessionInitiator = "session_initiator"
      case sessionReceiver = "session_receiver"
    }
  }
  struct SSDP: Decodable {
    let alive, byebye, search, searchResponse, phoneAlive: String

    enum CodingKeys: String, CodingKey {
      case alive, byebye, search
      case searchResponse = "search_response"
      case phoneAlive = "thali_2_1_0_alive"
    }
  }
  struct HTTP: Decodable {
    let request, head, body, empty: String

    enum CodingKeys: String, CodingKey {
      case request
      case head = "response_200_head"
      case body = "response_200_body"
      case empty = "response_204"
    }
  }
  let beacons: [String: Beacons]
  let advdata: Advdata
  let multiplex: Multiplex
  let ssdp: SSDP
  let http: HTTP

  static func read() throws -> ThaliVectors {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let file = tests.appending(path: "Protocols/ThaliTests/Vectors/thali.json")
    return try JSONDecoder().decode(ThaliVectors.self, from: Data(contentsOf: file))
  }
}
