import Common
import DBus
import Radio

extension DBusError {
  /// Whether the error means that the called object no longer exists, because the peer was removed, or its database
  /// was read again.
  var isOfGoneObject: Bool { self.is(.unknownObject) || self.is(.unknownMethod) }

  /// The D-Bus error that makes bluetoothd answer a client with `error`.
  ///
  /// | ATT | D-Bus | from |
  /// | --- | --- | --- |
  /// | 0x03 | `NotPermitted` | all |
  /// | 0x07 | `InvalidOffset` | all |
  /// | 0x0D | `InvalidValueLength` | all |
  /// | 0x80…0x9F | `Failed`, with the code as the whole message: `0x80` | older versions send `Failed` as 0x80 |
  /// | others | an unknown name, which becomes 0x0E (since 5.76, by mistake, 0xFD) | all |
  init(answering error: ATTError) {
    self =
      switch error {
      case .writeNotPermitted:
        DBusError(name: BlueZName.Failure.notPermitted, message: "The characteristic cannot be written.")
      case .invalidOffset:
        DBusError(name: BlueZName.Failure.invalidOffset, message: "A write at this offset is not possible.")
      case .invalidLength:
        DBusError(name: BlueZName.Failure.invalidValueLength, message: "The value has the wrong length.")
      case .busy, .noCapacity:
        DBusError(name: BlueZName.Failure.failed, message: "0x" + String(error.rawValue, radix: 16))
      case .unlikely:
        DBusError(name: "org.bluez.Error.Unlikely", message: "The service does not accept the write.")
      case .insufficientResources:
        DBusError(name: "org.bluez.Error.InsufficientResources", message: "The service has no capacity for the write.")
      }
  }
}

extension ATTError {
  /// The ATT error of the peer in bluetoothd's answer to a write; `unlikely` if the answer is unknown.
  ///
  /// | D-Bus | ATT |
  /// | --- | --- |
  /// | `NotPermitted`, "Write not permitted" | 0x03 |
  /// | `InvalidArguments`, "Invalid offset" | 0x07 |
  /// | `InvalidArguments`, "Invalid Length" | 0x0D |
  /// | `Failed`, "Operation failed with ATT error: 0x80" | 0x80 |
  /// | the bus's own `LimitsExceeded` | 0x11 |
  init(answeredWith error: DBusError) {
    let words = error.message.lowercased()
    self =
      switch error.name {
      case BlueZName.Failure.notPermitted: .writeNotPermitted
      case BlueZName.Failure.invalidArguments where words.hasSuffix("invalid offset"): .invalidOffset
      case BlueZName.Failure.invalidArguments where words.hasSuffix("invalid length"): .invalidLength
      case BlueZName.Failure.failed: Self.code(in: words).flatMap { ATTError(rawValue: $0) } ?? .unlikely
      case "org.freedesktop.DBus.Error.LimitsExceeded": .insufficientResources
      default: error.is(.limitExceeded) ? .insufficientResources : .unlikely
      }
  }

  /// Returns the hexadecimal number behind `att error: 0x` in the message of a D-Bus error.
  static func code(in words: String) -> UInt8? {
    let bytes = Array(words.utf8)
    let mark = bytes.indices.dropFirst().last { bytes[$0 - 1] == UInt8(ascii: "0") && bytes[$0] == UInt8(ascii: "x") }
    guard let mark, words.holds("att error"), bytes.count - mark <= 3 else { return nil }
    return UInt8(digits: String(decoding: bytes[(mark + 1)...], as: UTF8.self), radix: 16)
  }
}

extension ATT {
  /// Converts a D-Bus value to an ATT MTU; nil if it is out of range.
  static func mtu(_ value: DBusValue) -> Int? {
    value.asInteger.flatMap { firstMTU <= $0 && $0 <= 0xFFFF ? $0 : nil }
  }
}

extension GATTCharacteristic.Properties {
  /// Names of the properties in `Flags` of bluetoothd's `GattCharacteristic1`.
  private static let names: [(Self, String)] = [
    (.read, "read"), (.writeWithoutResponse, "write-without-response"), (.write, "write"), (.notify, "notify"),
    (.indicate, "indicate"),
  ]

  var flags: [String] {
    Self.names.filter { contains($0.0) }.map(\.1)
  }

  /// Converts the known flags of a peer's characteristic.
  init(flags: [String]) {
    self.init(Self.names.filter { flags.contains($0.1) }.map(\.0))
  }
}
