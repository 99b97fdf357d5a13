import DBus
import Radio

extension DBusError {
  /// The error that makes bluetoothd answer a client with `error`.
  ///
  /// | ATT | D-Bus | from |
  /// | --- | --- | --- |
  /// | 0x03 | `NotPermitted` | all |
  /// | 0x07 | `InvalidOffset` | all |
  /// | 0x0D | `InvalidValueLength` | all |
  /// | 0x80…0x9F | `Failed`, the code as the whole message: `0x80` | where it is not understood yet, `Failed` is 0x80 |
  /// | others | a name that it does not know, which it makes 0x0E of (since 5.76, by mistake, 0xFD) | all |
  init(answering error: ATTError) {
    self =
      switch error {
      case .writeNotPermitted:
        DBusError(name: BlueZName.Failure.notPermitted, message: "This cannot be written.")
      case .invalidOffset:
        DBusError(name: BlueZName.Failure.invalidOffset, message: "Nothing can be written there.")
      case .invalidLength:
        DBusError(name: BlueZName.Failure.invalidValueLength, message: "The value has the wrong length.")
      case .busy:
        DBusError(name: BlueZName.Failure.failed, message: "0x" + String(error.rawValue, radix: 16))
      case .unlikely:
        DBusError(name: "org.bluez.Error.Unlikely", message: "The service does not take it.")
      case .insufficientResources:
        DBusError(name: "org.bluez.Error.InsufficientResources", message: "There is no room for it.")
      }
  }
}
