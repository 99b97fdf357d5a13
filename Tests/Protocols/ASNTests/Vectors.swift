import ASN
import Bytes
import Crypto
import Foundation
import VectorSupport

/// The file of vectors, one property for each section.
struct Vectors: Decodable {
  let keys: Keys
  let nonceRule: String
  let fixedSession: FixedSession
  let fixedSessionClientSmaller: FixedSession
  let blobs: [String: BlobRow]
  let requests: [String: HexBytes]
  let malformed: [String: HexBytes]

  enum CodingKeys: String, CodingKey, CaseIterable {
    case keys, nonceRule, fixedSession, fixedSessionClientSmaller, blobs, requests, malformed
  }

  static let shared: Vectors = read("asn")

  static func read<Value: Decodable>(_ name: String) -> Value { VectorFile(name, in: .module).read() }

  /// The names of all sections that the file has.
  static func sectionNames() throws -> Set<String> {
    try VectorFile("asn", in: .module, convertsNames: false).sectionNames()
  }
}

extension Vectors {
  struct Pair: Decodable, Sendable {
    let encrSec, encrPub, authSec, authPub: HexBytes

    var user: UserKey { get throws { try UserKey(encrPub.bytes) } }
    var encryption: X25519.PrivateKey { get throws { try X25519.PrivateKey(copying: encrSec.bytes) } }
    var authentication: Ed25519.PrivateKey {
      get throws { try Ed25519.PrivateKey(copyingSeed: authSec.bytes.prefix(32)) }
    }
    var verification: Ed25519.PublicKey { get throws { try Ed25519.PublicKey(authPub.bytes) } }
  }

  struct Keys: Decodable, Sendable {
    let admin, server, user: Pair
    let nonce: HexBytes
  }

  struct FixedSession: Decodable, Sendable {
    struct Event: Decodable, Sendable {
      let dir: String
      let note: String
      let pdu: HexBytes
      let firstCounter: UInt32
      let nonces: [HexBytes]
      let segments: [HexBytes]

      var isFromClient: Bool { dir == "c>s" }
    }
    let clientEphemeralSec, clientEphemeralPub, firstBytesOnWire: HexBytes
    let serverEphemeralSec, serverEphemeralPub, sessionNonce, initialShared, sessionShared: HexBytes
    let clientIsSmallerInitial, clientIsSmallerSession: Bool
    let events: [Event]
  }

  struct BlobRow: Decodable, Sendable {
    let hex: HexBytes
    let len: Int
    let sha512: HexBytes
    let file, linkSeed, linkOriginal: String
    let owner, author: HexBytes
    let name: String
    let epoch: UInt64
  }
}

/// A session with an original server, with the client's side in plaintext.
struct Capture: Decodable, Sendable {
  struct Entry: Decodable, Sendable {
    let note: String
    let sent, received: [HexBytes]?
    let pdu, ackPdu: HexBytes?
    let sha512: HexBytes?
    let blobs: [HexBytes]?
    let code: UInt8?
    let data: String?
  }
  let dialect: String
  let keys: Vectors.Keys
  let clientEphemeralSec: HexBytes
  let log: [Entry]

  static let year2014: Capture = Vectors.read("capture_asn_2014")
  static let year2015: Capture = Vectors.read("capture_asn_2015")
}
