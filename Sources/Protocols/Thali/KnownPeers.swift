import Common
import Crypto

/// Reason why a program's request is refused.
public enum PresenceError: CodedError, Hashable {
  /// The bytes are not a public key in the encoding of either dialect.
  case badKey
  /// The key is this machine's own.
  case ownKey
  /// The key belongs to a known peer.
  case knownKey
  /// The maximum number of peers is known.
  case tooManyPeers
  /// No known peer has the number.
  case unknownPeer
  /// An announcement has 1 to 15 different recipients.
  case badRecipients(Int)
  /// The life of an announcement is out of range.
  case badLife
  /// Programs have requested too many announcements within a minute.
  case tooFast
  /// Too many announcements were made that have not expired.
  case tooManyAnnouncements
  /// The wall clock shows a time before 2026, so it is not set.
  case clockNotSet
  /// A library failed; the sentence names it.
  case cryptoFailed(String)

  public var code: String {
    switch self {
    case .badKey, .ownKey, .badRecipients, .badLife: "InvalidArgs"
    case .knownKey: "AlreadyExists"
    case .tooManyPeers, .tooFast, .tooManyAnnouncements: "LimitExceeded"
    case .unknownPeer: "NotFound"
    case .clockNotSet: "NotReady"
    case .cryptoFailed: "Failed"
    }
  }

  public var sentence: String {
    switch self {
    case .badKey:
      "This is not a public key. A public key of secp256k1 has 88 bytes as SubjectPublicKeyInfo, or 65 as a point."
    case .ownKey: "This is the public key of this machine."
    case .knownKey: "A peer with this public key is known already."
    case .tooManyPeers: "\(Limits.knownPeers) peers are known, and no more are possible. Remove one first."
    case .unknownPeer: "There is no such peer."
    case .badRecipients(let count):
      "An announcement has 1 to \(Limits.beacons) recipients, each of them once. This one has \(count)."
    case .badLife:
      "An announcement lasts at least \(Limits.shortestLife.components.seconds) seconds. Use 0 for one without an end."
    case .tooFast:
      "\(Limits.announcementsPerMinute) announcements were requested within a minute. Try again in a few seconds."
    case .tooManyAnnouncements:
      "\(Limits.usedExpirations) announcements have not expired yet. Try again later, or announce for a shorter time."
    case .clockNotSet: "This machine's clock shows a time before 2026. Set it, because announcements expire by it."
    case .cryptoFailed(let what): "The crypto library failed: \(what)."
    }
  }
}

/// The number of a known peer, unique during a run of the program.
public struct PeerID: Hashable, Comparable, Sendable {
  public let number: UInt32

  public init(_ number: UInt32) { self.number = number }

  public static func < (first: PeerID, second: PeerID) -> Bool { first.number < second.number }
}

/// A peer whose public key a person has entered.
struct KnownPeer: Sendable {
  let key: Secp256k1.PublicKey
  let secret: PeerSecret
}

/// This machine's key, and the keys of the known peers.
public struct KnownPeers: Sendable {
  public let own: Secp256k1.PrivateKey
  private var peers: [PeerID: KnownPeer] = [:]
  private var byKey: [Secp256k1.PublicKey: PeerID] = [:]
  private var byKeyID: [Dialect: [KeyID: PeerID]] = [:]
  private var last: UInt32 = 0

  public init(own: Secp256k1.PrivateKey) { self.own = own }

  public var count: Int { peers.count }

  /// Reads a public key in the form of either dialect.
  ///
  /// - Throws: `badKey`.
  public static func key(reading bytes: [UInt8]) throws(PresenceError) -> Secp256k1.PublicKey {
    do throws(CryptoError) {
      guard let dialect = bytes.first.flatMap(Dialect.init(firstOctet:)) else { throw .invalidKey("public key") }
      return try dialect.decode(bytes[...])
    } catch .unavailable(let name) {
      throw .cryptoFailed("\(name) is not available")
    } catch {
      throw .badKey
    }
  }

  /// Adds a peer. Computes the secret that the two long-term keys share, with one multiplication of a point.
  ///
  /// - Throws: `ownKey`, `knownKey`, `tooManyPeers`, `cryptoFailed`.
  public mutating func add(_ key: Secp256k1.PublicKey) throws(PresenceError) -> PeerID {
    guard key != own.publicKey else { throw .ownKey }
    guard byKey[key] == nil else { throw .knownKey }
    guard peers.count < Limits.knownPeers, last < .max else { throw .tooManyPeers }
    let secret: PeerSecret
    do throws(CryptoError) {
      secret = PeerSecret(try own.sharedX(with: key))
    } catch {
      throw .cryptoFailed("\(error)")
    }
    last += 1
    let id = PeerID(last)
    peers[id] = KnownPeer(key: key, secret: secret)
    byKey[key] = id
    for dialect in Dialect.allCases { byKeyID[dialect, default: [:]][dialect.keyID(of: key)] = id }
    return id
  }

  /// Removes a peer.
  ///
  /// - Throws: `unknownPeer`.
  public mutating func remove(_ id: PeerID) throws(PresenceError) {
    guard let peer = peers.removeValue(forKey: id) else { throw .unknownPeer }
    byKey[peer.key] = nil
    for dialect in Dialect.allCases { byKeyID[dialect]?[dialect.keyID(of: peer.key)] = nil }
  }

  /// The public key of a known peer; nil if no peer has this number.
  public func key(of id: PeerID) -> Secp256k1.PublicKey? { peers[id]?.key }

  subscript(id: PeerID) -> KnownPeer? { peers[id] }

  /// The peer with a given key identifier.
  func peer(with keyID: KeyID, in dialect: Dialect) -> PeerID? { byKeyID[dialect]?[keyID] }
}
