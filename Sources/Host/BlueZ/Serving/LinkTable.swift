import Common
import DBus
import Loop
import Radio

/// The links of the adapter that the delegate was told of, whoever made them: one entry and one number for a physical link.
@LoopActor
final class LinkTable {
  @LoopActor
  final class Entry {
    let id: LinkID
    let device: ObjectPath
    /// With which the peer came (see `BlueZRadio.address(of:)`).
    let address: BluetoothAddress
    /// When the link came up.
    let since: Instant
    /// Whether an attempt of ours was under way when the link came up.
    let isMadeHere: Bool
    /// The ATT MTU; nil until bluetoothd told it.
    var mtu: Int?
    /// Whether bluetoothd said that the peer is connected; until then there is only what the peer did.
    var isConfirmed: Bool
    /// Whether the kernel said that it has ended. bluetoothd says so a moment later, or not at all.
    var hasEnded = false
    /// When the kernel said that there is another link with the same peer; nil while it has not.
    var followedAt: Instant?
    /// Whether the peer used an application of ours.
    var isUsed = false
    /// Whether bluetoothd was asked to cut it.
    var isBeingCut = false
    /// How much may wait in its sockets.
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

  /// More links than any controller has.
  static let limit = 64

  private var entries: [ObjectPath: Entry] = [:]
  private var devices: [LinkID: ObjectPath] = [:]
  private static var lastNumber: UInt64 = 0

  /// A number that no link had before, in this process.
  static func newID() -> LinkID {
    lastNumber += 1
    return LinkID(lastNumber)
  }

  subscript(device: ObjectPath) -> Entry? { entries[device] }

  subscript(id: LinkID) -> Entry? { devices[id].flatMap { entries[$0] } }

  var count: Int { entries.count }

  /// All links, the oldest number first.
  var all: [Entry] { entries.values.sorted { $0.id.number < $1.id.number } }

  /// A link that is as wanted.
  func first(where isWanted: @LoopActor (Entry) -> Bool) -> Entry? {
    entries.values.first { isWanted($0) }  // Swift 6.0 takes the function itself for one that can throw.
  }

  /// Enters a link.
  ///
  /// - Parameter id: the number that was promised for the link; nil for a new one.
  /// - Returns: nil where the peer has an entry already, and where there are too many.
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

  /// Takes a link out.
  func close(_ device: ObjectPath) -> Entry? {
    guard let entry = entries.removeValue(forKey: device) else { return nil }
    devices[entry.id] = nil
    return entry
  }
}
