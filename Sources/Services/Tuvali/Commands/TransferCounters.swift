import DBus
import Tool
import Verifier
import Wallet

/// Meanings of the counters of verifier and wallet.
enum TransferCounters {
  static let verifier = CounterMeanings(
    "verifier", VerifierAdaptor.path, VerifierAdaptor.interfaceName,
    [
      "Sessions": "wallets that identified themselves and were served",
      "Received": "credentials that were decrypted and stored",
      "Failed": "transfers that failed",
      "FailedByLimit": "transfers that failed, because a size was over its limit, or there was no capacity",
      "FailedByTime": "transfers that failed, because a time limit was exceeded",
      "Refused": "wallets that were refused: no session slot was free, or the QR code was no longer valid",
      "EvictedSessions": "transfers that ended because another wallet needed the session slot",
      "Chunks": "chunks received, including duplicates and invalid ones",
      "DuplicateChunks": "chunks that had been received before",
      "CrcFailures": "chunks with a wrong checksum",
      "BadChunks": "chunks with a wrong length or number",
      "IgnoredWrites": "writes by wallets that were ignored, because they were malformed or came at a wrong time",
      "SilentLinks": "links whose phone did not identify itself in time",
      "RefusedLinks": "links that were closed, because Links= or LinksPerPeer= was reached",
      "StoreFull": "credentials that were refused because there was no capacity to store them",
      "Checked": "credentials on which the checker gave a verdict",
      "CheckedValid": "credentials that the checker found valid",
      "ChecksFailed": "checks that ended without a verdict of the checker",
      "HistoryLost": "results of transfers that are not in the history, because the disk failed",
      "LinesLeftOut": "transfers and warnings that the journal does not have, because of LinesPerPeer=",
    ])

  static let wallet = CounterMeanings(
    "wallet", WalletAdaptor.path, WalletAdaptor.interfaceName,
    [
      "Begun": "transfers that were begun",
      "Accepted": "credentials that the verifier accepted",
      "Rejected": "credentials that the verifier rejected",
      "Undecided": "credentials that the verifier has, without a verdict",
      "Failed": "transfers that failed",
      "Refused": "transfers that were refused because too many were under way",
    ])

  /// Sentence with the most important counters of the verifier; nil if no wallet has connected.
  static func summary(_ verifier: [String: DBusValue]) -> String? {
    let counters = (verifier["Counters"]?.asDictionary ?? [:]).compactMapValues(\.asInteger)
    func count(_ names: String...) -> Int { names.reduce(0) { $0 + (counters[$1] ?? 0) } }
    let (visits, refused) = (count("Sessions"), count("Refused", "SilentLinks", "RefusedLinks"))
    guard visits + refused > 0 else { return nil }
    return
      "Since its start: \(visits == 1 ? "1 wallet" : "\(visits) wallets") served, \(count("Received")) credentials received, "
      + "\(count("Failed")) transfers failed, \(refused) links refused."
  }
}
