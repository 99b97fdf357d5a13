import Common
import Crypto

extension MeshEngine {
  /// Input of the engine.
  public enum Event: Sendable {
    case start
    /// The node leaves the mesh and sends a leave.
    case stop
    /// Whether this machine's clock is known to be right: later than the build date, and synchronised.
    case clock(isTrusted: Bool)
    /// This machine's clock was set: earlier comparisons with neighbours' clocks are void.
    case clockSet
    /// A link to a peer that takes part in the mesh is up.
    ///
    /// - Parameters:
    ///   - frameLimit: maximum length of one write or notification, in bytes.
    ///   - isOurs: whether this node initiated the link.
    ///   - from: device at the other end; nil if unknown. Limits are shared among devices.
    case linkOpened(LinkID, frameLimit: Int, isOurs: Bool, from: DeviceOrigin? = nil)
    case linkChanged(LinkID, frameLimit: Int)
    case linkClosed(LinkID)
    /// One received write or notification.
    case received([UInt8], on: LinkID)
    /// Requests an immediate announce.
    case announce
    /// The service has stored a private message or notice. The sender gets an acknowledgement.
    case kept(MessageID, from: PeerID)
    /// The service has no capacity for a private message or notice. It is reported again when the sender repeats it.
    case notTaken(MessageID, from: PeerID)
    /// The user has read a private message.
    case read(MessageID, from: PeerID)
    case favourite(PeerID, Bool)
    /// Blocks or unblocks a peer. Messages of a blocked peer are not reported, and its private ones are neither
    /// accepted nor answered. It remains a peer: its announces and links count, and `Action.peer` and `Action.bound`
    /// name it.
    case block(PeerID, Bool)
    /// The user has verified the peer's fingerprint, or revokes that. The fingerprint covers the Noise key only. A peer
    /// that has not proven its signing key is therefore asked to: `Action.proof`.
    case verified(PeerID, Bool)
    /// Removes a peer and its pinned key.
    case forget(PeerID)
    /// The service has stored a private file. The sender gets an acknowledgement. Before that, each copy is reported.
    case fileKept(MessageID, from: PeerID)
    /// Cancels a file of this node. No fragment of it is sent afterwards.
    case cancelFile(UInt32)
    /// A different service needs the radio, or no longer does. Meanwhile no file is sent or requested.
    case quiet(Bool)
    /// A link has sent packets of files; `waiting` packets are still queued.
    case room(LinkID, waiting: Int)
    /// The time of `deadline` has come.
    case timer
  }

  /// Output of the engine.
  public enum Action: Hashable, Sendable {
    /// Send one packet over a link, as one write or notification.
    case send([UInt8], on: LinkID, PacketClass)
    /// Disconnect the link.
    case cut(LinkID, CutReason)
    /// The link now belongs to this peer.
    case bound(LinkID, PeerID)
    /// A peer is new or has changed.
    case peer(PeerID)
    /// A peer has left or timed out.
    case gone(PeerID)
    /// A public message was received. `isLate` is true if it was received in answer to a sync request.
    case heard(PublicMessage)
    /// A private message was received. `Event.kept` acknowledges it.
    case told(PrivateMessage, from: PeerID, at: UInt64)
    /// A message or notice was received again. `Event.kept` is due again, if it is stored.
    case toldAgain(MessageID, from: PeerID)
    /// A peer has added or removed this node as favourite. `Event.kept` with this ID acknowledges the notice; after
    /// `Event.notTaken` it is reported again.
    case favourited(PeerID, FavoriteNotice, MessageID)
    /// A public or private file was received. `Event.fileKept` with its receipt acknowledges a private one.
    case file(ReceivedFile)
    /// Progress of an incoming file. `file` with the same `FragmentSetID`, or `arrivalEnded`, follows.
    case arriving(ArrivingFile)
    /// The node no longer waits for fragments of a file: the file has arrived, was refused, or was abandoned. `file`,
    /// if any, comes before.
    case arrivalEnded(FragmentSetID)
    /// State of a file of this node.
    case fileState(UInt32, FileState)
    /// Sent part of a file of this node, in percent.
    case fileProgress(UInt32, percent: Int)
    /// Remove the packets of a file from the queues of all links.
    case withdraw(FilePackets)
    /// Answer to a ping, with round-trip time and number of hops.
    case pong(UInt32, milliseconds: UInt32, hops: Int)
    /// A ping was not answered within 10 s.
    case pingLost(UInt32)
    /// State of a message of this node.
    case progress(UInt32, MessageState)
    /// Corrected creation time of a message of this node, in milliseconds since 1970.
    case dated(UInt32, UInt64)
    /// A session for private messages with a peer has begun or ended.
    case session(PeerID)
    /// The result of a proof that `challenge(_:signingKey:at:time:)` or `Event.verified` requested.
    case proof(PeerID, ProofOutcome)
    /// Something from a peer is rejected; the nickname is the peer's own.
    case trouble(PeerID, nickname: String, PeerTrouble)
    /// A peer has acknowledged the favourite notice.
    case noticeSettled(PeerID)
    /// The read receipt for a message has arrived, as far as is known.
    case receiptSettled(MessageID, from: PeerID)
    /// Persist an item for the next run.
    case keep(Keepsake)
    /// The state of the node has changed.
    case state(State)
  }

