import Bytes
import Crypto
import TestSupport
import Testing

@testable import ASN

@Suite("Encoding of ASN segments, PDUs, commands, names and marks")
struct WireTests {
  private static func pair() throws -> (BoxChannel, BoxChannel) {
    var random = SeededRandom(seed: 5)
    let (one, other) = (X25519.PrivateKey(randomFrom: &random), X25519.PrivateKey(randomFrom: &random))
    let nonce = [UInt8](repeating: 3, count: 24)
    return (
      try BoxChannel(own: one, peer: other.publicKey, nonce: nonce),
      try BoxChannel(own: other, peer: one.publicKey, nonce: nonce)
    )
  }

  private static func open(_ bytes: [UInt8], _ channel: inout BoxChannel, limit: Int = 1 << 20) throws -> [[UInt8]] {
    var stream = SegmentStream()
    var pdus: [[UInt8]] = []
    for byte in bytes {
      stream.receive([byte])
      while let segment = try stream.next() {
        if let pdu = try channel.open(segment, limit: limit) { pdus.append(pdu) }
      }
    }
    #expect(stream.pending == 0)
    return pdus
  }

  @Test(
    "An ASN PDU of any length around a segment's size can arrive byte by byte",
    arguments: [1, 2, 4079, 4080, 4081, 8160, 8161])
  func lengths(count: Int) throws {
    var (sender, receiver) = try Self.pair()
    let pdu = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    let segments = try sender.seal(pdu)
    #expect(segments.count == BoxChannel.segments(count))
    #expect(segments.allSatisfy { $0.count <= 4098 })
    #expect(segments.dropLast().allSatisfy { $0[0] & 0x80 != 0 } && segments.last.map { $0[0] & 0x80 } == 0)
    #expect(try Self.open(segments.flatMap { $0 }, &receiver) == [pdu])
  }

  @Test("No nonce is used twice: each side counts in twos from 1 or 2, and stops at 65,535")
  func counters() throws {
    var (one, other) = try Self.pair()
    #expect(Set([one.nextCounter, other.nextCounter]) == [1, 2])
    for start in [one, other] {
      var channel = start
      var counters: Set<UInt32> = []
      let first = channel.nextCounter
      while channel.segmentsLeft > 0 {
        try #require(counters.insert(channel.nextCounter).inserted)
        _ = try channel.seal([0])
      }
      #expect(counters.max().map { $0 <= 65_535 } == true)
      #expect(counters.count == (first == 1 ? 32_768 : 32_767))
      #expect(throws: SegmentError.exhausted) { try channel.seal([0]) }
      // A PDU that does not fit uses no counter.
      var short = start
      _ = try short.seal([UInt8](repeating: 0, count: 4080 * (short.segmentsLeft - 1)))
      let before = short.nextCounter
      #expect(throws: SegmentError.exhausted) { try short.seal([UInt8](repeating: 0, count: 4081)) }
      #expect(short.nextCounter == before && short.segmentsLeft == 1)
    }
    _ = try (one.seal([1]), other.seal([1]))
  }

  @Test("An ASN segment that is repeated, displaced or changed ends the stream")
  func authenticity() throws {
    var (sender, receiver) = try Self.pair()
    let segments = try [[1], [2], [3]].map { try sender.seal($0)[0] }
    #expect(try Self.open(segments[0], &receiver) == [[1]])
    for wrong in [segments[0], segments[2]] {
      var copy = receiver
      #expect(throws: SegmentError.notAuthentic) { try Self.open(wrong, &copy) }
    }
    var changed = segments[1]
    changed[changed.count - 1] ^= 1
    var copy = receiver
    #expect(throws: SegmentError.notAuthentic) { try Self.open(changed, &copy) }
    #expect(try Self.open(segments[1] + segments[2], &receiver) == [[2], [3]])
  }

