import DBus
import Loop
import Radio

/// A method of advertising: the kernel's management socket (`ManagedAdvertising`) or bluetoothd
/// (`RegisteredAdvertising`). An advertisement stays active while an adapter is available.
@LoopActor
protocol AdvertisingWay: AnyObject {
  /// Maximum advertisements at the same time, at least 1.
  var slots: Int { get }
  /// Number of active advertisements of other programs.
  var foreign: Int { get }
  /// The reason why an advertisement is not active, and what to do; nil if all are active, or about to be.
  var problem: String? { get }
  /// The part that is missing from an active advertisement, and what to do; nil if all are complete.
  var shortfall: String? { get }

  /// Sets the advertisement of a slot; nil empties the slot.
  func show(_ advertisement: Advertisement?, in slot: Int)
  /// Moves all advertisements to the adapter at `place`; without an adapter (nil) they stop.
  func aim(at place: Place?)
  /// Restarts all connectable advertisements. A new link may have ended one of them, and the controller does not
  /// report which.
  func renew()
  /// Handles new properties of the adapter in use.
  func adapterChanged(_ adapter: Adapter)
  /// Whether this object exported the D-Bus object at `path`.
  func owns(_ path: ObjectPath) -> Bool
}

/// Sentences for a person about the parts of an advertisement that bluetoothd omits, with what to do.
struct ShortfallWords: Hashable, Sendable {
  /// bluetoothd's version; nil if unknown.
  let version: BlueZVersion?
  /// The reason why the management socket cannot be opened; nil if it is open, or not configured.
  let management: String?
  /// Whether an advertisement that is not connectable may be sent although bluetoothd alters it.
  let isDegradable: Bool

  /// The first part that bluetoothd omits; nil if the advertisement is complete.
  func shortfall(of advertisement: Advertisement) -> String? {
    guard advertisement.isConnectable else {
      return
        "bluetoothd sends non-connectable advertisements as connectable, with text in scan responses\(reason)."
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
        "bluetoothd cannot advertise a structure of type 0x\(String(odd.type, radix: 16))\(reason). \(remedy)."
    }
    if both.contains(where: \.isName), RegisteredSlot.name(of: advertisement) == nil {
      return "bluetoothd puts a name only into the scan response, which is missing or full\(reason)."
        + " \(remedy)."
    }
    return nil
  }

  /// The reason why bluetoothd sends no advertisements that are not connectable.
  var withheld: String {
    "No non-connectable advertisement is sent: bluetoothd alters it\(reason)."
      + " \(remedy), or Degraded=yes in [Broadcast]."
  }

  /// The reason why only some packets are reported one by one without the management socket.
  var packets: String { "bluetoothd reports only changes of advertisements, not each packet\(reason). \(remedy)." }

  /// The reason why no packets are reported one by one.
  var deafness: String {
    "bluetoothd does not report single packets\(reason). \(remedy), or Degraded=yes in [Broadcast]."
  }

  private var reason: String { management.map { " (\($0))" } ?? "" }
  private var remedy: String { KernelChannels.remedy("CAP_NET_ADMIN") }
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
