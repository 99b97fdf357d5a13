import Common
import DBus
import Loop
import Radio

/// The links of the adapter that were reported to the delegate, in either role: one entry and one number for each physical link.
@LoopActor
final class LinkTable {
  @LoopActor
  final class Entry {
    let id: LinkID
    let device: ObjectPath
    /// The peer's address when it connected (see `BlueZRadio.address(of:)`).
    let address: BluetoothAddress
    /// When the link came up.
    let since: Instant
    /// Whether an attempt of ours was under way when the link came up.
    let isMadeHere: Bool
    /// The ATT MTU; nil until bluetoothd has reported it.
    var mtu: Int?
    /// Whether bluetoothd has reported the peer as connected; before that, only the peer's actions show the link.
    var isConfirmed: Bool
    /// Whether the kernel has reported the end of the link. bluetoothd reports it a moment later, or not at all.
    var hasEnded = false
    /// When the kernel reported the next link with the same peer; nil if it has not.
    var followedAt: Instant?
    /// Whether the peer has used an application of ours.
    var isUsed = false
    /// Whether bluetoothd was asked to end the link.
    var isBeingCut = false
    /// The limit of bytes that wait in the link's sockets.
    var backlog = Backlog.short

    fileprivate init(_ id: LinkID, _ device: Device, since: Instant, isMadeHere: Bool, isConfirmed: Bool) {
      self.id = id
      self.device = device.path
      address = device.address
      self.since = since
      self.isMadeHere = isMadeHere
      self.isConfirmed = isConfirmed
    }
  }

  /// Maximum links, more than any controller supports.
  static let limit = 64

  private var entries: [ObjectPath: Entry] = [:]
  private var devices: [LinkID: ObjectPath] = [:]
  private static var lastNumber: UInt64 = 0

  /// A link number that is unique in this process.
  static func newID() -> LinkID {
    lastNumber += 1
    return LinkID(lastNumber)
  }

  subscript(device: ObjectPath) -> Entry? { entries[device] }

  subscript(id: LinkID) -> Entry? { devices[id].flatMap { entries[$0] } }

  var count: Int { entries.count }

  /// All links, in the order of their numbers.
  var all: [Entry] { entries.values.sorted { $0.id.number < $1.id.number } }

  /// Any link for which `isWanted` returns true.
  func first(where isWanted: @LoopActor (Entry) -> Bool) -> Entry? {
    entries.values.first { isWanted($0) }  // Swift 6.0 treats the function itself as throwing.
  }

  /// Adds a link.
  ///
  /// - Parameter id: the number that was assigned to the link before; nil for a new one.
  /// - Returns: nil if the peer already has an entry, or if the table is full.
  func open(
    _ device: Device, as id: LinkID? = nil, since: Instant, isMadeHere: Bool, isConfirmed: Bool
  ) -> Entry? {
    guard entries[device.path] == nil, entries.count < Self.limit else { return nil }
    let entry = Entry(
      id ?? Self.newID(), device, since: since, isMadeHere: isMadeHere, isConfirmed: isConfirmed)
    entries[device.path] = entry
    devices[entry.id] = device.path
    return entry
  }

  /// Removes a link.
  func close(_ device: ObjectPath) -> Entry? {
    guard let entry = entries.removeValue(forKey: device) else { return nil }
    devices[entry.id] = nil
    return entry
  }
}