  @Test("An ASN PDU above the size limit is refused before it is complete")
  func limit() throws {
    var (sender, receiver) = try Self.pair()
    let segments = try sender.seal([UInt8](repeating: 0, count: 10_000))
    var copy = receiver
    #expect(try Self.open(segments.flatMap { $0 }, &copy, limit: 10_000).count == 1)
    #expect(throws: SegmentError.tooLong(limit: 8000)) {
      try Self.open(segments[0] + segments[1], &receiver, limit: 8000)
    }
  }

  @Test("An ASN segment of under 17 or over 4,096 bytes ends the stream as soon as its length has arrived")
  func badLengths() throws {
    for length in 0..<0x8000 {
      var stream = SegmentStream()
      stream.receive([UInt8(length >> 8) | 0x80, UInt8(truncatingIfNeeded: length)])
      if (17...4096).contains(length) {
        #expect(try stream.next() == nil)
      } else {
        #expect(throws: SegmentError.badLength(length)) { try stream.next() }
      }
    }
  }

  @Test("A truncated ASN request is refused as too short, in both dialects")
  func short() throws {
    let requests: [PDU] = [
      .acknowledge(Acknowledgement(Requester("r"), time: 1)), .pause(Requester("p")), .quit(Requester("q")),
      .resume(Requester("s")), .exec(Requester("e"), []), .redirect(Requester("d"), url: ""),
      .login(Requester("l"), user: PermissionTests.login, signature: [UInt8](repeating: 1, count: 64)),
    ]
    for dialect in Dialect.allCases {
      for request in requests {
        let bytes = request.bytes(dialect: dialect)
        for count in 0..<bytes.count {
          #expect(throws: PDUError.short) { try PDU(Array(bytes.prefix(count)), dialect: dialect) }
        }
        let again = try PDU(bytes, dialect: dialect)
        #expect(again.bytes(dialect: dialect) == bytes)
      }
    }
    let pause = PDU.pause(Requester("p")).bytes(dialect: .seed)
    #expect(throws: PDUError.illFormatted) { try PDU(pause + [0], dialect: .seed) }
    #expect(throws: PDUError.illFormatted) { try PDU([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 10], dialect: .seed) }
    #expect(throws: PDUError.illFormatted) {
      try PDU(PDU.redirect(Requester("d"), url: "").bytes(dialect: .seed) + [0xFF], dialect: .seed)
    }
  }

  /// Arguments, whether there is input, and what is on the wire in each dialect.
  static let commands: [(wire: String, dialect: Dialect, arguments: [String], input: String?)] = [
    ("ls", .seed, ["ls"], nil), ("echo\0\0b", .seed, ["echo", "", "b"], nil),
    ("echo\0a-\0b", .seed, ["echo", "a-", "b"], nil), ("echo\0-a", .seed, ["echo", "-a"], nil),
    ("blob\0n\0-\0", .seed, ["blob", "n"], ""), ("blob\0n\0-", .seed, ["blob", "n"], ""),
    ("blob\0n\0-\0a\0-\0b", .seed, ["blob", "n"], "a\0-\0b"), ("blob\0n\0-\0\0x", .seed, ["blob", "n"], "\0x"),
    ("blob\0n\0-\0\0x", .year2015, ["blob", "n"], "x"), ("blob\0n\0\0x", .year2015, ["blob", "n"], "x"),
    ("blob\0n\0-\0\0\0x", .year2015, ["blob", "n"], "\0x"), ("echo\0a", .year2015, ["echo", "a"], nil),
    ("blob\0n\0two\0words", .year2015, ["blob", "n", "two", "words"], nil),
  ]

  @Test("The arguments of an ASN command end at the first argument that is a dash", arguments: commands.indices)
  func command(index: Int) throws {
    let row = Self.commands[index]
    let command = try Command(reading: Array(row.wire.utf8)[...], dialect: row.dialect)
    #expect(command == Command(row.arguments, input: row.input.map { Array($0.utf8) }))
  }

  @Test("An ASN command is UTF-8 text of 1 to 256 arguments and at most 64 KiB")
  func commandLimits() throws {
    func read(_ bytes: [UInt8]) throws { _ = try Command(reading: bytes[...], dialect: .seed) }
    #expect(throws: WireError.badValue("command")) { try read([]) }
    #expect(throws: WireError.badValue("command")) { try read([0, 65]) }
    #expect(throws: WireError.badValue("command")) { try read(Array("-\0x".utf8)) }
    #expect(throws: WireError.badValue("argument")) { try read([65, 0, 0xFF]) }
    try read(Array(("e" + String(repeating: "\0a", count: 255)).utf8))
    #expect(throws: WireError.tooLong(field: "arguments", limit: 256)) {
      try read(Array(("e" + String(repeating: "\0a", count: 256)).utf8))
    }
    try read([UInt8](repeating: 65, count: 65_536))
    #expect(throws: WireError.tooLong(field: "arguments", limit: 65_536)) {
      try read([UInt8](repeating: 65, count: 65_537))
    }
    // Input is bounded with the PDU, not here.
    let big = Array("blob\0n\0-\0".utf8) + [UInt8](repeating: 1, count: 100_000)
    #expect(try Command(reading: big[...], dialect: .seed).input?.count == 100_000)
  }

  @Test(
    "A name that leaves its directory, has an empty component, control characters or 256 bytes is refused",
    arguments: [
      "../\u{301}x", "a/\u{301}", "\u{0D4E}/a", "/", "/a", "..", "../a", "a/..", "a/../b", ".", "./a", "a/.", "a//b",
      "a//", "//", "a\0b", "a\nb", "\u{7F}",
      String(repeating: "n", count: 256),
    ])
  func badNames(text: String) {
    #expect(throws: WireError.self) { try BlobName(text) }
  }

  @Test("Valid names are accepted, and a blob whose name is not UTF-8 is never stored")
  func goodNames() throws {
    for text in ["", "a", "a/b", "a/", "...", "a..b", ".a", "é/ü", String(repeating: "n", count: 255)] {
      #expect(try BlobName(text).text == text)
    }
    #expect(try BlobName("").isMessage && BlobName("asn/messages").isMessage && BlobName("asn/messages/").isMessage)
    #expect(try !BlobName("asn/message").isMessage && BlobName("x/").isDerived && !BlobName("x").isDerived)
    let blob = try Blob(Vectors.shared.blobs["epoch_max"]?.hex.bytes ?? [])
    var bytes = blob.bytes
    bytes[115] = 0xFF
    #expect(try Blob(bytes).header.name == nil)
  }

  @Test(
    "Degrees are converted to millionths, truncated toward zero; degrees out of range are refused",
    arguments: [
      ("37.774929", 90.0, 37_774_929), ("-33.8688", 90, -33_868_800), ("0.0000019", 90, 1), ("-0.0000019", 90, -1),
      ("90", 90, 90_000_000), ("-180", 180, -180_000_000), ("+1e1", 90, 10_000_000), ("90.1", 90, nil),
      ("-180.000001", 180, nil), ("nan", 90, nil), ("inf", 90, nil), ("0x10", 90, nil), ("", 90, nil), ("1 ", 90, nil),
    ] as [(String, Double, Int32?)])
  func degrees(text: String, limit: Double, expected: Int32?) {
    #expect(Mark.millionths(text, limit: limit) == expected)
  }

  @Test("Every southern latitude is read as a latitude, and every first byte from 0x70 to 0x7F as a place")
  func marks() throws {
    for latitude in stride(from: Int32(-90_000_000), through: 90_000_000, by: 999_983) {
      let mark = Mark(user: PermissionTests.login, position: .coordinates(latitude: latitude, longitude: -latitude))
      #expect(try Mark(mark.bytes[...]) == mark)
    }
    for eta in UInt8(0)...15 {
      let mark = Mark(user: PermissionTests.login, position: .place([1, 2, 3, 4, 5, 6, 7], eta: eta))
      #expect(mark.bytes.count == 16 && mark.bytes[8] == 0x70 | eta)
      #expect(try Mark(mark.bytes[...]) == mark)
    }
    let user = PermissionTests.login.bytes.prefix(8)
    #expect(throws: WireError.badValue("latitude")) { try Mark((user + [0x60, 0, 0, 0, 0, 0, 0, 0])[...]) }
    #expect(throws: WireError.badValue("longitude")) { try Mark((user + [0, 0, 0, 0, 0x7F, 0, 0, 0])[...]) }
  }

  @Test("A wildcard matches any characters within one component of a name")
  func wildcards() {
    let yes = [("*", ""), ("*", "abc"), ("a*c", "abbc"), ("?b?", "abc"), ("*b*", "abc"), ("a**c", "ac"), ("é?", "éü")]
    let no = [("?", ""), ("a", "b"), ("a*c", "abd"), ("??", "a"), ("", "a"), ("a?", "a")]
    for (pattern, text) in yes { #expect(Wildcard(pattern).matches(text), "\(pattern) \(text)") }
    for (pattern, text) in no { #expect(!Wildcard(pattern).matches(text), "\(pattern) \(text)") }
    // Matching takes no exponential time.
    #expect(!Wildcard(String(repeating: "*a", count: 100)).matches(String(repeating: "a", count: 99) + "b"))
  }

  @Test("References have the forms of the document and of 2015, and none can name a file")
  func references() throws {
    func target(_ text: String, _ dialect: Dialect = .seed) throws -> Reference.Target {
      try Reference(text, dialect: dialect).target
    }
    let key = try #require(HexPrefix("a0b1c2d3"))
    #expect(try target("asn/auth") == .own("asn/auth"))
    #expect(try target("asn/messages/") == .own("asn/messages"))
    #expect(try target("a0b1c2d3") == .digits(key))
    #expect(try target("A0B1C2D3/asn/auth@12") == .digitsAndName(key, "asn/auth"))
    #expect(try target("abc/x") == .own("abc/x"))
    #expect(try target("@7") == .own("") && Reference("@7", dialect: .seed).since == 7)
    #expect(try Reference("user@home", dialect: .seed).target == .own("user@home"))
    #expect(try target("$a0b1c2d3", .year2015) == .sum(key))
    #expect(try target("$*", .year2015) == .allSums)
    #expect(try target("~*/asn/mark", .year2015) == .everybody("asn/mark"))
    #expect(try target("~a0b1c2d3/asn/hel*@9", .year2015) == .user(key, "asn/hel*"))
    #expect(try target("~./x", .year2015) == .own("x") && target("~", .year2015) == .own(""))
    #expect(try target("a0b1c2d3", .year2015) == .own("a0b1c2d3"))
    for bad in ["", "/etc/passwd", "../x", "a/../b", "a0b1c2d3/../x", "x@99999999999999999999", "a\0b"] {
      #expect(throws: WireError.self) { try target(bad) }
    }
    for bad in ["$", "$abc", "$xyz", "~xyz/n", "~a0b/x", "~a0b1c2d3/../x"] {
      #expect(throws: WireError.self) { try target(bad, .year2015) }
    }
  }

  @Test("Keys and sums are sorted by their bytes")
  func order() throws {
    var random = SeededRandom(seed: 8)
    let keys = (0..<200).map { _ in random.bytes(32) }
    let sorted = try keys.map { try UserKey($0) }.sorted().map(\.bytes)
    #expect(sorted == keys.sorted { $0.lexicographicallyPrecedes($1) })
    let sums = (0..<200).map { _ in [UInt8](repeating: 0, count: 31) + random.bytes(33) }
    #expect(try sums.map { try Sum($0) }.sorted().map(\.bytes) == sums.sorted { $0.lexicographicallyPrecedes($1) })
  }

  @Test(
    "The output of objdump shows calendar dates and times",
    arguments: [
      (0, "1970-01-01 00:00:00 +0000 UTC"), (951_782_400, "2000-02-29 00:00:00 +0000 UTC"),
      (1_416_500_000, "2014-11-20 16:13:20 +0000 UTC"), (4_107_542_399, "2100-02-28 23:59:59 +0000 UTC"),
      (4_107_542_400, "2100-03-01 00:00:00 +0000 UTC"),
    ] as [(UInt64, String)])
  func calendar(seconds: UInt64, text: String) {
    #expect(CivilTime(epoch: seconds * 1_000_000_000).long == text)
  }
}

extension BoxChannel {
  /// The counter of the next segment that is sealed.
  var nextCounter: UInt32 { storedProperty("sending", of: self) ?? .max }
}
