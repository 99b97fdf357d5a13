import Bitchat
import BitchatWire
import Common
import Loop
import Radio

/// Link of the mesh at the radio: as GATT client of the peer, as its server, or both. Its queue holds waiting packets.
@LoopActor
final class MeshPort {
  let id: LinkID
  let address: BluetoothAddress
  /// Time since which the link has its slot.
  let since: Instant
  /// This node's GATT client on the link; nil if the peer initiated it and is not used as a server.
  var client: (any Link)?
  /// Whether this node initiated the link.
  var isOurs = false
  /// GATT client on an incoming link, while its peer's services are discovered.
  var exploring: (any Link)?
  /// Whether the peer has subscribed, so that it can be notified.
  var isSubscribed = false
  /// Whether the peer uses this node's GATT application.
  var isServed = false
  /// Whether the client has discovered the peer's characteristic and subscribed to it.
  var isClientReady = false
  var mtu = ATT.firstMTU
  /// Longest frame, in bytes, that arrives completely when it is written to the peer.
  var writeLimit = ATT.valueLimit
  var queue = LinkQueue()
  /// How many packets for this link may wait in the radio.
  var backlog = Backlog.short
  /// Frame that is being written, and the number of attempts to write it.
  var writing: (frame: [UInt8], attempts: Int)?
  /// Whether a write is under way, or the radio has no buffer space.
  var isBusy = false
  /// Whether the engine will be notified of the number of queued file packets in this loop iteration.
  var isRoomToBeTold = false
  /// Whether the engine knows the link.
  var isOpen = false
  /// Whether the mesh has cut the link, and ignores it. bluetoothd takes some two seconds to end it.
  var isCut = false
  /// Maximum frame as last reported to the engine, in bytes.
  var frameLimit = 0
  /// Timer that gives a new subscriber time before the first notification.
  var opening: Registration?
  var peer: PeerID?
  /// Whether any peer has announced itself over the link so far.
  var isMet = false

  init(_ id: LinkID, _ address: BluetoothAddress, since: Instant = .zero) {
    self.id = id
    self.address = address
    self.since = since
  }
}

/// Frames that links received while another link was notified, on a radio that cannot notify clients individually.
struct OverheardFrames {
  /// Time for which a reception is remembered. Meanwhile the frame becomes due on the other links, whose fragments
  /// are paced separately. A frame that is sent again later is not suppressed.
  static let lifetime = Duration.seconds(1)
  static let limit = 256

  private struct Entry {
    let frame: [UInt8]
    var links: Set<LinkID>
    let end: Instant
  }

  /// Frames that were received lately, in the order in which they are forgotten.
  private var entries: [Entry] = []

  mutating func note(_ frame: [UInt8], on links: [LinkID], at now: Instant) {
    entries.removeAll { $0.end <= now }
    guard !links.isEmpty else { return }
    if entries.count >= Self.limit { entries.removeFirst() }
    entries.append(Entry(frame: frame, links: Set(links), end: now.advanced(by: Self.lifetime)))
  }

  /// Whether a link has already received a frame that is now due on it. Each reception counts once.
  mutating func take(_ frame: [UInt8], on link: LinkID, at now: Instant) -> Bool {
    let place = entries.firstIndex { $0.end > now && $0.links.contains(link) && $0.frame == frame }
    guard let place else { return false }
    entries[place].links.remove(link)
    return true
  }
}
