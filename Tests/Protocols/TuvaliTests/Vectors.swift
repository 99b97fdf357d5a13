import Bytes
import Crypto
import Foundation
import VectorSupport

@testable import Tuvali

/// The file of vectors, one property for each section. Facts: tuvali.md section 12.
struct Vectors: Decodable {
  let keys: Keys
  let identify: IdentifySection
  let uri: URISection
  let advertising: AdvertisingSection
  let mtu: [MTURow]
  let crc: [CRCRow]
  let payloads: [Payload]
  let dialects: [DialectRow]
  let exactMultiple: ExactMultiple
  let transferReports: [ReportRow]
  let transferReportRxEdge: [EdgeRow]
  let seventyPercentRule: SeventyPercent
  let singleByteMessages: SingleBytes
  let negative: [NegativeRow]

  /// The sections above, and the file's description of itself.
  enum CodingKeys: String, CodingKey, CaseIterable {
    case keys, identify, uri, advertising, mtu, crc, payloads, dialects, exactMultiple, transferReports
    case transferReportRxEdge, seventyPercentRule, singleByteMessages, negative
  }

  static let prose: Set = ["description", "formatVersion", "crossCheck"]

  static let shared: Vectors = file.read()

  /// The names of all sections of the file, in camel case.
  static func sectionNames() throws -> Set<String> { try file.sectionNames() }

  private static var file: VectorFile { VectorFile("tuvali", in: .module) }
}

extension Vectors {
  struct Keys: Decodable {
    struct Derivation: Decodable {
      let saltAscii: String
      let keyInfoSkverifierHex: HexBytes
      let keyInfoSkwalletHex: HexBytes
    }
    let verifierPrivateHex: HexBytes
    let verifierPublicHex: HexBytes
    let walletPrivateHex: HexBytes
    let walletPublicHex: HexBytes
    let sharedSecretHex: HexBytes
    let hkdf: Derivation
    let nonceHex: HexBytes
  }

  struct IdentifySection: Decodable {
    let length: Int
    let payloadHex: HexBytes
  }

  struct URISection: Decodable {
    struct Row: Decodable, Sendable {
      let name: String
      let v052: String
      let v041ToV051: String
      let expectedAdvServiceDataHex: HexBytes
    }
    struct Sample: Decodable {
      let uri: String
      let expectedAdvServiceDataHex: HexBytes
    }
    let cases: [Row]
    let repoSample: Sample
  }

  struct AdvertisingSection: Decodable {
    struct Profile: Decodable {
      let advUuid16: HexBytes
      let scanResponseUuid16: HexBytes
    }
    struct Row: Decodable, Sendable {
      let profile: String
      let name: String
      let serviceDataAdvHex: HexBytes
      let serviceDataScanResponseHex: HexBytes
      let advFits31: Bool
    }
    let profiles: [String: Profile]
    let cases: [Row]
    let maxNameBytes: Int
  }

  struct MTURow: Decodable, Sendable {
    let attMtu: Int
    let maxData: Int
    let chunkPayload: Int
    let reportPageSize: Int
    let androidVerifierAccepts: Bool
    let iosWalletAccepts: Bool
  }

  struct CRCRow: Decodable, Sendable {
    let dataHex: HexBytes
    let kermitHex: String
    let notCcittFalseHex: String
  }

  struct Payload: Decodable, Sendable {
    struct Cut: Decodable, Sendable {
      let attMtu: Int
      let maxData: Int
      let count: Int
      let lastLen: Int
      let chunksHex: [HexBytes]
    }
    let name: String
    let plaintextUtf8Base64: Data
    let gzipHex: HexBytes
    let frameHex: HexBytes
    let responseSizeHex: HexBytes
    let wrongKeyFrameHexPrefix: HexBytes
    let chunks: [Cut]

    var text: [UInt8] { Array(plaintextUtf8Base64) }
  }

  struct DialectRow: Decodable, Sendable {
    let versions: String
    let serviceUuid16: String
    let firstSequence: Int
    let responseSizeHex: HexBytes
    let firstChunkAttMtu185Hex: HexBytes
  }

  struct ExactMultiple: Decodable {
    let frameHex: HexBytes
    let attMtu: Int
    let chunksHex: [HexBytes]
  }

  struct ReportRow: Decodable, Sendable {
    let attMtu: Int
    let `case`: String
    let missingTotal: Int
    let pageSize: Int
    let totalPages: Int
    let sequencesOnWire: [Int]
    let frameHex: HexBytes
  }

  struct EdgeRow: Decodable, Sendable {
    let frameHex: HexBytes
    let meaning: String
  }

  struct SeventyPercent: Decodable {
    let maxToleratedMissing: [String: Int]
    /// Totals whose limit is one less than that of exact arithmetic, because 0.7 * n rounds down.
    let totalsThatRoundDown: [Int]

    enum CodingKeys: String, CodingKey {
      case maxToleratedMissing
      case totalsThatRoundDown = "totalsUpTo32767Where10MGt7NDiffers"
    }
  }

  struct SingleBytes: Decodable {
    struct Request: Decodable { let request, error, uninitialisedIgnored: HexBytes }
    struct Status: Decodable { let accepted, rejected: HexBytes }
    struct Disconnect: Decodable { let disconnect: HexBytes }
    let transferReportRequest: Request
    let verificationStatus: Status
    let disconnect: Disconnect
  }

  struct NegativeRow: Decodable, Sendable {
    let `case`: String
    let maxData: Int?
    let chunkHex: HexBytes?
    let hex: HexBytes?
    let frameHex: HexBytes?
  }
}

extension Vectors.Keys {
  func verifier() throws -> X25519.PrivateKey { try X25519.PrivateKey(copying: verifierPrivateHex.bytes) }
  func wallet() throws -> X25519.PrivateKey { try X25519.PrivateKey(copying: walletPrivateHex.bytes) }

  /// The keys that the wallet derives, which equal the verifier's.
  func session(_ receiver: SessionKeys.Receiver = .verifier) throws -> SessionKeys {
    try SessionKeys(
      own: try wallet(), peer: try X25519.PublicKey(verifierPublicHex.bytes), nonce: nonceHex.bytes, receiver: receiver)
  }
}
