import Radio

/// Sentences for a person about the parts of an advertisement that bluetoothd omits, with what to do.
struct ShortfallWords: Hashable, Sendable {
  /// bluetoothd's version; nil if unknown.
  let version: BlueZVersion?
  /// Why there is no management socket; nil if no configuration requests it.
  let management: String?
  /// Whether public messages may be sent as bluetoothd alters them.
  let isDegradable: Bool

  /// The first part that bluetoothd omits; nil if the advertisement is complete.
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

  /// Why public messages are not sent.
  var withheld: String {
    "bluetoothd cannot send messages to all as they are\(reason). \(remedy), or Degraded=yes in [Broadcast]."
  }

  /// Which single packets are missing without the management socket.
  var packets: String { "Of single packets only what bluetoothd tells of is heard\(reason). \(remedy)." }

  /// Why single packets are not received.
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

  /// Whether `LEAdvertisement1` can express the structure. It does not support shortened names, and its `Data` refuses
  /// types that have their own properties.
  fileprivate var canBeRegistered: Bool {
    switch self {
    case .flags, .serviceUUIDs, .serviceData, .manufacturerData, .localName: true
    case .shortenedName: false
    case .other(let type, _): !RegisteredSlot.ownTypes.contains(type)
    }
  }
}
