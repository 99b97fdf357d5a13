import Bytes
import Foundation

/// Vectors of Tuvali that serve as seeds.
struct Vectors: Decodable {
  struct Keys: Decodable { let verifierPublicHex: String }
  struct Payload: Decodable {
    let gzipHex: String
    let frameHex: String
    let responseSizeHex: String
  }
  struct URICase: Decodable {
    let v052: String
    let v041ToV051: String
  }
  struct URIs: Decodable { let cases: [URICase] }
  struct Identification: Decodable { let payloadHex: String }
  struct Advertisements: Decodable {
    struct Case: Decodable {
      let advDataHex: String
      let scanResponseHex: String
    }
    let cases: [Case]
  }
  struct Report: Decodable { let frameHex: String }
  struct Multiple: Decodable { let chunksHex: [String] }

  let keys: Keys
  let payloads: [Payload]
  let uri: URIs
  let identify: Identification
  let advertising: Advertisements
  let transferReports: [Report]
  let exactMultiple: Multiple

  static func read() throws -> Vectors {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let file = tests.appending(path: "Protocols/TuvaliTests/Vectors/tuvali.json")
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(Vectors.self, from: Data(contentsOf: file))
  }
}
