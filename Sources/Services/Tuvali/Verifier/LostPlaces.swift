import Common
import Radio

/// Peers whose sessions have failed lately. Other sessions are not evicted for them. Otherwise an attacker that holds
/// unused slots could evict its own sessions repeatedly, and each time invalidate the QR code that another person is
/// about to scan.
///
/// At `limit` peers, the oldest entry is dropped.
struct LostPlaces {
  static let memory = Duration.seconds(300)
  static let limit = 256

  private var failures: [BluetoothAddress: Instant] = [:]

  /// Number of stored peers, including expired entries.
  var count: Int { failures.count }

  mutating func note(_ peer: BluetoothAddress, at now: Instant) {
    failures[peer] = now
    guard failures.count > Self.limit, let first = failures.min(by: { $0.value < $1.value }) else { return }
    failures[first.key] = nil
  }

  func contains(_ peer: BluetoothAddress, at now: Instant) -> Bool {
    failures[peer].map { now < $0.advanced(by: Self.memory) } ?? false
  }
}