  /// Item to be persisted.
  public enum Keepsake: Hashable, Sendable {
    /// The pinned signing key of a peer: the first that was announced, or the one that it proved.
    case pin(PeerID, Ed25519.PublicKey, isProven: Bool = false)
    /// Public packet that neighbours may request.
    case gossip(GossipArchive.Item)
    /// Undelivered message.
    case outgoing(OutgoingMessage)
    /// Message that was delivered or has failed.
    case settled(UInt32)
    /// New carried envelope, or one whose number of copies has changed.
    case carried(CarriedEnvelope)
    /// Envelope that is no longer carried.
    case carriedNoMore(CourierID)
  }

  /// Reason why something from a peer is rejected.
  public enum PeerTrouble: Hashable, Sendable {
    /// The last file is of a rejected type, or its content does not match its type.
    case refusedFile(mime: String)
    /// Difference between the clocks of the peer and this node, in seconds: negative if the peer's is behind.
    case clock(seconds: Int64)
  }

  /// Reason to cut a link.
  public enum CutReason: String, Hashable, Sendable {
    /// 100 malformed packets within 10 s. The address gets no link for 5 min.
    case garbage
    /// The peer has not announced itself in time.
    case noAnnounce
    /// The peer has left and not returned.
    case left
    /// No packet was received before the timeout.
    case silent
    /// The peer has initiated another link.
    case second
    /// The peer, of dialect S, supports no packet version of this node.
    case incompatible
  }

  /// State of the node.
  public enum State: String, Hashable, Sendable {
    case stopped
    /// The clock is not known to be right. Phones would drop packets of this node, so it sends none.
    case waitingForClock
    /// No peer is in range.
    case alone
    case connected
  }

  /// Settings of the node.
  public struct Configuration: Hashable, Sendable {
    public var nickname: String
    /// A relay stores no messages, and answers no private ones.
    public var isRelayOnly = false
    public var relayPolicy = RelayPolicy.mains
    /// Maximum TTL of relayed encrypted packets; nil for no limit.
    public var encryptedRelayLimit: UInt8?
    /// Whether packets are padded where possible.
    public var padsAll = false
    /// Whether packets of blocked peers are not relayed. Their announces are handled, so that their links have a peer.
    public var blocksRelay = false
    /// Whether links are cut after 60 s without a packet, as in the document of 2025.
    public var isMonitorStrict = false
    /// Preferred dialect. Dialect S is used with peers that announce it.
    public var dialect = MeshDialect.live
    /// Peers with a configured dialect, whatever they announce.
    public var dialects: [PeerID: MeshDialect] = [:]
    /// Maximum envelopes carried for others, fixed at the start; none for a relay.
    public var carries = CourierBag.usualLimit
    /// Whether the node runs on battery: it announces itself once a minute.
    public var isSparing = false
    /// Longest value, in bytes, that arrives when a neighbour writes it to this node; nil without a limit.
    public var longestWrite: UInt16?

    public init(nickname: String) {
      self.nickname = nickname
    }
  }
}

/// Received public message.
public struct PublicMessage: Hashable, Sendable {
  public let sender: PeerID
  /// Nickname of the sender when the message arrived.
  public let nickname: String
  public let text: String
  /// Milliseconds since 1970, by the sender's clock.
  public let timestamp: UInt64
  public let packet: PacketID
  /// Whether the message was received in answer to a sync request.
  public let isLate: Bool
  /// Mark of the device that delivered the message, for shares of the storage.
  public let via: UInt32
}

/// State of a private message of this node.
public enum MessageState: String, Hashable, Sendable {
  /// The message waits for a session or for the peer.
  case waiting
  case sent
  case delivered
  case read
  /// The message was not delivered within a day or in eight tries.
  case failed
}
