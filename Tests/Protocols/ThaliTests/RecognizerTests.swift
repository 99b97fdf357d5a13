import Bytes
import Common
import Crypto
import TestSupport
import Testing

@testable import Thali

@Suite("Recognising the senders of announcements")
struct RecognizerTests {
  let people: People
  let now = People.now

  init() throws { people = try People() }

  private func announce(_ dialect: Dialect, seed: UInt64 = 7, life: Duration = .seconds(600)) throws -> [UInt8] {
    var announcer = Announcer()
    var random = SeededRandom(seed: seed)
    return try announcer.announce(
      to: people.recipients, life: life, dialect: dialect, known: people.sender, at: now, randomFrom: &random
    ).bytes
  }

  private func judge(
    _ bytes: [UInt8], dialects: Set<Dialect> = [.spec, .node], at time: WallTime? = nil
  ) -> AnnouncementVerdict {
    var recognizer = Recognizer(dialects: dialects)
    return recognizer.judge(bytes, known: people.receivers[0], at: time ?? now)
  }

  @Test(
    "Each recipient of a beacon recognises its sender; a stranger that knows the sender's key does not",
    arguments: Dialect.allCases)
  func recipients(dialect: Dialect) throws {
    let bytes = try announce(dialect)
    for known in people.receivers {
      var recognizer = Recognizer(dialects: [dialect])
      guard case .recognized(let found) = recognizer.judge(bytes, known: known, at: now) else {
        Issue.record("a recipient does not recognise the sender")
        continue
      }
      #expect(known.key(of: found.peer) == people.sender.own.publicKey && found.dialect == dialect)
    }
    var recognizer = Recognizer(dialects: [dialect])
    #expect(recognizer.judge(bytes, known: people.stranger, at: now) == .dropped(.notForUs))
  }

  @Test("A sender finds no beacon for itself in its own announcement", arguments: Dialect.allCases)
  func own(dialect: Dialect) throws {
    var recognizer = Recognizer(dialects: [dialect])
    guard case .dropped = recognizer.judge(try announce(dialect), known: people.sender, at: now) else {
      Issue.record("the sender recognises itself")
      return
    }
  }

  @Test("Every malformed presence announcement is dropped and counted by its own reason", arguments: Dialect.allCases)
  func reasons(dialect: Dialect) throws {
    let good = try announce(dialect)
    let point = dialect.keySize - 64
    func changed(_ index: Int, _ mask: UInt8) -> [UInt8] {
      var bytes = good
      bytes[index] ^= mask
      return bytes
    }
    let zeros = [UInt8](repeating: 0, count: Beacon.size * 90)
    let cases: [(bytes: [UInt8], drop: AnnouncementDrop)] = [
      ([], .badLength), ([0x31], .unknownForm), (changed(0, 0x80), .unknownForm), (Array(good.prefix(72)), .badLength),
      (changed(dialect.keySize - 1, 1), .badKey), (changed(point, 1), .badKey), (good + [0], .badLength),
      (good + zeros, .badLength),
    ]
    var recognizer = Recognizer(dialects: [dialect])
    for (bytes, drop) in cases {
      #expect(recognizer.judge(bytes, known: people.receivers[0], at: now) == .dropped(drop), "\(drop)")
    }
    for drop in Set(cases.map(\.drop)) { #expect(recognizer[drop] == UInt64(cases.count { $0.drop == drop })) }
    #expect(recognizer.tallies.map(\.count).reduce(0, +) == UInt64(cases.count))
    #expect(Set(recognizer.tallies.map(\.name)).count == AnnouncementDrop.allCases.count + 1)
  }

  @Test("A presence key with any changed byte in its prefix, as in keys of other curves, is refused")
  func prefix() throws {
    let good = try announce(.spec)
    for index in 1..<24 {
      var bytes = good
      bytes[index] ^= 1
      #expect(judge(bytes) == .dropped(.badKey), "octet \(index)")
    }
  }

  @Test("A presence announcement of a disabled dialect is not read", arguments: Dialect.allCases)
  func dialectOff(dialect: Dialect) throws {
    #expect(
      judge(try announce(dialect), dialects: Set(Dialect.allCases).subtracting([dialect])) == .dropped(.dialectOff))
  }

  @Test("By default only presence announcements of the dialect `spec` are read")
  func defaults() {
    #expect(Recognizer().dialects == [.spec] && PresenceEngine.Configuration().sends == .spec)
  }

  @Test(
    "A presence announcement is processed once: a replay is dropped until it expires, recognised or not",
    arguments: Dialect.allCases)
  func replay(dialect: Dialect) throws {
    let bytes = try announce(dialect)
    var recognizer = Recognizer(dialects: [dialect])
    for known in [people.receivers[0], people.stranger] {
      _ = recognizer.judge(bytes, known: known, at: now)
      #expect(recognizer.judge(bytes, known: known, at: now) == .dropped(.replayed))
    }
    #expect(recognizer[.replayed] == 3)
  }

