import Common
import DBus
import Loop
import Radio

/// The peers that are connected to us as clients, each with the number that the services know it by.
@LoopActor
final class LinkTable {
  struct Entry: Hashable, Sendable {
    let id: LinkID
    let device: ObjectPath
    let address: BluetoothAddress
    /// The ATT MTU; nil until a write told it.
    var mtu: Int?
    /// Whether bluetoothd said that the peer is connected; until then there is only its write.
    var isConfirmed: Bool
    /// Whether it wrote to us, and so is a client of ours for certain.
    var hasWritten = false
  }

  /// What is agreed on as long as nothing else is, Core 5.4 Vol 3 Part G 5.2.1.
  static let leastMTU = 23
  /// More clients than any controller has links.
  static let limit = 64

  private var entries: [ObjectPath: Entry] = [:]
  private static var lastNumber: UInt64 = 0

  /// A number for a link, of either side.
  static func newID() -> LinkID {
    lastNumber += 1
    return LinkID(lastNumber)
  }

  subscript(device: ObjectPath) -> Entry? { entries[device] }

  subscript(id: LinkID) -> Entry? { entries.values.first { $0.id == id } }

  /// All of them, the oldest first.
  var all: [Entry] { entries.values.sorted { $0.id.number < $1.id.number } }

  /// A new link for a peer that has none; nil when there are too many.
  func open(_ device: Device, isConfirmed: Bool) -> Entry? {
    guard entries[device.path] == nil, entries.count < Self.limit else { return nil }
    let entry = Entry(
      id: Self.newID(), device: device.path, address: device.address, isConfirmed: isConfirmed)
    entries[device.path] = entry
    return entry
  }

  func noteWrite(_ device: ObjectPath) {
    entries[device]?.hasWritten = true
  }

  func confirm(_ device: ObjectPath) {
    entries[device]?.isConfirmed = true
  }

  /// - Returns: whether that is news.
  func setMTU(_ mtu: Int, of device: ObjectPath) -> Bool {
    guard let entry = entries[device], entry.mtu != mtu else { return false }
    entries[device]?.mtu = mtu
    return true
  }

  func close(_ device: ObjectPath) -> Entry? {
    entries.removeValue(forKey: device)
  }
}
