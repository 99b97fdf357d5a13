import Bytes
import Common
import Crypto

/// The identity that a TLS client sends. It identifies an announcement, and a beacon in it.
///
/// | dialect | identity |
/// |---|---|
/// | `spec` | base64 (RFC 4648 section 4, padded) of preamble and beacon: 144 bytes, 192 characters |
/// | `node` | base64url without padding of the SHA-256 of preamble and beacon: 43 characters |
///
/// Facts: thali.md section 3.
public enum TLSIdentity {
  /// Maximum length of an identity, in characters.
  public static let maximumCount = 192

  static func text(of preamble: Preamble, _ beacon: Beacon) -> String {
    let bytes = preamble.bytes + beacon.bytes
    switch preamble.dialect {
    case .spec:
      let digits = Base64URL.encode(bytes).utf8.map { digit in
        switch digit {
        case UInt8(ascii: "-"): UInt8(ascii: "+")
        case UInt8(ascii: "_"): UInt8(ascii: "/")
        default: digit
        }
      }
      let padding = [UInt8](repeating: UInt8(ascii: "="), count: (4 - digits.count % 4) % 4)
      return String(decoding: digits + padding, as: UTF8.self)
    case .node: return Base64URL.encode(SHA256.hash(bytes))
    }
  }
}

/// The peer that a TLS client claims to be, and the key that proves it.
public struct TLSCredential: Sendable {
  public let peer: PeerID
  public let dialect: Dialect
  /// The pre-shared key: 16 bytes in `spec`, 32 in `node`.
  public let preSharedKey: SecretBytes
}

/// Reason why a TLS identity is refused.
public enum IdentityRefusal: Error, Hashable, Sendable {
  /// The identity belongs to none of the last 50 announcements of this machine.
  case unknown
  /// The announcement has expired, or its recipient was removed.
  case stale
  /// A library failed.
  case failed
}

/// Makes announcements, and stores the TLS identities of the last 50.
///
/// Each announcement has a new ephemeral key, and an expiration that differs from those of all unexpired announcements.
/// A code depends only on the two long-term keys and the expiration, so a reused expiration would let an observer link
/// two announcements. The order of the recipients is random. Facts: thali.md sections 1 and 3.
public struct Announcer: Sendable {
  private struct Owner: Sendable {
    let peer: PeerID
    let dialect: Dialect
    let expiration: WallTime
  }

  /// Maximum random time that is added to an expiration, in milliseconds: in `node` that of phones, in `spec` more. The
  /// difference to the time of reception then does not reveal the error of the clock.
  private static let fuzz: [Dialect: UInt64] = [.spec: 60_000, .node: 256]
  /// 2026-01-01: a clock that shows an earlier time is not set.
  private static let firstTime = WallTime(milliseconds: 1_767_225_600_000)

  private var used: Set<WallTime> = []
  /// The identities of each of the last announcements, the oldest first.
  private var served: [[String]] = []
  private var owners: [String: Owner] = [:]

  public init() {}