  @Test("An announcement with the negative of a known ephemeral key, which has the same secrets, is a replay")
  func negativeKey() throws {
    let bytes = try announce(.spec)
    // p - Y, most significant first.
    let prime = try Hex.decode("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f")
    var negative = bytes
    var borrow = 0
    for index in (0..<32).reversed() {
      let difference = Int(prime[index]) - Int(bytes[56 + index]) - borrow
      borrow = difference < 0 ? 1 : 0
      negative[56 + index] = UInt8(truncatingIfNeeded: difference)
    }
    guard case .recognized = judge(negative) else {
      Issue.record("the negative key has other secrets, so this test shows nothing")
      return
    }
    var recognizer = Recognizer()
    _ = recognizer.judge(bytes, known: people.receivers[0], at: now)
    #expect(recognizer.judge(negative, known: people.receivers[0], at: now) == .dropped(.replayed))
  }

  @Test("A malformed announcement does not make a later genuine one count as a replay")
  func cacheNotPoisoned() throws {
    let bytes = try announce(.spec)
    var recognizer = Recognizer()
    for bad in [bytes + [0], Array(bytes.prefix(96)), Array(bytes.prefix(88)) + [UInt8](repeating: 0, count: 56)] {
      _ = recognizer.judge(bad, known: people.receivers[0], at: now)
    }
    guard case .recognized = recognizer.judge(bytes, known: people.receivers[0], at: now) else {
      Issue.record("a malformed announcement has used the key up")
      return
    }
  }

  @Test("A replayed presence announcement that has expired is dropped as a replay, not as expired")
  func order() throws {
    let bytes = try announce(.spec)
    var recognizer = Recognizer()
    _ = recognizer.judge(bytes, known: people.receivers[0], at: now)
    var changed = bytes
    changed[88] = 0xFF
    #expect(recognizer.judge(changed, known: people.receivers[0], at: now) == .dropped(.replayed))
    #expect(judge(changed) == .dropped(.tooFar))
  }

  /// An announcement whose first beacon is of somebody whom the receiver does not know, and whose second is the
  /// sender's.
  private func unknownFirst(_ dialect: Dialect) throws -> [UInt8] {
    let ephemeral = try People.key(77)
    let expiration = now.advanced(by: .seconds(60))
    let recipient = try #require(people.sender[people.recipients[0]])
    let other = try Announcement.make(
      dialect: dialect, ephemeral: ephemeral, expiration: expiration, own: try People.key(500).publicKey,
      recipients: [recipient])
    let own = try Announcement.make(
      dialect: dialect, ephemeral: ephemeral, expiration: expiration, own: people.sender.own.publicKey,
      recipients: [recipient])
    return other.bytes + own.beacons[0].bytes
  }

  @Test("An unknown key identifier ends the reading of an announcement in dialect `spec`, and not in `node`")
  func unknownSender() throws {
    #expect(judge(try unknownFirst(.spec)) == .dropped(.unknownSender))
    guard case .recognized = judge(try unknownFirst(.node)) else {
      Issue.record("node stops at an unknown key identifier")
      return
    }
  }

  @Test(
    "A beacon with a known sender and a wrong code proves nothing, and the next beacon is read",
    arguments: Dialect.allCases)
  func wrongCode(dialect: Dialect) throws {
    let ephemeral = try People.key(78)
    let recipient = try #require(people.sender[people.recipients[0]])
    let announcement = try Announcement.make(
      dialect: dialect, ephemeral: ephemeral, expiration: now.advanced(by: .seconds(60)),
      own: people.sender.own.publicKey, recipients: [recipient])
    var forged = announcement.beacons[0].bytes
    forged[40] ^= 0x10
    #expect(judge(announcement.preamble.bytes + forged) == .dropped(.wrongCode))
    guard case .recognized = judge(announcement.preamble.bytes + forged + announcement.beacons[0].bytes) else {
      Issue.record("the genuine beacon behind the forged one does not count")
      return
    }
  }

