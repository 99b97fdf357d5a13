import DBus

/// D-Bus names of bluetoothd's objects, interfaces and errors.
enum BlueZName {
  static let service = "org.bluez"
  static let root: ObjectPath = "/org/bluez"
  /// The root of our objects, which bluetoothd calls.
  static let ownRoot: ObjectPath = "/org/earshot"

  static let adapter = "org.bluez.Adapter1"
  static let device = "org.bluez.Device1"
  static let gattManager = "org.bluez.GattManager1"
  static let advertisingManager = "org.bluez.LEAdvertisingManager1"
  static let gattService = "org.bluez.GattService1"
  static let gattCharacteristic = "org.bluez.GattCharacteristic1"
  static let advertisement = "org.bluez.LEAdvertisement1"
  static let profileManager = "org.bluez.ProfileManager1"
  static let profile = "org.bluez.Profile1"

  static let objectManager = "org.freedesktop.DBus.ObjectManager"
  static let properties = "org.freedesktop.DBus.Properties"
  static let peer = "org.freedesktop.DBus.Peer"

  /// Names of errors that bluetoothd returns, and of errors that it accepts.
  enum Failure {
    static let failed = "org.bluez.Error.Failed"
    static let inProgress = "org.bluez.Error.InProgress"
    static let alreadyExists = "org.bluez.Error.AlreadyExists"
    static let notPermitted = "org.bluez.Error.NotPermitted"
    static let notSupported = "org.bluez.Error.NotSupported"
    static let alreadyConnected = "org.bluez.Error.AlreadyConnected"
    static let notReady = "org.bluez.Error.NotReady"
    static let doesNotExist = "org.bluez.Error.DoesNotExist"
    static let invalidArguments = "org.bluez.Error.InvalidArguments"
    static let notConnected = "org.bluez.Error.NotConnected"
    static let invalidOffset = "org.bluez.Error.InvalidOffset"
    static let invalidValueLength = "org.bluez.Error.InvalidValueLength"
  }
}

extension String {
  /// Whether the text contains `part`, compared by bytes. `contains` and `split` with a text argument link the code for
  /// regular expressions, 0.8 MB.
  func holds(_ part: String) -> Bool {
    let (own, part) = (Array(utf8), Array(part.utf8))
    return own.indices.contains { own[$0...].starts(with: part) }
  }
}
