import Common
import Crypto

extension MeshEngine {
  /// What happened.
  public enum Event: Sendable {
    case start
    /// The node leaves the mesh, and says so.
    case stop
    /// Whether this machine's clock is known to be right: later than the build, and synchronised.
    case clock(isTrusted: Bool)
    /// This machine's clock was set: what neighbours' clocks showed before says nothing about it any more.
    case clockSet
    /// A link is up, and the other end takes part in the mesh.
    ///
    /// - Parameters:
    ///   - frameLimit: the most bytes that one write or notification takes.
    ///   - isOurs: whether this node has made the link.
    ///   - from: the device at the other end; nil if unknown. Limits are shared among devices.
    case linkOpened(LinkID, frameLimit: Int, isOurs: Bool, from: DeviceOrigin? = nil)
    case linkChanged(LinkID, frameLimit: Int)
    case linkClosed(LinkID)
    /// One write or notification.
    case received([UInt8], on: LinkID)
    /// The next announce goes out now.
    case announce
    /// The service keeps a private message or a notice that it got: the sender may know.
    case kept(MessageID, from: PeerID)
    /// The service has no room for a private message or a notice that it was told of: when the sender says it again, it is told again.
    case notTaken(MessageID, from: PeerID)
    /// The user has seen a private message.
    case read(MessageID, from: PeerID)
    case favourite(PeerID, Bool)
    /// What a blocked peer says is not told, and nothing private is taken from it or answered. It stays a peer all the same: its
    /// announces count, its links stay its own, and `Action.peer` and `Action.bound` name it.
    case block(PeerID, Bool)
    /// The user has compared the peer's fingerprint, or takes that back. The fingerprint covers the Noise key alone, so the peer is asked to
    /// prove its signing key if it has not done so: `Action.proof`.
    case verified(PeerID, Bool)
    /// The peer is to be forgotten, with its pin.
    case forget(PeerID)
    /// The service keeps a private file: the sender may know. Until then it is told again each time it comes.
    case fileKept(MessageID, from: PeerID)
    /// A file of this node is not to be sent any further. No fragment of it goes out after this.
    case cancelFile(UInt32)
    /// Somebody else needs the radio, or no longer: meanwhile no file goes out, and none is asked for.
    case quiet(Bool)
    /// A link has taken packets of files. So many still wait for it.
    case room(LinkID, waiting: Int)
    /// `deadline` has come.
    case timer
  }

  /// What is to be done.
  public enum Action: Hashable, Sendable {
    /// One packet goes out on a link, as one write or notification.
    case send([UInt8], on: LinkID, PacketClass)
    /// The link has to go.
    case cut(LinkID, CutReason)
    /// A link belongs to a peer from now on.
    case bound(LinkID, PeerID)
    /// A peer is new, or something of it has changed.
    case peer(PeerID)
    /// A peer has left, or was not heard for long.
    case gone(PeerID)
    /// Somebody has said something to everybody. `isLate` is true for what a neighbour told later, in answer to a request.
    case heard(PublicMessage)
    /// Somebody has said something to this node. `Event.kept` has the sender know.
    case told(PrivateMessage, from: PeerID, at: UInt64)
    /// The same message or notice came again: `Event.kept` is due again, if it is kept.
    case toldAgain(MessageID, from: PeerID)
    /// A peer has made this node a favourite, or no longer. `Event.kept` with that ID has the peer know that the notice came;
    /// `Event.notTaken` has it told again.
    case favourited(PeerID, FavoriteNotice, MessageID)
    /// Somebody has sent a file, to everybody or to this node. `Event.fileKept` with its receipt has the sender of a private
    /// one know.
    case file(ReceivedFile)
    /// Progress of an incoming file. `file` with the same `FragmentSetID`, or `arrivalEnded`, follows.
    case arriving(ArrivingFile)
    /// The node no longer waits for fragments of a file: the file has arrived, was refused, or was abandoned. `file`,
    /// if any, comes before.
    case arrivalEnded(FragmentSetID)
    /// A file of this node has come so far.
    case fileState(UInt32, FileState)
    /// So much of a file of this node went out.
    case fileProgress(UInt32, percent: Int)
    /// Packets of a file that still wait for a link are not wanted any more.
    case withdraw(FilePackets)
    /// A ping was answered: how long it took there and back, and how many hops the answer came.
    case pong(UInt32, milliseconds: UInt32, hops: Int)
    /// A ping was not answered within 10 s.
    case pingLost(UInt32)
    /// A message of this node has come so far.
    case progress(UInt32, MessageState)
    /// A message of this node was made at another time than the clock said then, in milliseconds since 1970.
    case dated(UInt32, UInt64)
    /// A session for private messages with a peer has begun or ended.
    case session(PeerID)
    /// The result of a proof that `challenge(_:signingKey:at:time:)` or `Event.verified` requested.
    case proof(PeerID, ProofOutcome)
    /// Something of a peer is not taken, as it calls itself.
    case trouble(PeerID, nickname: String, PeerTrouble)
    /// A peer has acknowledged that it is a favourite, or no longer.
    case noticeSettled(PeerID)
    /// The receipt for a message that was read has arrived, as far as this node can tell.
    case receiptSettled(MessageID, from: PeerID)
    /// Something is to be kept for the next run.
    case keep(Keepsake)
    /// The state of the node is another one.
    case state(State)
  }