  @Test("A beacon's code for another expiration does not prove the sender", arguments: Dialect.allCases)
  func codeOfOtherTime(dialect: Dialect) throws {
    let recipient = try #require(people.sender[people.recipients[0]])
    func make(_ seconds: Int64) throws -> Announcement {
      try Announcement.make(
        dialect: dialect, ephemeral: try People.key(79), expiration: now.advanced(by: .seconds(seconds)),
        own: people.sender.own.publicKey, recipients: [recipient])
    }
    let (early, late) = (try make(60), try make(61))
    #expect(
      judge(late.preamble.bytes + late.beacons[0].bytes.prefix(32) + early.beacons[0].code) == .dropped(.wrongCode))
  }

  @Test("The presence announcements of a removed peer are no longer recognised")
  func removed() throws {
    var known = people.receivers[0]
    try known.remove(PeerID(1))
    var recognizer = Recognizer()
    #expect(recognizer.judge(try announce(.spec), known: known, at: now) == .dropped(.unknownSender))
    #expect(known.count == 0)
  }

  @Test("A full replay cache evicts the key received longest ago, and expired keys are removed at any time")
  func ephemeralKeys() {
    var keys = EphemeralKeys(capacity: 3)
    func x(_ number: UInt8) -> EphemeralKeys.X { EphemeralKeys.X([UInt8](repeating: number, count: 32)[...]) }
    let end = now.advanced(by: .seconds(100))
    for number: UInt8 in 1...3 { keys.insert(x(number), until: end, at: now) }
    // Key 1 is received again, so that key 2 is the oldest.
    #expect(keys.contains(x(1), at: now) == true)
    keys.insert(x(4), until: end, at: now)
    #expect(keys.contains(x(2), at: now) == false)
    for number: UInt8 in [1, 3, 4] { #expect(keys.contains(x(number), at: now) == true, "key \(number)") }
    for number: UInt8 in [1, 3, 4] { #expect(keys.contains(x(number), at: end) == false, "key \(number)") }
    #expect(keys.count == 0)
  }

  @Test("The replay cache never exceeds its capacity, and replays of one key use no memory")
  func cacheIsBounded() {
    var keys = EphemeralKeys(capacity: 50)
    var random = SeededRandom(seed: 5)
    for number in 0..<500 {
      let x = EphemeralKeys.X(random.bytes(32)[...])
      keys.insert(x, until: now.advanced(by: .milliseconds(Int64(number % 90))), at: now)
      for _ in 0..<5 { _ = keys.contains(x, at: now.advanced(by: .milliseconds(1))) }
      #expect(keys.count <= 50)
    }
  }

  @Test("Mutated announcements get a verdict, and none with a changed proven field is recognised")
  func mutated() throws {
    let count = Extent.of(4000, all: 100_000)
    var random = SeededRandom(seed: 50)
    let genuine = try Dialect.allCases.map { try announce($0) }
    var verdicts: [AnnouncementVerdict: Int] = [:]
    for number in 0..<count {
      var bytes = genuine[number % 2]
      for _ in 0...Int(random.bytes(1)[0] % 3) {
        let draw = random.bytes(4).map(Int.init)
        let place = bytes.isEmpty ? 0 : (draw[0] << 8 | draw[1]) % bytes.count
        switch draw[2] % 5 {
        case 0 where !bytes.isEmpty: bytes[place] ^= 1 << UInt8(draw[3] % 8)
        case 1 where !bytes.isEmpty: bytes[place] = UInt8(draw[3])
        case 2: bytes = Array(bytes.prefix(place))
        case 3: bytes.insert(UInt8(draw[3]), at: place)
        default: bytes += random.bytes(48)
        }
      }
      let verdict = judge(bytes)
      verdicts[verdict, default: 0] += 1
      guard case .recognized = verdict else { continue }
      // A recognised beacon proves that the preamble is unchanged. Changes in other beacons are not detected.
      let original = genuine.first { $0[0] == bytes[0] } ?? []
      let size = original[0] == 0x30 ? 96 : 73
      #expect(bytes.prefix(size) == original.prefix(size))
    }
    #expect(verdicts.values.reduce(0, +) == count)
    #expect(verdicts.keys.count > 5)
  }
}

@Suite("The list of known presence peers")
struct KnownPeersTests {
  @Test("A peer's public key is known in the forms of both dialects")
  func forms() throws {
    let key = try People.key(3).publicKey
    for dialect in Dialect.allCases { #expect(try KnownPeers.key(reading: dialect.encode(key)) == key) }
    for bytes in [[], [4], key.point + [0], key.info.dropLast(), [2] + key.point[1..<33], [5] + key.point[1...]]
      as [[UInt8]]
    {
      #expect(throws: PresenceError.badKey) { try KnownPeers.key(reading: bytes) }
    }
  }

  @Test("Adding this node's own key, a known key or a peer above the limit is refused")
  func refused() throws {
    var known = KnownPeers(own: try People.key(1))
    #expect(throws: PresenceError.ownKey) { try known.add(known.own.publicKey) }
    let first = try known.add(try People.key(2).publicKey)
    #expect(throws: PresenceError.knownKey) { try known.add(try People.key(2).publicKey) }
    for number in 1..<Limits.knownPeers { _ = try known.add(try People.key(UInt64(2 + number)).publicKey) }
    #expect(known.count == 256)
    #expect(throws: PresenceError.tooManyPeers) { try known.add(try People.key(9999).publicKey) }
    try known.remove(first)
    #expect(throws: PresenceError.unknownPeer) { try known.remove(first) }
    let again = try known.add(try People.key(2).publicKey)
    #expect(again != first)
  }

  @Test("Each refusal to add a peer has a code and a complete sentence")
  func errors() {
    let errors: [PresenceError] = [
      .badKey, .ownKey, .knownKey, .tooManyPeers, .unknownPeer, .badRecipients(16), .badLife, .tooFast,
      .tooManyAnnouncements, .clockNotSet, .cryptoFailed("secp256k1 is not available"),
    ]
    for error in errors { #expect(error.sentence.hasSuffix(".") && !error.code.isEmpty) }
  }
}
