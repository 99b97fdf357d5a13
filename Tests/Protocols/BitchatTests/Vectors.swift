import Bytes
import Crypto
import Foundation
import VectorSupport

@testable import Bitchat
@testable import BitchatWire

/// The file of vectors, one property for each section that these tests read. Facts: bitchat.md section 13.
struct Vectors: Decodable {
  let identities: [String: Identity]
  let padding: PaddingSection
  let packets: [PacketRow]
  let packetsPaddingBoundaries: [BoundaryRow]
  let packetsInvalid: [InvalidRow]
  let compressedSignatureCases: CompressedSection
  let thirdPartyGolden: [GoldenRow]
  let messageIds: [MessageIDRow]
  let fragments: [FragmentRow]
  let fragmentChunkRules: ChunkRules
  let notificationStream: StreamSection
  let gcs: [FilterRow]
  let gcsH64: [HashRow]
  let requestSync: [RequestRow]
  let noisePayloads: NoisePayloads
  let verificationQr: CodeSection
  let files: [FileRow]
  let bitchatMessage: [MessageRow]
  let legacy2025: Legacy
  let dialectDisambiguation: Dialects
  let relayTtlIos: RelaySection
  let courier: CourierSection
  let nostrEmbedded: [EmbeddedRow]
  let prekey: PrekeySection

  enum CodingKeys: String, CodingKey, CaseIterable {
    case identities, padding, packets, packetsPaddingBoundaries, packetsInvalid, compressedSignatureCases
    case thirdPartyGolden, messageIds, fragments, fragmentChunkRules, notificationStream, gcs, gcsH64, requestSync
    case noisePayloads, verificationQr, files, bitchatMessage, legacy2025, dialectDisambiguation, relayTtlIos
    case courier, prekey, nostrEmbedded
  }

  /// Other sections of the file: its description, sections that other tests read, and packets that are relayed and
  /// not understood.
  static let others: Set = [
    "_about", "noiseCacophonyXx", "noiseBitchatXx", "replayWindow",
    "nostrPrivateEnvelope", "nostrGeohash", "nostrGeohashIdentity", "nip44V2OfficialSubset",
  ]

  static let shared: Vectors = file.read()

  /// The names of all sections of the file, in camel case.
  static func sectionNames() throws -> Set<String> { try file.sectionNames() }

  private static var file: VectorFile { VectorFile("bitchat", in: .module) }
}

extension Vectors {
  // Swift 6.0 does not accept a closure among the arguments of a test.
  static let signedRows: [PacketRow] = shared.packets.filter { $0.version != nil && $0.signature != nil }
  static let requestRows: [RequestRow] = shared.requestSync.filter { $0.payload != nil }

  struct CourierSection: Decodable {
    let ephemeralPrivate: HexBytes
    let plaintext: HexBytes
    let noiseXMessage: HexBytes
    let epochDay: UInt32
    let recipientTag: HexBytes
    let expiry: UInt64
    let copies: UInt8
    let envelope: HexBytes
  }

  struct EmbeddedRow: Decodable {
    let name: String
    let content: String
    let payload: HexBytes?
  }

  struct PrekeySection: Decodable {
    let prekeyId: UInt32
    let noiseXMessage: HexBytes
  }

  struct RelaySection: Decodable {
    struct Row: Decodable, Sendable {
      let ttl: UInt8
      let degree: Int
      let announce: Bool
      let newTtl: UInt8?
    }
    let cases: [Row]
  }

  struct Identity: Decodable, Sendable {
    let noisePublic: HexBytes
    let ed25519Seed: HexBytes
    let ed25519Public: HexBytes
    let fingerprintHex: String
    let peerId: String
  }

  struct PaddingSection: Decodable {
    struct Row: Decodable, Sendable {
      let len: Int
      let block: Int
      let paddedLen: Int
    }
    struct Unpad: Decodable, Sendable {
      let `in`: HexBytes
      let out: HexBytes
    }
    let cases: [Row]
    let unpad: [Unpad]
  }

  struct PacketRow: Decodable, Sendable {
    let name: String
    let wire: HexBytes
    let payload: HexBytes
    let padded: Bool?
    let version: UInt8?
    let type: UInt8?
    let ttl: UInt8?
    let timestamp: UInt64?
    let sender: String?
    let recipient: String?
    let route: [String]?
    let signature: HexBytes?
    let isRsr: Bool?
    let compressed: Bool?
    let signingBytes: HexBytes?
    let syncId: String?
    let dedupId: String?
  }

  struct BoundaryRow: Decodable, Sendable {
    let unpaddedLen: Int
    let wireLen: Int
  }

  struct InvalidRow: Decodable, Sendable {
    let name: String
    let wire: HexBytes
  }

  struct CompressedSection: Decodable {
    struct Row: Decodable, Sendable {
      let name: String
      let wire: HexBytes
      let signer: String
      let payload: HexBytes
      let verifiesWith: [String]
    }
    let cases: [Row]
  }

