import Bytes
import Foundation

/// Vectors of Bitchat that serve as seeds.
struct BitchatVectors: Decodable {
  struct Packet: Decodable {
    let wire: String
    let payload: String
  }
  struct Wire: Decodable { let wire: String }
  struct Fragments: Decodable { let fragments: [String] }
  struct Stream: Decodable { let chunks: [String] }
  struct Request: Decodable { let payload: String? }
  struct Code: Decodable { let url: String }
  struct Message: Decodable { let hex: String }
  struct Courier: Decodable { let envelope: String }
  struct Dialects: Decodable {
    struct Case: Decodable {
      let type: UInt8
      let payload: String
    }
    let cases: [Case]
  }
  /// Some values of the section are not bytes.
  struct Bytes: Decodable {
    let hex: String?

    init(from decoder: any Decoder) throws {
      hex = try? decoder.singleValueContainer().decode(String.self)
    }
  }

  let packets: [Packet]
  let packetsInvalid: [Wire]
  let fragments: [Fragments]
  let notificationStream: Stream
  let requestSync: [Request]
  let noisePayloads: [String: Bytes]
  let verificationQr: Code
  let courier: Courier
  let bitchatMessage: [Message]
  let dialectDisambiguation: Dialects

  static func read() throws -> BitchatVectors {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let file = tests.appending(path: "Protocols/BitchatTests/Vectors/bitchat.json")
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(BitchatVectors.self, from: Data(contentsOf: file))
  }

  /// The payloads of packets of this type.
  func payloads(of type: UInt8) throws -> [[UInt8]] {
    try packets.filter { try Hex.decode($0.wire).dropFirst().first == type }.map { try Hex.decode($0.payload) }
  }
}
