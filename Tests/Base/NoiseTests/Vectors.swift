import Bytes
import Crypto
import Foundation
import Testing
import VectorSupport

@testable import Noise

/// `noise.json`: published vectors of both patterns.
struct PublishedVectors: Decodable {
  struct Vector: Decodable, Sendable, CustomTestStringConvertible {
    struct Message: Decodable, Sendable {
      let payload, ciphertext: HexBytes
    }
    let protocolName: String
    let initPrologue, initStatic, initEphemeral, respPrologue, respStatic, handshakeHash: HexBytes
    let initRemoteStatic, respEphemeral: HexBytes?
    let messages: [Message]

    var testDescription: String { protocolName }
  }
  let vectors: [Vector]

  static let shared: PublishedVectors = VectorFile("noise", in: .module).read()
}

/// `bitchat.json`: vectors of an application of XX and X, checked with that application. Facts: bitchat.md section 6.
struct AppVectors: Decodable {
  struct Identity: Decodable {
    let noisePrivate, noisePublic: HexBytes
  }
  struct Published: Decodable {
    let prologue, `is`, ie, rs, re, hash: HexBytes
    let msgs: [[HexBytes]]
  }
  struct XX: Decodable {
    struct Transport: Decodable {
      let dir: String
      let nonce: UInt32
      let plaintext, wire: HexBytes
    }
    let prologue, initiatorEphemeralPrivate, responderEphemeralPrivate, msg1, msg2, msg3: HexBytes
    let handshakeHash, keyIToR, keyRToI: HexBytes
    let initiator, responder: String
    let transport: [Transport]
  }
  struct Window: Decodable {
    struct Sequence: Decodable, Sendable, CustomTestStringConvertible {
      let name: String
      let nonces: [UInt32]
      let correct: [Bool]

      var testDescription: String { name }
    }
    let size: UInt32
    let sequences: [Sequence]
  }
  struct OneWay: Decodable {
    let prologueAscii: String
    let ephemeralPrivate, plaintext, noiseXMessage: HexBytes
  }
  struct Prekey: Decodable {
    let prekeyPrivate, prologue, noiseXMessage: HexBytes
  }

  let identities: [String: Identity]
  let noiseCacophonyXx: Published
  let noiseBitchatXx: XX
  let replayWindow: Window
  let courier: OneWay
  let prekey: Prekey

  static let shared: AppVectors = VectorFile("bitchat", in: .module).read()

  func key(_ name: String) throws -> X25519.PrivateKey {
    guard let identity = identities[name] else { throw NoiseError.noSession }
    return try X25519.PrivateKey(copying: identity.noisePrivate.bytes)
  }
}

/// A random source that returns these bytes, and then zeros.
struct FixedRandom: RandomSource, Sendable {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) {
    rest = bytes[...]
  }

  mutating func fill(_ bytes: inout [UInt8]) {
    for index in bytes.indices { bytes[index] = rest.popFirst() ?? 0 }
  }
}