  struct GoldenRow: Decodable, Sendable {
    let what: String
    let hex: HexBytes?
    let text: String?
  }

  struct MessageIDRow: Decodable, Sendable {
    let sender: String?
    let ts: UInt64?
    let content: String?
    let packet: String?
    let id: String
  }

  struct FragmentRow: Decodable, Sendable {
    let name: String
    let chunk: Int
    let innerWire: HexBytes
    let fragmentId: String
    let fragments: [HexBytes]
  }

  struct ChunkRules: Decodable {
    struct Example: Decodable {
      let recipient: Bool
      let routeHops: Int
      let chunk: Int
    }
    let iosDefault: Int
    let iosLinkLimited: String
    let iosRouted: String
    let androidExamples: [Example]
  }

  struct StreamSection: Decodable {
    let chunks: [HexBytes]
    let frames: [HexBytes]
  }

  /// IDs, listed in the file or made by the rule in the file.
  enum IDs: Decodable, Sendable {
    case list([HexBytes])
    case rule(String)

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let text = try? container.decode(String.self) {
        self = .rule(text)
      } else {
        self = .list(try container.decode([HexBytes].self))
      }
    }
  }

  struct Membership: Decodable, Sendable {
    let id: HexBytes
    let isMember: Bool

    init(from decoder: any Decoder) throws {
      var container = try decoder.unkeyedContainer()
      id = try container.decode(HexBytes.self)
      isMember = try container.decode(Bool.self)
    }
  }

  struct FilterRow: Decodable, Sendable {
    let name: String
    let flavour: String
    let ids: IDs
    let totalIds: Int
    let maxBytes: Int
    let fpr: Double
    let p: Int
    let m: UInt32
    let data: HexBytes
    let included: Int
    let values: [UInt32]
    let valueCount: Int
    let absentMembership: [Membership]
  }

  struct HashRow: Decodable, Sendable {
    let id: HexBytes
    let h64: UInt64
  }

  struct RequestRow: Decodable, Sendable {
    let name: String
    let types: UInt64?
    let since: UInt64?
    let payload: HexBytes?
    let wire: HexBytes?
  }

  struct NoisePayloads: Decodable {
    let privateMessage: HexBytes
    let delivered: HexBytes
    let readReceipt: HexBytes
    let authenticatedPeerState: HexBytes
    let privateFile: HexBytes
    let voiceFrame: HexBytes
    let verifyChallenge: HexBytes
    let verifyResponse: HexBytes
    let verifyResponseSignedBytes: HexBytes
    let favorite: HexBytes
  }

  struct FileRow: Decodable, Sendable {
    let name: String
    let tlv: HexBytes?
  }

  struct CodeSection: Decodable {
    let noise: HexBytes
    let sign: HexBytes
    let npub: String
    let nick: String
    let ts: Int64
    let nonce: String
    let canonical: HexBytes
    let sig: HexBytes
    let url: String
  }

  struct MessageRow: Decodable, Sendable {
    let name: String
    let hex: HexBytes
  }

  struct Legacy: Decodable {
    let versionHello: HexBytes
    let versionHelloCaps: HexBytes
    let versionAck: HexBytes
    let versionAckRejected: HexBytes
    let deliveryAck: HexBytes
    let readReceipt: HexBytes
    let fragmentsInner: HexBytes
    let fragmentsType050607: [HexBytes]
    let numbersInIosV11V12: [String: UInt8]
    let numbersInSeed: [String: UInt8]

    enum CodingKeys: String, CodingKey {
      case versionHello, versionHelloCaps, versionAck, versionAckRejected, deliveryAck, readReceipt, fragmentsInner
      case fragmentsType050607 = "fragmentsType050607"
      case numbersInIosV11V12 = "numbersInIosV1.1V1.2"
      case numbersInSeed
    }
  }

  struct Dialects: Decodable {
    struct Row: Decodable, Sendable {
      let type: UInt8
      let payload: HexBytes
      let meaning: String
    }
    let cases: [Row]
  }
}

extension Vectors.Identity {
  func noiseKey() throws -> X25519.PublicKey { try X25519.PublicKey(noisePublic.bytes) }
  func signingKey() throws -> Ed25519.PrivateKey { try Ed25519.PrivateKey(copyingSeed: ed25519Seed.bytes) }
}

extension Vectors {
  func identity(_ name: String) throws -> Identity {
    guard let identity = identities[name] else { throw WireError.badValue(name) }
    return identity
  }

  /// The identity with this peer ID.
  func identity(of peer: PeerID) throws -> Identity {
    guard let identity = identities.values.first(where: { $0.peerId == peer.description }) else {
      throw WireError.badValue("\(peer)")
    }
    return identity
  }

  func packet(_ name: String) throws -> PacketRow {
    guard let row = packets.first(where: { $0.name == name }) else { throw WireError.badValue(name) }
    return row
  }
}
