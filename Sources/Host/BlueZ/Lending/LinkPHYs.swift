import HCI

/// LE 2M for new links (PHY Configuration). Kernel 6.1 does not select it, 6.12 does. Facts: bluez.md section 13.
enum LinkPHYs: LentSetting {
  typealias Value = PHYConfiguration

  /// The only request is LE 2M.
  enum Wish: Hashable, Sendable { case le2M }

  static let unknown = "it has no such setting"

  /// Adds LE 2M; a controller without it is not changed.
  static func wished(_ wish: Wish, from value: Value) -> Value? {
    guard value.supported.isSuperset(of: .le2M) else { return value }
    var value = value
    value.selected.formUnion(.le2M)
    return value
  }

  static func withoutUs(_ value: Value, written: Value, original: Value) -> Value {
    var value = value
    value.selected.subtract(written.selected.subtracting(original.selected))
    return value
  }
}
