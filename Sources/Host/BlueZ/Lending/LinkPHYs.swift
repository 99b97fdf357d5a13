import HCI

/// Whether new links may use LE 2M: PHY Configuration. Kernel 6.1 does not select it, 6.12 does. Facts: bluez.md section 13.
enum LinkPHYs: LentSetting {
  typealias Value = PHYConfiguration

  /// There is one wish.
  enum Wish: Hashable, Sendable { case le2M }

  static let unknown = "it has no such setting"

  /// A controller without LE 2M stays as it is.
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
