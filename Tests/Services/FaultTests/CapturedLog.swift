import Bytes
import Common
import Crypto
import Foundation
import Journal
import Loop
import Tuvali

/// What the journal is told meanwhile, every line of it. It is put back by `close`.
@LoopActor
final class CapturedLog {
  private let lines = Locked<[LogRecord]>([])

  init() {
    let lines = lines
    Log.configure(destination: .capture { record in lines.withLock { $0.append(record) } }, level: .debug)
  }

  func close() {
    Log.configure(destination: .terminal(colour: false), level: .warning)
  }

  var records: [LogRecord] { lines.withLock { $0 } }

  /// Warnings and errors of a room: `Verifier`, `Wallet`.
  func complaints(of room: String) -> [LogRecord] {
    records.filter { $0.level >= .warning && $0.file.hasPrefix(room + "/") }
  }

  /// Which of these secrets the lines show some of: as they are, in hex or in Base64.
  func shown(of secrets: [[UInt8]]) -> Int {
    let text = Data(records.map { "\($0.text) \($0.fields.map(\.value))" }.joined(separator: "\n").utf8)
    return secrets.count { secret in
      Self.spellings(of: secret).contains { text.range(of: Data($0)) != nil }
    }
  }

  /// Enough of a secret to be no accident, from its beginning and from its end, in all ways to write it.
  static func spellings(of secret: [UInt8]) -> [[UInt8]] {
    guard secret.count >= 12 else { return [secret] }
    return [secret.prefix(12), secret.suffix(12)].flatMap { part in
      let hex = Hex.encode(part)
      let words = [hex, hex.uppercased(), Data(part).base64EncodedString(), Base64URL.encode(part)]
      return [Array(part)] + words.map { Array($0.utf8) }
    }
  }

  /// All that the two sides drew or derived: private keys; of the last of them, shared secrets and session keys.
  static func secrets(kiosk: [[UInt8]], wallets: [[UInt8]]) -> [[UInt8]] {
    var secrets = kiosk + wallets
    for own in kiosk.suffix(5) {
      guard let key = try? X25519.PrivateKey(copying: own) else { continue }
      for peer in wallets.suffix(5) {
        guard let other = try? X25519.PrivateKey(copying: peer),
          let shared = try? key.sharedSecret(with: other.publicKey),
          let derived = try? HKDF.sha256(
            secret: shared, salt: Array("SHA-256".utf8), info: Array("SKVerifier".utf8), count: 32)
        else { continue }
        secrets += [shared, derived].map { $0.withUnsafeBytes { Array($0) } }
      }
    }
    return secrets
  }
}
