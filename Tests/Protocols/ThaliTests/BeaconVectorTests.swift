import Bytes
import Common
import Crypto
import Testing

@testable import Thali

@Suite("Thali vectors: beacons")
struct BeaconVectorTests {
  /// The beacons of one dialect, with the keys.
  struct Stand {
    let dialect: Dialect
    let row: Vectors.Beacons
    let sender: Secp256k1.PrivateKey
    let ephemeral: Secp256k1.PrivateKey
    let expiration: WallTime

    init(_ dialect: Dialect) throws {
      self.dialect = dialect
      row = try #require(Vectors.shared.beacons[dialect.rawValue])
      sender = try Secp256k1.PrivateKey(copying: row.senderPrivate.bytes)
      ephemeral = try Secp256k1.PrivateKey(copying: row.ephemeralPrivate.bytes)
      expiration = WallTime(milliseconds: row.expirationMs)
    }

    /// A moment at which the announcement is valid.
    var now: WallTime { expiration.advanced(by: .seconds(-60)) }

    func receiver(_ index: Int) throws -> KnownPeers {
      try People.known(Secp256k1.PrivateKey(copying: row.receivers[index].private.bytes), [sender]).known
    }

    func judge(_ bytes: [UInt8], known: KnownPeers, at now: WallTime? = nil) -> AnnouncementVerdict {
      var recognizer = Recognizer(dialects: [dialect])
      return recognizer.judge(bytes, known: known, at: now ?? self.now)
    }
  }

  @Test("The tests cover every section and dialect of the Thali beacon vectors")
  func sections() throws {
    #expect(try Vectors.sectionNames() == Set(Vectors.CodingKeys.allCases.map(\.rawValue)))
    #expect(Set(Vectors.shared.beacons.keys) == Set(Dialect.allCases.map(\.rawValue)))
  }

  @Test("The constants of presence beacons equal those of the vector file")
  func constants() {
    let constants = Vectors.shared.constants
    #expect(constants.curve == "secp256k1")
    #expect(constants.spkiPrefix.bytes == Secp256k1.PublicKey.infoPrefix)
    #expect(Hex.encode(Advertisement.service) == constants.bleUUID.filter { $0 != "-" })
  }

  @Test("Recorded presence keys, key identifiers and expirations are encoded as recorded", arguments: Dialect.allCases)
  func encodings(dialect: Dialect) throws {
    let stand = try Stand(dialect)
    #expect(dialect.encode(stand.sender.publicKey) == stand.row.senderPublic.bytes)
    #expect(dialect.encode(stand.ephemeral.publicKey) == stand.row.ephemeralPublic.bytes)
    #expect(try dialect.decode(stand.row.senderPublic.bytes[...]) == stand.sender.publicKey)
    #expect(dialect.keyID(of: stand.sender.publicKey).bytes == stand.row.senderKeyid.bytes)
    #expect(stand.expiration.bytes == stand.row.expiration.bytes)
    for receiver in stand.row.receivers {
      let key = try Secp256k1.PrivateKey(copying: receiver.private.bytes)
      #expect(dialect.encode(key.publicKey) == receiver.public.bytes)
    }
  }

  @Test("Sender and receiver of a beacon derive the recorded shared secrets", arguments: Dialect.allCases)
  func secrets(dialect: Dialect) throws {
    let stand = try Stand(dialect)
    for receiver in stand.row.receivers {
      let key = try Secp256k1.PrivateKey(copying: receiver.private.bytes)
      for (ours, theirs, expected) in [
        (stand.ephemeral, key, receiver.sey), (key, stand.ephemeral, receiver.sey), (stand.sender, key, receiver.sxy),
        (key, stand.sender, receiver.sxy),
      ] {
        let shared = try ours.sharedX(with: theirs.publicKey).withUnsafeBytes { Array($0) }
        #expect(shared == expected.bytes)
      }
    }
  }

  @Test("The keys for beacon flags and codes are derived as recorded", arguments: Dialect.allCases)
  func derivations(dialect: Dialect) throws {
    let stand = try Stand(dialect)
    for receiver in stand.row.receivers {
      func derive(_ secret: [UInt8], _ count: Int) throws -> [UInt8] {
        let data = stand.expiration.bytes
        let output =
          dialect == .spec
          ? try HKDF.shortLived(secret: secret, salt: data, count: count)
          : try HKDF.shortLived(secret: data, salt: secret, count: count)
        return output.withUnsafeBytes { Array($0) }
      }
      let material = receiver.flagKeyMaterial.bytes
      #expect(try derive(receiver.sey.bytes, material.count) == material)
      #expect(try derive(receiver.sxy.bytes, 32) == receiver.hkxy.bytes)
    }
  }