  /// What outlives a run.
  public enum Keepsake: Hashable, Sendable {
    /// The pinned signing key of a peer: the first that was announced, or the one that it proved.
    case pin(PeerID, Ed25519.PublicKey, isProven: Bool = false)
    /// A public packet that neighbours may ask for.
    case gossip(GossipArchive.Item)
    /// A message that is not delivered yet.
    case outgoing(OutgoingMessage)
    /// A message that is delivered, or given up.
    case settled(UInt32)
    /// An envelope that this node carries for somebody else is new, or has other copies left.
    case carried(CarriedEnvelope)
    /// One that it does not carry any longer.
    case carriedNoMore(CourierID)
  }

  /// Why something of a peer is not taken.
  public enum PeerTrouble: Hashable, Sendable {
    /// The file that it sent last is of a type that is not taken, or its content is not of its type.
    case refusedFile(mime: String)
    /// Its clock, or this node's, is off by so many seconds: negative where the peer's is behind.
    case clock(seconds: Int64)
  }

  /// Why a link has to go.
  public enum CutReason: String, Hashable, Sendable {
    /// A hundred frames in ten seconds were no packets. The address gets no link for five minutes.
    case garbage
    /// The other end has not announced itself.
    case noAnnounce
    /// The peer has said that it leaves, and has not come back.
    case left
    /// Nothing came for long.
    case silent
    /// There is another link to the same peer, which the peer has made.
    case second
    /// The peer, of dialect S, knows no version of packets that this node knows.
    case incompatible
  }

  /// How the node stands.
  public enum State: String, Hashable, Sendable {
    case stopped
    /// The clock is not known to be right: phones would drop what this node says, so it says nothing.
    case waitingForClock
    /// No peer is near.
    case alone
    case connected
  }

  /// What governs the node.
  public struct Configuration: Hashable, Sendable {
    public var nickname: String
    /// A relay stores nothing, and answers no private message.
    public var isRelayOnly = false
    public var relayPolicy = RelayPolicy.mains
    /// The highest time to live that encrypted packets are passed on with; nil for no limit.
    public var encryptedRelayLimit: UInt8?
    /// Whether all packets are padded that can be.
    public var padsAll = false
    /// Whether packets of blocked peers are not passed on either. Their announces are heard, so that their links have a peer.
    public var blocksRelay = false
    /// Whether links whose peers are silent for a minute are cut, as the document of 2025 has it.
    public var isMonitorStrict = false
    /// The dialect that this node prefers: dialect S is spoken with peers that say that they speak it.
    public var dialect = MeshDialect.live
    /// Peers that are spoken to in a dialect whatever they say.
    public var dialects: [PeerID: MeshDialect] = [:]
    /// How many envelopes of others the node carries at most, from its start on; none where it is a relay.
    public var carries = CourierBag.usualLimit
    /// Whether the node lives on a battery: it announces itself once a minute.
    public var isSparing = false
    /// Bytes of the longest value that arrives when a neighbour writes it to this node; nil where all do.
    public var longestWrite: UInt16?

    public init(nickname: String) {
      self.nickname = nickname
    }
  }
}

/// A line for everybody.
public struct PublicMessage: Hashable, Sendable {
  public let sender: PeerID
  /// As the sender called itself when the line came.
  public let nickname: String
  public let text: String
  /// Milliseconds since 1970, by the sender's clock.
  public let timestamp: UInt64
  public let packet: PacketID
  /// Whether it came late, in answer to a request for sync.
  public let isLate: Bool
  /// The mark of the device that delivered it, by which strangers share the storage.
  public let via: UInt32
}

/// How far a private message of this node has come.
public enum MessageState: String, Hashable, Sendable {
  /// It waits for a session, or for the peer.
  case waiting
  case sent
  case delivered
  case read
  /// It was not delivered within a day, or in eight tries.
  case failed
}
