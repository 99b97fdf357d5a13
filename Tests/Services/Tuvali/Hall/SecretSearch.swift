import Bytes
import Crypto
import Foundation

/// Searches for leaked secrets in every encoding in which a log line could contain them.
public enum SecretSearch {
  /// Number of bytes that do not match by chance.
  private static let part = 12

  /// The indices of the secrets of which a part occurs in `text`.
  public static func shown(_ secrets: [[UInt8]], in text: [UInt8]) -> [Int] {
    let text = SearchedText(text)
    return secrets.indices.filter { index in spellings(of: secrets[index]).contains(where: text.contains) }
  }

  /// The beginning and the end of a secret in all encodings: raw, hex, Base64, and as a Swift array.
  public static func spellings(of secret: [UInt8]) -> [[UInt8]] {
    guard secret.count >= part else { return [secret] }
    return [secret.prefix(part), secret.suffix(part)].flatMap { part in
      let hex = Hex.encode(part)
      let words = [hex, hex.uppercased(), part.map(String.init).joined(separator: ", ")] + base64(Array(part))
      return [Array(part)] + words.map { Array($0.utf8) }
    }
  }

  /// The part of the Base64 text of `part` that is equal at each alignment.
  private static func base64(_ part: [UInt8]) -> [String] {
    (0..<3).flatMap { offset in
      // The first and the last group of three bytes contain bits of adjacent bytes.
      let bytes = Array(part.dropFirst((3 - offset) % 3))
      let whole = bytes.prefix(bytes.count / 3 * 3)
      return [Data(whole).base64EncodedString(), Base64URL.encode(whole)]
    }
  }

  /// Secrets that wallet and verifier derive from each other's keys: the shared secret, and the two session keys.
  ///
  /// - Parameters:
  ///   - own: private keys of one side.
  ///   - peers: public keys of the other.
  public static func derived(own: [[UInt8]], peers: [X25519.PublicKey]) -> [[UInt8]] {
    own.flatMap { own in
      peers.flatMap { peer -> [[UInt8]] in
        guard let key = try? X25519.PrivateKey(copying: own), let shared = try? key.sharedSecret(with: peer) else {
          return []
        }
        let keys = ["SKVerifier", "SKWallet"].compactMap {
          try? HKDF.sha256(secret: shared, salt: Array("SHA-256".utf8), info: Array($0.utf8), count: 32)
        }
        return ([shared] + keys).map { $0.withUnsafeBytes { Array($0) } }
      }
    }
  }
}

/// A text with a hash index, for thousands of searches that nearly all fail.
private struct SearchedText {
  /// Number of bytes that are compared at once.
  private static let width = MemoryLayout<UInt64>.size
  private static let slotBits = 18

  private let bytes: Data
  /// For each slot, 1 if some eight bytes of the text belong to it, else 0.
  private let isTaken: [UInt8]

  init(_ bytes: [UInt8]) {
    self.bytes = Data(bytes)
    let last = bytes.count - Self.width
    isTaken = [UInt8](unsafeUninitializedCapacity: 1 << Self.slotBits) { slots, count in
      slots.initialize(repeating: 0)
      count = slots.count
      bytes.withUnsafeBytes { bytes in
        for offset in stride(from: 0, through: last, by: 1) { slots[Self.slot(bytes, offset)] = 1 }
      }
    }
  }

  func contains(_ part: [UInt8]) -> Bool {
    guard part.count >= Self.width else { return bytes.range(of: Data(part)) != nil }
    let slot = part.withUnsafeBytes { Self.slot($0, 0) }
    return isTaken[slot] == 1 && bytes.range(of: Data(part)) != nil
  }

  /// The hash slot of the eight bytes at an offset.
  private static func slot(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
    let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
    return Int(truncatingIfNeeded: (word &* 0x9E37_79B9_7F4A_7C15) >> UInt64(64 - slotBits))
  }
}