  @Test("An announcement made from recorded inputs equals the recorded announcement", arguments: Dialect.allCases)
  func made(dialect: Dialect) throws {
    let stand = try Stand(dialect)
    let keys = try stand.row.receivers.map { try Secp256k1.PrivateKey(copying: $0.private.bytes) }
    let (known, ids) = try People.known(stand.sender, keys)
    let announcement = try Announcement.make(
      dialect: dialect, ephemeral: stand.ephemeral, expiration: stand.expiration, own: stand.sender.publicKey,
      recipients: ids.compactMap { known[$0] })
    #expect(announcement.bytes == stand.row.stream.bytes)
    #expect(announcement.bytes.count == stand.row.streamLen)
    #expect(announcement.beacons.map(\.bytes) == stand.row.receivers.map(\.beacon.bytes))
  }

  @Test(
    "Every recorded receiver of beacons recognises the sender, with the recorded identity and TLS key",
    arguments: Dialect.allCases
  )
  func recognised(dialect: Dialect) throws {
    let stand = try Stand(dialect)
    for index in stand.row.receivers.indices {
      let known = try stand.receiver(index)
      guard case .recognized(let found) = stand.judge(stand.row.stream.bytes, known: known) else {
        Issue.record("receiver \(index) does not recognise the sender")
        continue
      }
      let row = stand.row.receivers[index]
      #expect(known.key(of: found.peer) == stand.sender.publicKey)
      #expect(found.identity == row.pskIdentity && found.identity.count == (dialect == .spec ? 192 : 43))
      let key = try known.preSharedKey(for: found, at: stand.now)
      #expect(key.withUnsafeBytes { Array($0) } == row.psk.bytes)
    }
  }

  @Test("Every recorded invalid announcement gets its recorded verdict", arguments: Dialect.allCases)
  func negative(dialect: Dialect) throws {
    let stand = try Stand(dialect)
    let names = Set(stand.row.negative.compactMap(\.first))
    #expect(
      names == [
        "stranger", "expired_equal", "expired", "exactly_24h", "too_far", "truncated_beacon", "no_beacons",
        "replayed_pubke", "unknown_sender", "bad_hmac", "bad_flag",
      ])
    for row in stand.row.negative {
      #expect(try Self.text(verdict(of: row[0], stand)) == row[1], "\(row[0])")
    }
  }

  private func verdict(of name: String, _ stand: Stand) throws -> AnnouncementVerdict {
    let stream = stand.row.stream.bytes
    let known = try stand.receiver(0)
    let size = stand.dialect.preambleSize
    func changed(_ offset: Int) -> [UInt8] {
      var bytes = stream
      bytes[size + offset] ^= 1
      return bytes
    }
    func before(_ milliseconds: Int64) -> WallTime { stand.expiration.advanced(by: .milliseconds(-milliseconds)) }
    switch name {
    case "stranger":
      let stranger = try Secp256k1.PrivateKey(copying: stand.row.strangerPrivate.bytes)
      return stand.judge(stream, known: try People.known(stranger, [stand.sender]).known)
    case "expired_equal": return stand.judge(stream, known: known, at: stand.expiration)
    case "expired": return stand.judge(stream, known: known, at: before(-1))
    case "exactly_24h": return stand.judge(stream, known: known, at: before(86_400_000))
    case "too_far": return stand.judge(stream, known: known, at: before(86_400_001))
    case "truncated_beacon": return stand.judge(stream.dropLast(1), known: known)
    case "no_beacons": return stand.judge(Array(stream.prefix(size)), known: known)
    case "replayed_pubke":
      var recognizer = Recognizer(dialects: [stand.dialect])
      _ = recognizer.judge(stream, known: known, at: stand.now)
      return recognizer.judge(stream, known: known, at: stand.now)
    case "unknown_sender": return stand.judge(stream, known: KnownPeers(own: known.own))
    case "bad_hmac": return stand.judge(changed(Beacon.size - 1), known: known)
    case "bad_flag": return stand.judge(changed(0), known: known)
    default:
      Issue.record("no test for \(name)")
      return .dropped(.failed)
    }
  }

  /// The verdict in the words of the file.
  private static func text(_ verdict: AnnouncementVerdict) -> String {
    switch verdict {
    case .recognized: "MATCH"
    case .dropped(.expired), .dropped(.tooFar): "error:expiration"
    case .dropped(.badLength): "error:length"
    case .dropped(.replayed), .dropped(.notForUs), .dropped(.unknownSender), .dropped(.wrongCode): "null"
    case .dropped(let drop): "\(drop)"
    }
  }
}
