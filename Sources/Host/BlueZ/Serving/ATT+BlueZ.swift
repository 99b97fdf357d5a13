import DBus
import Radio

extension ATT {
  /// Converts a D-Bus value to an ATT MTU; nil if it is out of range.
  static func mtu(_ value: DBusValue) -> Int? {
    value.asInteger.flatMap { firstMTU <= $0 && $0 <= 0xFFFF ? $0 : nil }
  }
}
