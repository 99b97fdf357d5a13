import Bytes
import Foundation

/// The files of Project Wycheproof, which are beside a checkout and not in it.
enum Wycheproof {
  static let folder = URL(fileURLWithPath: #filePath).appendingPathComponent(
    "../../../../../shared/vectors/wycheproof"
  ).standardizedFileURL

  static var isPresent: Bool { FileManager.default.fileExists(atPath: folder.path) }

  /// Whether the files are tested. On a developer's machine they may be missing. Where `CI` is set, they are
  /// required: a test without its file fails.
  static func isTried(isPresent: Bool, in environment: [String: String]) -> Bool {
    isPresent || environment["CI"].map { !["", "0", "false"].contains($0) } ?? false
  }

  /// A file of tests, decoded as groups of one kind.
  struct File<Group: Decodable>: Decodable {
    let numberOfTests: Int
    let testGroups: [Group]

    init(_ name: String) throws {
      let data = try Data(contentsOf: folder.appendingPathComponent(name + ".json"))
      self = try JSONDecoder().decode(Self.self, from: data)
    }
  }

  enum Result: String, Decodable {
    case valid, acceptable, invalid
  }

  /// Bytes in the encoding of the files.
  struct Bytes: Decodable {
    let value: [UInt8]

    init(from decoder: any Decoder) throws {
      value = try Hex.decode(try decoder.singleValueContainer().decode(String.self))
    }
  }

  struct AEADGroup: Decodable {
    struct Test: Decodable {
      let tcId: Int
      let key, iv, aad, msg, ct, tag: Bytes
      let result: Result
    }
    let ivSize, keySize, tagSize: Int
    let tests: [Test]
  }

  struct MACGroup: Decodable {
    struct Test: Decodable {
      let tcId: Int
      let key, msg, tag: Bytes
      let result: Result
    }
    let tagSize: Int
    let tests: [Test]
  }

  struct HKDFGroup: Decodable {
    struct Test: Decodable {
      let tcId: Int
      let ikm, salt, info, okm: Bytes
      let size: Int
      let result: Result
    }
    let tests: [Test]
  }

  struct EdDSAGroup: Decodable {
    struct Key: Decodable {
      let pk: Bytes
    }
    struct Test: Decodable {
      let tcId: Int
      let msg, sig: Bytes
      let result: Result
    }
    let publicKey: Key
    let tests: [Test]
  }

  struct ECDHGroup: Decodable {
    struct Test: Decodable {
      let tcId: Int
      /// DER: a SubjectPublicKeyInfo, or an invalid encoding of one.
      let `public`: Bytes
      /// The hexadecimal digits of a number, with leading zeros or without.
      let `private`: String
      let shared: Bytes
      let result: Result
      let flags: [String]

      /// The number in 32 bytes.
      func scalar() throws -> [UInt8] {
        let digits = String(repeating: "0", count: max(0, 64 - `private`.count)) + `private`
        return Array(try Hex.decode(digits).suffix(32))
      }
    }
    let curve: String
    let tests: [Test]
  }

  struct XDHGroup: Decodable {
    struct Test: Decodable {
      let tcId: Int
      let `public`, `private`, shared: Bytes
      let result: Result
    }
    let tests: [Test]
  }
}
