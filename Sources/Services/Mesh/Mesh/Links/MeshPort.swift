import Bitchat
import Common
import Loop
import Radio

/// A link of the mesh as the radio has it: as a client of the peer, as its server, or both over one link. What waits for it
/// stands in its queue.
@LoopActor
final class MeshPort {
  let id: LinkID
  let address: BluetoothAddress
  /// Since when the link has its place.
  let since: Instant
  /// Our end as the client of the peer; nil where the peer has made the link and is not used as a server.
  var client: (any Link)?
  /// Whether this node has made the link.
  var isOurs = false
  /// Our end as the client of a peer that has made the link, while it is found out whether the peer can be one's server.
  var exploring: (any Link)?
  /// Whether the peer has subscribed at this node, so that it can be notified.
  var isSubscribed = false
  /// Whether the peer uses this node's application.
  var isServed = false
  /// The client's end has found the peer's characteristic and subscribed to it.
  var isClientReady = false
  var mtu = ATT.firstMTU
  /// Bytes of the longest frame that arrives whole when it is written to the peer.
  var writeLimit = ATT.valueLimit
  var queue = LinkQueue()
  /// How much of what the radio has taken may wait there.
  var backlog = Backlog.short
  /// What is being written, and how often it was tried.
  var writing: (frame: [UInt8], attempts: Int)?
  /// A write is under way, or the radio has no room.
  var isBusy = false
  /// Whether the engine will be told of the room for packets of files.
  var isRoomToBeTold = false
  /// Whether the engine knows of the link.
  var isOpen = false
  /// The mesh is done with the link, and says and hears nothing more over it. bluetoothd takes some two seconds to end it.
  var isCut = false
  /// The longest frame that the engine was told of.
  var frameLimit = 0
  /// While a client that has subscribed is given the time to listen.
  var opening: Registration?
  var peer: PeerID?
  /// Whether a peer has ever said over the link who it is.
  var isMet = false

  init(_ id: LinkID, _ address: BluetoothAddress, since: Instant = .zero) {
    self.id = id
    self.address = address
    self.since = since
  }
}
