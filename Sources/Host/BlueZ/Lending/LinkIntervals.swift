import HCI

/// The connection intervals that the kernel asks peers for, and uses for links of its own: Default System Configuration.
///
/// As the peripheral the kernel asks a peer whose interval lies outside for another one, once, when the link has come up. Latency and
/// supervision timeout of that request are those that the link has already; the defaults are for links that this machine makes.
/// Facts: bluez.md section 13.
enum LinkIntervals: LentSetting {
  typealias Value = DefaultSystemConfiguration

  /// Shortest and longest interval, in 1.25 ms.
  typealias Wish = ClosedRange<UInt16>

  /// Core 5.4 Vol 4 Part E 7.8.12; in 10 ms.
  static let longestTimeout = 3200

  static let unknown = "it has no such setting"

  /// In 1.25 ms.
  static func units(_ interval: Duration) -> UInt16 {
    UInt16(clamping: interval.components.seconds * 800 + interval.components.attoseconds / 1_250_000_000_000_000)
  }

  /// The intervals as wished; a longer timeout where links that this machine makes could not have such intervals with the one
  /// that is there. Latency stays.
  static func wished(_ wish: Wish, from value: Value) -> Value? {
    guard value[.minimumInterval] != nil, value[.maximumInterval] != nil else { return nil }
    var value = value
    value[.minimumInterval] = wish.lowerBound
    value[.maximumInterval] = wish.upperBound
    // A timeout is more than two of the longest intervals in which a peripheral may say nothing. It gets three.
    let silence = Int(wish.upperBound) * (1 + Int(value[.latency] ?? 0))
    if let timeout = value[.supervisionTimeout], Int(timeout) * 4 <= silence {
      value[.supervisionTimeout] = UInt16(min(silence * 3 / 8 + 1, longestTimeout))
    }
    return value
  }

  static func withoutUs(_ value: Value, written: Value, original: Value) -> Value {
    var result = value
    for (parameter, ours) in written.values where value[parameter] == ours {
      result[parameter] = original[parameter] ?? ours
    }
    return result
  }
}
