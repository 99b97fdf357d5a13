import Bytes
import Common
import Crypto

/// Reason why a received announcement is dropped. Each reason has a counter.
public enum AnnouncementDrop: Int, CaseIterable, Error, Hashable, Sendable {
  /// The first octet belongs to no dialect.
  case unknownForm
  /// The settings do not permit this dialect.
  case dialectOff
  /// The announcement is shorter than a preamble, has no beacon or an incomplete one, or has more than 4,095 bytes.
  case badLength
  /// The ephemeral key belongs to another curve, is not on the curve, or has another encoding.
  case badKey
  /// The expiration is not in the future.
  case expired
  /// The expiration is more than 24 h ahead.
  case tooFar
  /// An announcement with this ephemeral key was received before, from another address or without a beacon for this
  /// machine.
  case replayed
  /// No beacon of the announcement is addressed to this machine.
  case notForUs
  /// A beacon is addressed to this machine, but its sender is not a known peer.
  case unknownSender
  /// A beacon names a known peer as its sender, but its code was not computed with that peer's key.
  case wrongCode
  /// OpenSSL or libsecp256k1 reported a failure on this machine.
  case failed

  /// The name of the reason's counter.
  public var name: String {
    switch self {
    case .unknownForm: "UnknownForms"
    case .dialectOff: "OtherDialects"
    case .badLength: "BadLengths"
    case .badKey: "BadKeys"
    case .expired: "Expired"
    case .tooFar: "TooFarAhead"
    case .replayed: "Replayed"
    case .notForUs: "NotForUs"
    case .unknownSender: "UnknownSenders"
    case .wrongCode: "WrongCodes"
    case .failed: "CryptoFailures"
    }
  }
}

/// The part of an announcement that all of its beacons share.
///
///     key         88 or 65  the ephemeral public key: SubjectPublicKeyInfo in `spec`, the point in `node`
///     expiration  8         milliseconds since 1970-01-01 UTC, big endian
///
/// Facts: thali.md section 1.
public struct Preamble: Hashable, Sendable {
  public let dialect: Dialect
  public let ephemeral: Secp256k1.PublicKey
  public let expiration: WallTime

  public init(dialect: Dialect, ephemeral: Secp256k1.PublicKey, expiration: WallTime) {
    (self.dialect, self.ephemeral, self.expiration) = (dialect, ephemeral, expiration)
  }

  public var bytes: [UInt8] { dialect.encode(ephemeral) + expiration.bytes }
}

/// One recipient's part of an announcement.
///
///     flag  32  the sender's key identifier, which only the recipient can decrypt
///     code  16  the sender's proof to the recipient: HMAC-SHA-256 of the expiration, cut to 16 bytes
///
/// Facts: thali.md section 1.
public struct Beacon: Hashable, Sendable {
  public static let flagSize = 32
  public static let codeSize = 16
  public static let size = flagSize + codeSize

  /// The flag and the code, 48 bytes.
  public let bytes: [UInt8]
  var flag: ArraySlice<UInt8> { bytes.prefix(Self.flagSize) }
  var code: ArraySlice<UInt8> { bytes.suffix(Self.codeSize) }

  init(flag: [UInt8], code: some Collection<UInt8>) { bytes = flag + code }

  init(reading reader: inout ByteReader) throws(WireError) { bytes = Array(try reader.bytes(Self.size)) }
}

/// An announcement: a preamble, and a beacon for each recipient.
///
///     preamble  96 in `spec`, 73 in `node`
///     beacons   48 each, at least one
///
/// Facts: thali.md section 1.
public struct Announcement: Hashable, Sendable {
  public let preamble: Preamble
  public let beacons: [Beacon]

  init(preamble: Preamble, beacons: [Beacon]) { (self.preamble, self.beacons) = (preamble, beacons) }

  public var bytes: [UInt8] {
    var writer = ByteWriter(capacity: preamble.dialect.preambleSize + beacons.count * Beacon.size)
    writer.append(preamble.bytes)
    for beacon in beacons { writer.append(beacon.bytes) }
    return writer.bytes
  }

  /// Makes the beacons in the order of the recipients.
  ///
  /// - Parameters:
  ///   - ephemeral: a key that no earlier announcement has.
  ///   - own: the sender's long-term key.
  /// - Throws: `unavailable` if a library fails.
  static func make(
    dialect: Dialect, ephemeral: Secp256k1.PrivateKey, expiration: WallTime, own: Secp256k1.PublicKey,
    recipients: [KnownPeer]
  ) throws(CryptoError) -> Announcement {
    let keyID = dialect.keyID(of: own)
    var beacons: [Beacon] = []
    for recipient in recipients {
      let key = try FlagKey(
        secret: try ephemeral.sharedX(with: recipient.key), expiration: expiration, dialect: dialect)
      beacons.append(
        Beacon(
          flag: try key.seal(keyID), code: try recipient.secret.code(expiration: expiration, dialect: dialect)))
    }
    let preamble = Preamble(dialect: dialect, ephemeral: ephemeral.publicKey, expiration: expiration)
    return Announcement(preamble: preamble, beacons: beacons)
  }
}

/// An announcement of which only the first octet and the length of the preamble were checked.
struct RawAnnouncement {
  let dialect: Dialect
  /// The encoded ephemeral key.
  let key: ArraySlice<UInt8>
  let expiration: WallTime
  let beacons: ArraySlice<UInt8>

