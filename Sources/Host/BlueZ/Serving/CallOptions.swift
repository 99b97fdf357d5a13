import Common
import DBus
import Radio

/// The options that bluetoothd gives with a call of a characteristic: what it says of the client and of the value.
///
/// | option | type | |
/// | --- | --- | --- |
/// | `device` | o | the client |
/// | `mtu` | q | the ATT MTU of its link |
/// | `offset` | q | where in the value it reads or writes; left out for 0 |
/// | `prepare-authorize` | b | the call only asks whether a prepared write may follow |
struct CallOptions: Sendable {
  var device: ObjectPath?
  var mtu: Int?
  /// Nil where the option is no number that an offset can be.
  var offset: Int? = 0
  var isQuestion = false
  /// Options that were not of their type.
  var malformed: UInt64 = 0

  /// Reads `a{sv}` in one pass; of two entries with one key the last counts.
  init(_ options: DBusValue?) {
    guard case .dictionary(_, _, let entries)? = options else { return }
    for entry in entries {
      guard case .string(let key) = entry.key else { continue }
      switch key {
      case "device": device = entry.value.asObjectPath
      case "mtu":
        mtu = ATT.mtu(entry.value)
        if mtu == nil { malformed += 1 }
      case "offset": offset = entry.value.asInteger.flatMap { $0 >= 0 ? $0 : nil }
      case "prepare-authorize": isQuestion = entry.value.asBool == true
      default: break
      }
    }
  }
}

extension ATT {
  /// An ATT MTU, if the value can be one.
  static func mtu(_ value: DBusValue) -> Int? {
    value.asInteger.flatMap { firstMTU <= $0 && $0 <= 0xFFFF ? $0 : nil }
  }
}
