import Common
import DBus
import Radio
import Testing

@testable import BlueZ

@Suite("Reading a peer's services from bluetoothd's objects")
struct RemoteDatabaseTests {
  private static let device: ObjectPath = "/org/bluez/hci0/dev_00_AA_03_00_00_01"

  private static func object(_ interface: String, _ properties: [String: DBusValue]) -> DBusValue {
    .dictionary(
      key: "s", value: "a{sv}", [DBusEntry(.string(interface), .options(properties))])
  }

  private static func service(_ uuid: String) -> DBusValue {
    object("org.bluez.GattService1", ["UUID": .string(uuid), "Primary": .bool(true)])
  }

  private static func characteristic(
    _ uuid: String, of service: String, _ flags: [String] = ["write"], mtu: DBusValue? = .uint16(517)
  ) -> DBusValue {
    var properties: [String: DBusValue] = [
      "UUID": .string(uuid), "Service": .objectPath(device.child(service)), "Flags": .strings(flags),
    ]
    properties["MTU"] = mtu
    return object("org.bluez.GattCharacteristic1", properties)
  }

  private static func database(_ objects: [String: DBusValue]) -> RemoteDatabase {
    RemoteDatabase(
      Dictionary(uniqueKeysWithValues: objects.map { ("\(device.string)/\($0.key)", $0.value) }), of: device)
  }

  private static let fe = (1...4).map { BluetoothUUID(short: 0xFE00 + $0).description }

  @Test("A peer's services and characteristics are read in handle order, with properties, object paths and MTU")
  func whole() {
    let database = Self.database([
      "service0020": Self.service(Self.fe[1]),
      "service0010": Self.service(Self.fe[0]),
      "service0010/char0013": Self.characteristic(Self.fe[3], of: "service0010", ["notify", "indicate", "authorize"]),
      "service0010/char0011": Self.characteristic(
        Self.fe[2], of: "service0010", ["read", "write", "write-without-response"]),
      "service0010/char0013/desc0014": Self.object("org.bluez.GattDescriptor1", [:]),
      "service0020/char0021": Self.characteristic(Self.fe[2], of: "service0020"),
    ])
    let uuids = Self.fe.compactMap { BluetoothUUID($0) }
    #expect(
      database.services == [
        GATTService(
          uuid: uuids[0],
          characteristics: [
            GATTCharacteristic(uuid: uuids[2], properties: [.read, .write, .writeWithoutResponse]),
            GATTCharacteristic(uuid: uuids[3], properties: [.notify, .indicate]),
          ]),
        GATTService(uuid: uuids[1], characteristics: [GATTCharacteristic(uuid: uuids[2], properties: [.write])]),
      ])
    #expect(
      database.paths[CharacteristicID(service: uuids[1], characteristic: uuids[2])]
        == Self.device.child("service0020").child("char0021"))
    #expect(database.paths.count == 3)
    #expect(database.mtu == 517)
    #expect(database.malformed == 0)
  }

  @Test("Objects of another device with a similar D-Bus path are ignored")
  func others() {
    let objects = ["\(Self.device.string)0/service0010": Self.service(Self.fe[0])]
    #expect(RemoteDatabase(objects, of: Self.device).services.isEmpty)
  }

  @Test("If a peer has two characteristics with the same UUIDs, the first is used")
  func double() {
    let database = Self.database([
      "service0010": Self.service(Self.fe[0]), "service0020": Self.service(Self.fe[0]),
      "service0010/char0011": Self.characteristic(Self.fe[1], of: "service0010"),
      "service0020/char0021": Self.characteristic(Self.fe[1], of: "service0020"),
    ])
    #expect(database.services.count == 2)
    #expect(database.paths.values.map(\.lastElement) == ["char0011"])
  }

  @Test("A peer's malformed service objects are counted and left out")
  func malformed() {
    let database = Self.database([
      "service0010": Self.service(Self.fe[0]), "service0020": Self.service("not a UUID"),
      "service0030": .uint32(1),
      "service0010/char0011": Self.characteristic("FE", of: "service0010"),
      "service0010/char0012": Self.characteristic(Self.fe[1], of: "service0010", mtu: .uint16(22)),
      "service0010/char0013": Self.characteristic(Self.fe[2], of: "service0010", mtu: .string("large")),
      "service0010/char0014": Self.object("org.bluez.GattCharacteristic1", ["UUID": .uint32(7)]),
      "service0020/char0021": Self.characteristic(Self.fe[1], of: "service0020"),
    ])
    #expect(database.services.map(\.characteristics.count) == [2])
    #expect(database.malformed == 5)
    #expect(database.mtu == nil)
  }

  @Test("Of an excessive number of a peer's service objects, only those within the limits are read")
  func bounded() {
    var objects: [String: DBusValue] = [:]
    for number in 0..<200 { objects["service\(1000 + number)"] = Self.service(Self.fe[0]) }
    for number in 0..<2000 {
      objects["service1000/char\(1000 + number)"] = Self.characteristic(Self.fe[1], of: "service1000")
    }
    let database = Self.database(objects)
    #expect(database.services.count == RemoteDatabase.serviceLimit)
    #expect(database.services.first?.characteristics.count == RemoteDatabase.characteristicLimit)
  }

  struct Answer: Sendable {
    var name: String
    var message: String
    var error: ATTError
  }

  private static let answers = [
    Answer(name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x80", error: .busy),
    Answer(
      name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x11", error: .insufficientResources),
    Answer(name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x99", error: .unlikely),
    Answer(name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x180", error: .unlikely),
    Answer(name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x+1", error: .unlikely),
    Answer(name: "org.bluez.Error.Failed", message: "Not connected", error: .unlikely),
    Answer(name: "org.bluez.Error.Failed", message: "0x80", error: .unlikely),
    Answer(name: "org.bluez.Error.NotPermitted", message: "Write not permitted", error: .writeNotPermitted),
    Answer(name: "org.bluez.Error.InvalidArguments", message: "Invalid Length", error: .invalidLength),
    Answer(name: "org.bluez.Error.InvalidArguments", message: "Invalid offset", error: .invalidOffset),
    Answer(name: "org.bluez.Error.InvalidArguments", message: "Invalid arguments in method call", error: .unlikely),
    Answer(name: "org.freedesktop.DBus.Error.LimitsExceeded", message: "no", error: .insufficientResources),
    Answer(name: "org.freedesktop.DBus.Error.UnknownObject", message: "", error: .unlikely),
  ]

  @Test("Each error of bluetoothd for a write is mapped to an ATT error", arguments: answers)
  func refusals(answer: Answer) {
    #expect(ATTError(answeredWith: DBusError(name: answer.name, message: answer.message)) == answer.error)
  }
}