  /// Splits an announcement into preamble and beacons. Throws `unknownForm` for the first octet, and `badLength`.
  init(reading bytes: [UInt8]) throws(AnnouncementDrop) {
    guard bytes.count <= Limits.announcementBytes, let first = bytes.first else { throw .badLength }
    guard let dialect = Dialect(firstOctet: first) else { throw .unknownForm }
    self.dialect = dialect
    var reader = ByteReader(bytes)
    do throws(WireError) {
      key = try reader.bytes(dialect.keySize)
      expiration = WallTime(milliseconds: try reader.u64be())
      beacons = reader.rest()
    } catch {
      throw .badLength
    }
  }

  /// The X coordinate of the ephemeral key, which may not be on the curve.
  var x: ArraySlice<UInt8> { key.suffix(64).prefix(32) }

  /// Decodes the whole announcement.
  ///
  /// Throws, in this order, `badKey`, `expired` or `tooFar`, and `badLength`. None of the checks multiplies points.
  func checked(at now: WallTime) throws(AnnouncementDrop) -> Announcement {
    let ephemeral: Secp256k1.PublicKey
    do throws(CryptoError) {
      ephemeral = try dialect.decode(key)
    } catch {
      throw .badKey
    }
    guard now < expiration else { throw .expired }
    guard expiration <= now.advanced(by: Limits.receivedLife) else { throw .tooFar }
    guard !beacons.isEmpty, beacons.count.isMultiple(of: Beacon.size) else { throw .badLength }
    var reader = ByteReader(beacons)
    var list: [Beacon] = []
    list.reserveCapacity(beacons.count / Beacon.size)
    do throws(WireError) {
      while !reader.isAtEnd { list.append(try Beacon(reading: &reader)) }
    } catch {
      throw .badLength
    }
    return Announcement(
      preamble: Preamble(dialect: dialect, ephemeral: ephemeral, expiration: expiration), beacons: list)
  }
}

/// The key that encrypts the flags of one recipient in one announcement.
///
/// | dialect | key |
/// |---|---|
/// | `spec` | HKDF-SHA-256(secret, salt: expiration), 32 bytes: 16 of nonce, then 16 of AES-128-GCM key |
/// | `node` | HKDF-SHA-256(expiration, salt: secret), 16 bytes: the password of AES-128-CBC |
///
/// Facts: thali.md section 1.
struct FlagKey {
  private enum Material {
    case gcm(nonce: [UInt8], key: SecretBytes)
    case cbc(password: SecretBytes)
  }

  private let material: Material

  /// Derives the key.
  ///
  /// - Parameter secret: the X coordinate that the ephemeral key and the recipient's long-term key share.
  init(secret: SecretBytes, expiration: WallTime, dialect: Dialect) throws(CryptoError) {
    let keys = try secret.derive(expiration.bytes, count: dialect == .spec ? 32 : 16, dialect: dialect)
    switch dialect {
    case .spec:
      material = .gcm(
        nonce: keys.withUnsafeBytes { Array($0.prefix(AES128GCM.nonceSize)) },
        key: try keys.shortLivedCopy(of: AES128GCM.nonceSize..<AES128GCM.nonceSize + AES128GCM.keySize))
    case .node: material = .cbc(password: keys)
    }
  }

  /// Encrypts the sender's key identifier to the flag of a beacon, 32 bytes.
  func seal(_ keyID: KeyID) throws(CryptoError) -> [UInt8] {
    switch material {
    case .gcm(let nonce, let key): try AES128GCM.seal(keyID.bytes, key: key, nonce: nonce)
    case .cbc(let password): try AESCBC.seal(keyID.bytes, password: password)
    }
  }

  /// Decrypts the key identifier in a flag; nil if the flag is for another recipient. In `node`, one of 256 flags for
  /// others is accidentally decrypted as well.
  ///
  /// Throws `unavailable` if OpenSSL fails.
  func open(_ flag: ArraySlice<UInt8>) throws(CryptoError) -> KeyID? {
    do throws(CryptoError) {
      let bytes =
        switch material {
        case .gcm(let nonce, let key): try AES128GCM.open(flag, key: key, nonce: nonce)
        case .cbc(let password): try AESCBC.open(flag, password: password)
        }
      return bytes.count == KeyID.size ? KeyID(bytes) : nil
    } catch .authenticationFailed {
      return nil
    }
  }
}

/// The secret that two long-term keys share, and the values derived from it. Facts: thali.md sections 1 and 3.
struct PeerSecret: Sendable {
  private let secret: SecretBytes

  /// Stores the secret.
  ///
  /// - Parameter secret: the X coordinate that this machine's long-term key and the peer's share.
  init(_ secret: SecretBytes) { self.secret = secret }

  /// The code of a beacon: the first 16 bytes of HMAC-SHA-256 of the expiration. Both directions have the same code.
  func code(expiration: WallTime, dialect: Dialect) throws(CryptoError) -> ArraySlice<UInt8> {
    let key = try secret.derive(expiration.bytes, count: 32, dialect: dialect)
    return HMACSHA256.authenticationCode(for: expiration.bytes, key: key).prefix(Beacon.codeSize)
  }

  /// The pre-shared key of TLS for an identity: 16 bytes in `spec`, 32 in `node`.
  func preSharedKey(identity: String, dialect: Dialect) throws(CryptoError) -> SecretBytes {
    try secret.derive(Array(identity.utf8), count: dialect == .spec ? 16 : 32, dialect: dialect)
  }
}

extension SecretBytes {
  /// Derives bytes from the secret and public data by HKDF-SHA-256. `node` swaps key material and salt.
  fileprivate func derive(_ data: [UInt8], count: Int, dialect: Dialect) throws(CryptoError) -> SecretBytes {
    try withUnsafeBytes { (secret) throws(CryptoError) in
      switch dialect {
      case .spec: try HKDF.shortLived(secret: secret, salt: data, count: count)
      case .node: try HKDF.shortLived(secret: data, salt: secret, count: count)
      }
    }
  }
}
