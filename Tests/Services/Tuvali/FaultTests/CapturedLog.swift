import Common
import Crypto
import Hall
import Journal
import Loop
import Tuvali

/// Records every log line meanwhile. `close` restores the previous log.
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

  /// The message IDs of the lines about each transfer in a room, in their order. Lines without an ID are left out.
  func stories(of room: String) -> [String: [MessageID]] {
    var stories: [String: [MessageID]] = [:]
    for record in records where record.file.hasPrefix(room + "/") {
      guard let id = record.id, let transfer = record.fields.first(where: { $0.shortName == "transfer" }) else {
        continue
      }
      stories[transfer.value, default: []].append(id)
    }
    return stories
  }

  /// Number of these secrets that occur in the lines.
  func shown(of secrets: [[UInt8]]) -> Int {
    let text = records.map { "\($0.text) \($0.fields.map(\.value))" }.joined(separator: "\n")
    return SecretSearch.shown(secrets, in: Array(text.utf8)).count
  }

  /// All secrets that the two sides drew or derived: private keys, and for the last of them shared secrets and
  /// session keys.
  static func secrets(kiosk: [[UInt8]], wallets: [[UInt8]]) -> [[UInt8]] {
    let peers = wallets.suffix(5).compactMap { try? X25519.PrivateKey(copying: $0).publicKey }
    return kiosk + wallets + SecretSearch.derived(own: kiosk.suffix(5), peers: peers)
  }
}
