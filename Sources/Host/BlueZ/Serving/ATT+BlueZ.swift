import DBus
import Radio

extension ATT {
  /// An ATT MTU, if the value can be one.
  static func mtu(_ value: DBusValue) -> Int? {
    value.asInteger.flatMap { firstMTU <= $0 && $0 <= 0xFFFF ? $0 : nil }
  }
}
