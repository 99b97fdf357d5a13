import Bytes
import Common
import Crypto
import Testing

@testable import Thali

@Suite("Making presence announcements")
struct AnnouncerTests {
  let people: People
  let now = People.now

  init() throws { people = try People() }

  private func announce(
    _ announcer: inout Announcer, _ random: inout SeededRandom, to recipients: [PeerID]? = nil,
    life: Duration = .seconds(3600), dialect: Dialect = .spec, at time: WallTime? = nil
  ) throws -> Announcement {
    try announcer.announce(
      to: recipients ?? people.recipients, life: life, dialect: dialect, known: people.sender, at: time ?? now,
      randomFrom: &random)
  }

  @Test(
    "300 presence announcements made at one moment have 300 ephemeral keys and 300 expirations",
    arguments: Dialect.allCases)
  func nothingTwice(dialect: Dialect) throws {
    var announcer = Announcer()
    var random = SeededRandom(seed: 1)
    var keys: Set<Secp256k1.PublicKey> = []
    var expirations: Set<WallTime> = []
    for _ in 0..<300 {
      let preamble = try announce(&announcer, &random, to: [people.recipients[0]], dialect: dialect).preamble
      keys.insert(preamble.ephemeral)
      expirations.insert(preamble.expiration)
      #expect(preamble.expiration >= now.advanced(by: .seconds(3600)))
      #expect(preamble.expiration < now.advanced(by: .seconds(3662)))
    }
    #expect(keys.count == 300 && expirations.count == 300)
  }

  @Test(
    "The expiration of a presence announcement is not used again even if the clock is set back",
    arguments: Dialect.allCases)
  func clockGoesBack(dialect: Dialect) throws {
    var announcer = Announcer()
    var expirations: Set<WallTime> = []
    for number in 0..<20 {
      // The same generator gives the same offset each time.
      var random = SeededRandom(seed: 1)
      let time = number % 2 == 0 ? now : now.advanced(by: .seconds(-5))
      expirations.insert(try announce(&announcer, &random, dialect: dialect, at: time).preamble.expiration)
    }
    #expect(expirations.count == 20)
  }

  @Test("The order of recipients in an announcement differs each time")
  func order() throws {
    var announcer = Announcer()
    var random = SeededRandom(seed: 2)
    var places: Set<Int> = []
    for _ in 0..<40 {
      let announcement = try announce(&announcer, &random)
      let ephemeral = announcement.preamble
      let key = try FlagKey(
        secret: people.receivers[0].own.sharedX(with: ephemeral.ephemeral), expiration: ephemeral.expiration,
        dialect: .spec)
      for (place, beacon) in announcement.beacons.enumerated() where try key.open(beacon.flag) != nil {
        places.insert(place)
      }
    }
    #expect(places == [0, 1, 2])
  }

  @Test("An announcement has 1 to 15 different recipients, and is valid for 10 s to 23 h")
  func limits() throws {
    let many = try People(receivers: 16)
    var announcer = Announcer()
    var random = SeededRandom(seed: 3)
    func error(_ recipients: [PeerID], _ life: Duration, at time: WallTime? = nil) -> PresenceError? {
      do throws(PresenceError) {
        _ = try announcer.announce(
          to: recipients, life: life, dialect: .spec, known: many.sender, at: time ?? now, randomFrom: &random)
        return nil
      } catch {
        return error
      }
    }
    let all = many.recipients
    #expect(error([], .seconds(60)) == .badRecipients(0))
    #expect(error(all, .seconds(60)) == .badRecipients(16))
    #expect(error([all[0], all[0]], .seconds(60)) == .badRecipients(2))
    #expect(error(Array(all.prefix(15)), .seconds(60)) == nil)
    #expect(error([PeerID(99)], .seconds(60)) == .unknownPeer)
    #expect(error([all[0]], .seconds(9)) == .badLife)
    #expect(error([all[0]], Limits.longestLife + .seconds(1)) == .badLife)
    #expect(error([all[0]], Limits.longestLife) == nil)
    #expect(error([all[0]], .seconds(60), at: WallTime(milliseconds: 1_000)) == .clockNotSet)
  }

  @Test("An announcement of the longest validity is accepted by a receiver whose clock is 50 min slow")
  func slowClock() throws {
    var announcer = Announcer()
    var random = SeededRandom(seed: 4)
    let bytes = try announce(&announcer, &random, life: Limits.longestLife).bytes
    var recognizer = Recognizer()
    let verdict = recognizer.judge(bytes, known: people.receivers[0], at: now.advanced(by: .seconds(-3000)))
    guard case .recognized = verdict else {
      Issue.record("\(verdict)")
      return
    }
  }

