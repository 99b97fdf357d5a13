import Bytes
import Crypto
import Foundation
import VectorSupport

@testable import Nostr

/// `nostr.json`: the sections of Bitchat's vectors that are about Nostr.
struct Vectors: Decodable {
  struct Event: Decodable {
    let id: String
    let pubkey: String?
    let createdAt: Int64
    let kind: UInt16
    let tags: [[String]]
    let content: String
    let sig: String?

    /// The event as another program writes it, with sorted members.
    func json() throws -> [UInt8] {
      var object: [String: Any] = [
        "id": id, "created_at": createdAt, "kind": kind, "tags": tags, "content": content,
      ]
      object["pubkey"] = pubkey
      object["sig"] = sig
      return Array(try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys]))
    }
  }
  struct Embedded: Decodable {
    let name: String
    let content: String
  }
  struct Envelope: Decodable {
    let senderPrivate, recipientPrivate, wrapPrivate, senderNpub, envKeySeal: String
    let rumor, seal, giftWrap: Event
  }
  struct Channel: Decodable {
    let chat, presence: Event
  }
  struct ChannelIdentity: Decodable {
    let deviceSeed, geohash: String
    let `private`: String
  }
  struct Official: Decodable {
    struct Message: Decodable {
      let conversationKey, nonce, plaintext, payload: String
    }
    let conversationKeys: [[String]]
    let messages: [Message]
    let padding: [[Int]]
  }

  let nostrEmbedded: [Embedded]
  let nostrPrivateEnvelope: Envelope
  let nostrGeohash: Channel
  let nostrGeohashIdentity: ChannelIdentity
  let nip44V2OfficialSubset: Official

  static let shared: Vectors = VectorFile("nostr", in: .module).read()
}

/// Keys and times of the tests.
enum People {
  /// The time of the vectors' messages.
  static let now = UnixTime(seconds: 1_755_432_100)

  static func key(_ digits: String) throws -> Secp256k1.PrivateKey {
    try Secp256k1.PrivateKey(copying: Hex.decode(digits))
  }

  /// The key of a person with a number.
  static func key(_ number: UInt64) throws -> Secp256k1.PrivateKey {
    let bytes = withUnsafeBytes(of: number.bigEndian, Array.init)
    return try Secp256k1.PrivateKey(copying: [UInt8](repeating: 0, count: 24) + bytes)
  }
}
