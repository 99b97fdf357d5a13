import HCI

/// The connection intervals that the kernel requests from peers, and uses for its own links (Default System Configuration).
///
/// As the peripheral the kernel requests another interval from a peer once, when the link has come up, if the peer's interval is out of
/// range. The request keeps the link's latency and supervision timeout; the defaults of these apply to links that this machine makes.
/// Facts: bluez.md section 13.
enum LinkIntervals: LentSetting {
  typealias Value = DefaultSystemConfiguration

  /// Minimum and maximum interval, in units of 1.25 ms.
  typealias Wish = ClosedRange<UInt16>

  /// Maximum supervision timeout, in units of 10 ms (Core 5.4 Vol 4 Part E 7.8.12).
  static let longestTimeout = 3200

  static let unknown = "it has no such setting"

  /// Converts an interval to units of 1.25 ms.
  static func units(_ interval: Duration) -> UInt16 {
    UInt16(clamping: interval.components.seconds * 800 + interval.components.attoseconds / 1_250_000_000_000_000)
  }

  /// Applies the requested intervals to `value`. The supervision timeout is increased if it is too short for the longest interval; the
  /// latency is not changed.
  static func wished(_ wish: Wish, from value: Value) -> Value? {
    guard value[.minimumInterval] != nil, value[.maximumInterval] != nil else { return nil }
    var value = value
    value[.minimumInterval] = wish.lowerBound
    value[.maximumInterval] = wish.upperBound
    // The timeout must exceed twice the longest time in which a peripheral may be silent. It is set to three times that
    // time.
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