  /// Makes an announcement.
  ///
  /// - Parameters:
  ///   - recipients: 1 to 15 different known peers.
  ///   - life: the lifetime of the announcement, `Limits.shortestLife` to `longestLife`; up to a minute is added.
  /// - Throws: `badRecipients`, `unknownPeer`, `badLife`, `clockNotSet`, `tooManyAnnouncements`, `cryptoFailed`.
  public mutating func announce(
    to recipients: [PeerID], life: Duration, dialect: Dialect, known: KnownPeers, at now: WallTime,
    randomFrom random: inout some RandomSource
  ) throws(PresenceError) -> Announcement {
    guard (1...Limits.beacons).contains(recipients.count), Set(recipients).count == recipients.count else {
      throw .badRecipients(recipients.count)
    }
    guard life >= Limits.shortestLife, life <= Limits.longestLife else { throw .badLife }
    guard now >= Self.firstTime else { throw .clockNotSet }
    var shuffled = recipients
    for index in shuffled.indices.dropFirst().reversed() {
      shuffled.swapAt(index, Int(Self.number(below: UInt64(index + 1), randomFrom: &random)))
    }
    var peers: [KnownPeer] = []
    for id in shuffled {
      guard let peer = known[id] else { throw .unknownPeer }
      peers.append(peer)
    }
    let expiration = try newExpiration(life, dialect, at: now, randomFrom: &random)
    let announcement: Announcement
    do throws(CryptoError) {
      let ephemeral = try Secp256k1.PrivateKey(randomFrom: &random)
      announcement = try Announcement.make(
        dialect: dialect, ephemeral: ephemeral, expiration: expiration, own: known.own.publicKey, recipients: peers)
    } catch {
      throw .cryptoFailed("\(error)")
    }
    used.insert(expiration)
    serve(announcement, to: shuffled)
    return announcement
  }

  /// The peer that a TLS client claims to be by its `identity`, and the pre-shared key that proves the claim.
  ///
  /// - Throws: `unknown`, `stale` or `failed`.
  public func credential(
    for identity: String, known: KnownPeers, at now: WallTime
  ) throws(IdentityRefusal) -> TLSCredential {
    guard identity.utf8.count <= TLSIdentity.maximumCount, let owner = owners[identity] else { throw .unknown }
    guard now < owner.expiration, let peer = known[owner.peer] else { throw .stale }
    do throws(CryptoError) {
      return TLSCredential(
        peer: owner.peer, dialect: owner.dialect,
        preSharedKey: try peer.secret.preSharedKey(identity: identity, dialect: owner.dialect))
    } catch {
      throw .failed
    }
  }

  /// Returns an expiration that no unexpired announcement has. Facts: thali.md section 1, "Contradictions in the beacon
  /// spec".
  private mutating func newExpiration(
    _ life: Duration, _ dialect: Dialect, at now: WallTime, randomFrom random: inout some RandomSource
  ) throws(PresenceError) -> WallTime {
    used = used.filter { now < $0 }
    guard used.count < Limits.usedExpirations else { throw .tooManyAnnouncements }
    let offset = Self.number(below: Self.fuzz[dialect] ?? 1, randomFrom: &random)
    var expiration = now.advanced(by: life + .milliseconds(Int64(offset)))
    while used.contains(expiration) { expiration = expiration.advanced(by: .milliseconds(1)) }
    return expiration
  }

  private mutating func serve(_ announcement: Announcement, to recipients: [PeerID]) {
    let preamble = announcement.preamble
    let identities = announcement.beacons.map { TLSIdentity.text(of: preamble, $0) }
    for (identity, peer) in zip(identities, recipients) {
      owners[identity] = Owner(peer: peer, dialect: preamble.dialect, expiration: preamble.expiration)
    }
    served.append(identities)
    guard served.count > Limits.servedAnnouncements else { return }
    for identity in served.removeFirst() { owners[identity] = nil }
  }

  /// Draws a number from 0 to `bound` minus 1. All are equally likely up to 2^-32.
  private static func number(below bound: UInt64, randomFrom random: inout some RandomSource) -> UInt64 {
    random.bytes(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } % max(1, bound)
  }
}

extension KnownPeers {
  /// The key with which a TLS client authenticates: 16 bytes in `spec`, 32 in `node`.
  ///
  /// - Throws: `stale` if the identity has expired or the peer was removed, `failed` if a library fails.
  public func preSharedKey(for recognition: Recognition, at now: WallTime) throws(IdentityRefusal) -> SecretBytes {
    guard now < recognition.expiration, let peer = self[recognition.peer] else { throw .stale }
    do throws(CryptoError) {
      return try peer.secret.preSharedKey(identity: recognition.identity, dialect: recognition.dialect)
    } catch {
      throw .failed
    }
  }
}
