import Radio

/// What bluetoothd leaves out of an advertisement, in sentences for a person, with what to do.
struct ShortfallWords: Hashable, Sendable {
  /// bluetoothd's version; nil where it is not known.
  let version: BlueZVersion?
  /// Why there is no management socket, which leaves nothing out; nil where no configuration asks for it.
  let management: String?
  /// Whether messages to all may go as bluetoothd sends them.
  let isDegradable: Bool

  /// The first thing that bluetoothd leaves out; nil where the advertisement is whole.
  func shortfall(of advertisement: Advertisement) -> String? {
    guard advertisement.isConnectable else {
      return
        "Messages to all go out connectable, from the adapter's own address, with their text in scan responses\(reason)."
        + " \(remedy)."
    }
    if let version, version < BlueZLimit.scanResponses,
      advertisement.scanResponse.structures.contains(where: { !$0.isName })
    {
      return "BlueZ \(version) puts only names into scan responses\(reason). \(remedy),"
        + " or install BlueZ \(BlueZLimit.scanResponses) or newer."
    }
    let both = advertisement.data.structures + advertisement.scanResponse.structures
    if let odd = both.first(where: { !$0.canBeRegistered }) {
      return
        "bluetoothd has no way to advertise a structure of type 0x\(String(odd.type, radix: 16))\(reason). \(remedy)."
    }
    if both.contains(where: \.isName), RegisteredSlot.name(of: advertisement) == nil {
      return "bluetoothd puts a name into a scan response only, which is missing or has no room for it\(reason)."
        + " \(remedy)."
    }
    return nil
  }

  /// Why messages to all are not sent.
  var withheld: String {
    "bluetoothd cannot send messages to all as they are\(reason). \(remedy), or Degraded=yes in [Broadcast]."
  }

  /// What is missing of single packets where bluetoothd stands in.
  var packets: String { "Of single packets only what bluetoothd tells of is heard\(reason). \(remedy)." }

  /// Why single packets are not heard.
  var deafness: String {
    "bluetoothd does not tell of single packets\(reason). \(remedy), or Degraded=yes in [Broadcast]."
  }

  private var reason: String { management.map { " (\($0))" } ?? "" }
  private var remedy: String { KernelDoors.remedy("CAP_NET_ADMIN") }
}

extension AdvertisingStructure {
  fileprivate var isName: Bool {
    switch self {
    case .localName, .shortenedName: true
    default: false
    }
  }

  /// Whether `LEAdvertisement1` has a property for it. It shortens no name, and its `Data` takes no type that it has
  /// another property for.
  fileprivate var canBeRegistered: Bool {
    switch self {
    case .flags, .serviceUUIDs, .serviceData, .manufacturerData, .localName: true
    case .shortenedName: false
    case .other(let type, _): !RegisteredSlot.ownTypes.contains(type)
    }
  }
}