  @Test(
    "The TLS identity made from a beacon leads to its recipient, and both sides have the same key",
    arguments: Dialect.allCases)
  func identities(dialect: Dialect) throws {
    var announcer = Announcer()
    var random = SeededRandom(seed: 5)
    let bytes = try announce(&announcer, &random, dialect: dialect).bytes
    for (receiver, id) in zip(people.receivers, people.recipients) {
      var recognizer = Recognizer(dialects: [dialect])
      guard case .recognized(let found) = recognizer.judge(bytes, known: receiver, at: now) else {
        Issue.record("not recognised")
        continue
      }
      let credential = try announcer.credential(for: found.identity, known: people.sender, at: now)
      #expect(credential.peer == id && credential.dialect == dialect)
      #expect(credential.preSharedKey.equals(try receiver.preSharedKey(for: found, at: now)))
      #expect(credential.preSharedKey.count == (dialect == .spec ? 16 : 32))
    }
  }

  @Test("A TLS identity that is invented, expired, or of a removed recipient is refused")
  func identityRefusals() throws {
    var announcer = Announcer()
    var random = SeededRandom(seed: 6)
    let announcement = try announce(&announcer, &random, to: [people.recipients[0]])
    let identity = TLSIdentity.text(of: announcement.preamble, announcement.beacons[0])
    let end = announcement.preamble.expiration
    func refusal(_ identity: String, _ known: KnownPeers, at time: WallTime) -> IdentityRefusal? {
      do throws(IdentityRefusal) {
        _ = try announcer.credential(for: identity, known: known, at: time)
        return nil
      } catch {
        return error
      }
    }
    #expect(refusal(identity, people.sender, at: now) == nil)
    #expect(refusal(identity, people.sender, at: end) == .stale)
    for text in [
      "", "x" + identity.dropFirst(), String(identity.dropLast()), identity + "=", String(repeating: "A", count: 5000),
    ] {
      #expect(refusal(text, people.sender, at: now) == .unknown)
    }
    var known = people.sender
    try known.remove(people.recipients[0])
    #expect(refusal(identity, known, at: now) == .stale)
  }

  @Test("The TLS identities of the last 50 announcements are accepted, and earlier ones are refused")
  func lastFifty() throws {
    var announcer = Announcer()
    var random = SeededRandom(seed: 7)
    var identities: [String] = []
    for _ in 0..<52 {
      let announcement = try announce(&announcer, &random, to: [people.recipients[0]])
      identities.append(TLSIdentity.text(of: announcement.preamble, announcement.beacons[0]))
    }
    for (index, identity) in identities.enumerated() {
      let credential = try? announcer.credential(for: identity, known: people.sender, at: now)
      #expect((credential != nil) == (index >= 2), "announcement \(index)")
    }
  }

  /// Demonstration for strangers: two announcements to the same peers, beside one of another sender at the same time.
  @Test(
    "Two announcements to the same peers have only constant bytes in common",
    arguments: Dialect.allCases)
  func observer(dialect: Dialect) throws {
    let other = try People.known(try People.key(900), try (901...903).map { try People.key($0) })
    var announcer = Announcer()
    var foreign = Announcer()
    var random = SeededRandom(seed: 8)
    let rounds = 64
    var agreements: [Int: Int] = [:]
    var foreignAgreements: [Int: Int] = [:]
    for _ in 0..<rounds {
      let first = try announce(&announcer, &random, dialect: dialect).bytes
      let second = try announce(&announcer, &random, dialect: dialect).bytes
      let stranger = try foreign.announce(
        to: other.ids, life: .seconds(3600), dialect: dialect, known: other.known, at: now, randomFrom: &random
      ).bytes
      for index in first.indices {
        if first[index] == second[index] { agreements[index, default: 0] += 1 }
        if first[index] == stranger[index] { foreignAgreements[index, default: 0] += 1 }
      }
      // No eight bytes behind the preamble of one announcement occur in the other.
      let size = dialect.preambleSize
      let pieces = Set((size..<first.count - 7).map { Array(first[$0..<$0 + 8]) })
      #expect((size..<second.count - 7).allSatisfy { !pieces.contains(Array(second[$0..<$0 + 8])) })
      #expect(Set(first[(size - 72)..<(size - 8)].map { $0 }) != Set(second[(size - 72)..<(size - 8)].map { $0 }))
    }
    for index in 0..<dialect.preambleSize + 3 * Beacon.size {
      let (own, strange) = (agreements[index] ?? 0, foreignAgreements[index] ?? 0)
      // A constant octet agrees always, with a foreign announcement too. Others agree by accident, once in 256; those
      // of the expiration as often as those of a foreign one of the same time.
      let isExpiration = (dialect.keySize..<dialect.preambleSize).contains(index)
      #expect(
        own == rounds ? strange == rounds : own <= (isExpiration ? strange + 32 : 6),
        "octet \(index): \(own), \(strange)")
    }
  }

  @Test("The printed form of presence keys and identifiers does not show their content")
  func printed() throws {
    #expect("\(DeviceAddress(0x001A_7DDA_7113))" == "device address")
    #expect("\(Dialect.spec.keyID(of: people.sender.own.publicKey))" == "key identifier")
    #expect("\(NetworkAddress.v4(0x7F00_0001))" == "network address")
    #expect("\(people.sender.own)" == "<secret>")
  }
}
