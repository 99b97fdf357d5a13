import BitchatWire
import Common
import Crypto

/// Request of the engine to the service: what to send, store, show or disconnect.
public enum MeshAction: Hashable, Sendable {
  /// Send one packet over a link, as one write or notification.
  case send([UInt8], on: LinkID, PacketClass)
  /// Disconnect a link, for a reason that is logged.
  case cut(LinkID, CutReason)
  /// The peer has announced itself over the link, which belongs to it from now on.
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
  /// Hand a packet to the program of the uplink. `Event.uplinkTaken` or `Event.uplinkRefused` follows.
  case uplink(UplinkPacket)
  /// The program of the uplink need not repeat the packet with this ID any more.
  case uplinkDone(UplinkPacket.ID)
  /// The uplink carries a message of this node.
  case wentByUplink(UInt32)
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
  /// A packet or file of a peer is rejected; the nickname is the one that the peer announces.
  case trouble(PeerID, nickname: String, PeerTrouble)
  /// A peer has acknowledged the favourite notice.
  case noticeSettled(PeerID)
  /// The read receipt that this node owes a peer for a message need not be sent any more: the peer has presumably
  /// received it, or is blocked and gets none.
  case receiptSettled(MessageID, from: PeerID)
  /// Persist an item for the next run.
  case keep(PersistedItem)
  /// The state of the node has changed.
  case state(NodeState)
}

/// Item that the service must store, so that it survives a restart.
public enum PersistedItem: Hashable, Sendable {
  /// The pinned signing key of a peer: the first that was announced, or the one that it proved.
  case pin(PeerID, Ed25519.PublicKey, isProven: Bool = false)
  /// Public packet that neighbours may request.
  case gossip(GossipArchive.Item)
  /// Private message of this node that is not delivered yet.
  case outgoing(OutgoingMessage)
  /// Message that was delivered or has failed.
  case settled(UInt32)
  /// New carried envelope, or one whose number of copies has changed.
  case carried(CarriedEnvelope)
  /// Envelope that is no longer carried.
  case carriedNoMore(CourierID)
}

/// Reason why packets or files of a peer are rejected.
public enum PeerTrouble: Hashable, Sendable {
  /// The last file is of a rejected type, or its content does not match its type.
  case refusedFile(mime: String)
  /// Difference between the clocks of the peer and this node, in seconds: negative if the peer's is behind.
  case clock(seconds: Int64)
}

/// Reason why the engine has a link disconnected.
public enum CutReason: String, Hashable, Sendable {
  /// 100 malformed packets within 10 s. The address gets no link for 5 min.
  case garbage
  /// The peer has not announced itself in time.
  case noAnnounce
  /// The peer has sent a leave, and has not announced itself again in time.
  case left
  /// No packet was received before the timeout.
  case silent
  /// The peer has another link with this node, and one link per peer is enough.
  case second
  /// The peer supports no packet version of this node.
  case incompatible
}

/// Whether the node can send, and whether it has neighbours.
public enum NodeState: String, Hashable, Sendable {
  case stopped
  /// The clock is not trusted. Phones would drop packets of this node, so it sends none.
  case waitingForClock
  /// The node can send, and no peer is in range.
  case alone
  case connected
}

/// A public message of a peer, to be shown.
public struct PublicMessage: Hashable, Sendable {
  public let sender: PeerID
  /// Nickname of the sender when the message arrived.
  public let nickname: String
  public let text: String
  /// Timestamp of the message, in milliseconds since 1970 by the sender's clock.
  public let timestamp: UInt64
  public let packet: PacketID
  /// Whether the message was received in answer to a sync request.
  public let isLate: Bool
  /// Mark of the device that delivered the message, for shares of the storage.
  public let via: UInt32
}

/// Result of a proof that this node requested of a peer.
public enum ProofOutcome: String, Hashable, Sendable {
  /// The peer has the keys of the code.
  case proven
  /// The peer answered with other keys than those of the code.
  case wrong
  /// The peer did not answer in time: it is out of range, or a relay.
  case noAnswer
  /// The peer has left, was forgotten or timed out; or this node has left.
  case gone
  /// The user blocked the peer meanwhile.
  case blocked
}

// Descriptions contain neither content, nor peers, nor keys.
extension MeshAction: CustomStringConvertible, CustomReflectable {
  public var description: String {
    switch self {
    case .send(let bytes, let link, let kind): "send \(bytes.count) bytes on link \(link.number) as \(kind)"
    case .cut(let link, let reason): "cut link \(link.number): \(reason.rawValue)"
    case .bound(let link, _): "bound link \(link.number)"
    case .peer: "peer"
    case .gone: "gone"
    case .heard: "heard"
    case .told: "told"
    case .toldAgain: "toldAgain"
    case .favourited: "favourited"
    case .file: "file"
    case .arriving(let file): "\(file)"
    case .arrivalEnded: "arrivalEnded"
    case .fileState(let number, let state): "file \(number) is \(state)"
    case .fileProgress(let number, let percent): "file \(number) at \(percent) %"
    case .withdraw: "withdraw"
    case .uplink: "uplink"
    case .uplinkDone: "uplinkDone"
    case .wentByUplink(let number): "message \(number) went by the uplink"
    case .pong(let number, let milliseconds, let hops): "ping \(number): \(milliseconds) ms, \(hops) hops"
    case .pingLost(let number): "ping \(number) is lost"
    case .progress(let number, let state): "message \(number) is \(state.rawValue)"
    case .dated(let number, let time): "message \(number) was made at \(time)"
    case .keep: "keep"
    case .proof(_, let outcome): "proof \(outcome.rawValue)"
    case .session: "session"
    case .trouble: "trouble"
    case .noticeSettled: "noticeSettled"
    case .receiptSettled: "receiptSettled"
    case .state(let state): "state \(state.rawValue)"
    }
  }

  public var customMirror: Mirror { Mirror(self, children: []) }
}
