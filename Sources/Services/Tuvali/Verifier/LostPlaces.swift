import Common
import Radio

/// The peers whose visits have failed lately. Nobody gives way to them: else whoever holds places and makes no use of them
/// would take them from himself again and again, and each time use up the QR code that a visitor is about to read.
///
/// Of more peers than `limit` the one that failed first is forgotten.
struct LostPlaces {
  static let memory = Duration.seconds(300)
  static let limit = 256

  private var failures: [BluetoothAddress: Instant] = [:]

  /// How many peers are remembered, those included whose time is over.
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
