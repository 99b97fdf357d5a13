import Common
import Crypto

extension Sessions {
  /// What happened.
  public enum Event: Sendable {
    /// There is something to send to the peer, and no session to send it with.
    case begin(Peer)
    /// The peer may be reachable over a link that its first message was not sent over. An unanswered first message is sent again, at most
    /// three times in an attempt. A peer that has received it drops the copy.
    case again(Peer)
    /// The caller wants one handshake with the peer, without further attempts. If one is under way, its first message is sent again.
    case ask(Peer)
    /// A message of a handshake came from the peer, or from somebody who says so.
    ///
    /// - Parameter from: the link or device that it arrived from.
    case handshake(Peer, [UInt8], from: MessageSource = .unknown)
    /// A sealed message came.
    case message(Peer, [UInt8], from: MessageSource = .unknown)
    /// What was sealed for the peer has had no answer, where there should be one: it may have other keys by now. A handshake is
    /// begun, once a minute at most, and the session goes on meanwhile.
    case unanswered(Peer)
    /// The deadline has come.
    case timer
    /// The peer is to be forgotten, with all keys. Nobody is told.
    case forget(Peer)
    /// Every peer is to be forgotten.
    case forgetAll
  }

  /// What is to be done.
  public enum Action: Hashable, Sendable {
    /// A message of a handshake goes to the peer.
    case send(Peer, [UInt8])
    /// There is a new session with the owner of the key: what waits can be sealed. `hash` is the handshake's, the same on
    /// both sides.
    case established(Peer, key: X25519.PublicKey, hash: [UInt8])
    /// The peer said this.
    case opened(Peer, [UInt8])
    /// The session that was asked for does not come about. Asking again is allowed.
    case failed(Peer, Failure)
    /// The session with the peer made room for another one; its keys are gone.
    case ended(Peer)
  }

  /// Why there is no session.
  public enum Failure: Hashable, Sendable {
    /// The peer did not answer, or not as it has to.
    case timedOut
    /// This many handshakes are not allowed, or not with oneself.
    case refused(Drop)
  }
}

/// The link or device that a message arrived from, as a number that the caller chooses. A message names its sender, but anybody can write any
/// name. Nobody can choose the link that a message arrives on.
public struct MessageSource: Hashable, Comparable, Sendable {
  public let number: UInt64

  public static let unknown = MessageSource(0)

  public init(_ number: UInt64) { self.number = number }

  public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// Why something that came, or was asked for, was dropped. Each has a counter of this name.
public enum Drop: String, CaseIterable, Hashable, Sendable {
  /// No message has this length.
  case badLength = "BadLength"
  /// A message for a handshake that is not under way.
  case outOfTurn = "OutOfTurn"
  /// A first message that was answered before.
  case repeated = "Repeated"
  /// The first message of a peer that has to answer ours: both began, and this side has the smaller identity.
  case collision = "Collision"
  /// It pretends to come from ourselves, or was asked to go there.
  case ourselves = "Ourselves"
  /// A message of a handshake that does not authenticate.
  case badHandshake = "BadHandshake"
  /// A public key that is a low-order point.
  case weakKey = "WeakKey"
  /// A static key that is not the sender's.
  case wrongKey = "WrongKey"
  /// A message of a handshake for which this source has sent the maximum number of invalid messages.
  case tooManyBad = "TooManyBad"
  /// More handshakes in a minute than allowed with one peer, or under its name from one source.
  case peerRate = "PeerRate"
  /// More handshakes in a minute than allowed in all, or from one source.
  case rate = "Rate"
  /// More handshakes under way than are allowed.
  case halfOpenLimit = "HalfOpenLimit"
  /// A handshake that was evicted for one from another source.
  case pushedOut = "PushedOut"
  /// A first message from a peer whose session was replaced less than a minute ago.
  case replacedLately = "ReplacedLately"
  /// A message that was opened before.
  case replayed = "Replayed"
  /// A message that is too old to tell whether it was opened before.
  case tooOld = "TooOld"
  /// A nonce too far ahead.
  case nonceJump = "NonceJump"
  /// No key opens it.
  case undecryptable = "Undecryptable"
  /// It came before the handshake was complete, and no more such messages are kept.
  case earlyLimit = "EarlyLimit"
  /// It is longer than the limit.
  case tooLong = "TooLong"
}

extension Sessions {
  /// How often each thing happened since the engine was made.
  public struct Counters: Hashable, Sendable {
    /// Handshakes that this side began, each attempt counted.
    public var begun = 0
    /// Handshakes that a peer began and this side answered.
    public var answered = 0
    /// Handshakes that led to a session.
    public var established = 0
    /// Those of them that replaced a session.
    public var replaced = 0
    /// Handshakes that were begun because a session was old.
    public var rekeys = 0
    /// Handshakes that were begun because messages could not be opened, or had no answer.
    public var recoveries = 0
    /// Attempts that ended by their time.
    public var timedOut = 0
    /// Sessions that made room for others.
    public var evicted = 0
    public var sealed = 0
    public var opened = 0
    public private(set) var drops: [Drop: Int] = [:]

    /// How much was dropped for this reason.
    public subscript(drop: Drop) -> Int { drops[drop, default: 0] }

    mutating func count(_ drop: Drop) { drops[drop, default: 0] += 1 }

    /// Those of handshakes, and of what was dropped, by name: `DroppedReplayed` and so on. How much was sealed and opened is between
    /// the two sides.
    public var tallies: [Tally] {
      [
        Tally("Begun", begun), Tally("Answered", answered), Tally("Established", established),
        Tally("Replaced", replaced), Tally("Rekeys", rekeys), Tally("Recoveries", recoveries),
        Tally("TimedOut", timedOut), Tally("Evicted", evicted),
      ] + Drop.allCases.map { Tally("Dropped" + $0.rawValue, self[$0]) }
    }
  }
}

/// The times and limits of `Sessions`.
public struct SessionLimits: Hashable, Sendable {
  /// What both sides of a handshake know already.
  public var prologue: [UInt8] = []
  /// From the first message to the second.
  public var initiatorTimeout = Duration.seconds(10)
  /// From the second message to the third.
  public var responderTimeout = Duration.seconds(20)
  /// How often a session that was asked for is tried, each time with a fresh ephemeral key.
  public var attempts = 3
  /// Maximum copies of the first message of an attempt.
  public var copies = 3
  /// How long a wanted session waits for a handshake that the peer may have begun, before this side begins one beside it.
  public var courtesy = Duration.seconds(1)
  /// Peers with which handshakes are under way.
  public var halfOpen = 64
  /// Maximum handshakes under way with one peer: in all, and begun by one source.
  public var handshakes = 32
  public var handshakesOfSource = 16
  /// How long a handshake is not evicted for another one from its source: under its peer's name, and under other names.
  public var firmTime = Duration.seconds(3)
  public var firmTimeOfMany = Duration.seconds(1)
  /// The time that the next nine limits refer to.
  public var span = Duration.seconds(60)
  /// Maximum handshakes in a span that this side wants: with one peer, and in all.
  public var perPeer = 10
  public var inAll = 30
  /// Maximum handshakes in a span that one source causes: under one name, and in all. They bound the work. The caller
  /// may pass far fewer.
  public var perPeerOfSource = 240
  public var perSource = 960
  /// Maximum handshakes in a span that all sources cause together, the reserve of each source beside them, and maximum sources with a
  /// reserve.
  public var ofOthers = 2000
  public var reserve = 60
  public var reserves = 64
  /// Maximum handshakes in a span because messages cannot be opened, under the names of peers with sessions or without: for one source, and
  /// in all. Third messages in a row without a session do not count here. Each
  /// source has one more beside them.
  public var recoveriesOfSource = 10
  public var recoveries = 20
  /// From a replacement that the peer began to the next one that it may begin: a peer may restart several times a minute.
  public var replacementPause = Duration.seconds(5)
  /// From one recovery of a session, or renewal, to the next one.
  public var pause = Duration.seconds(60)
  /// Maximum invalid messages of one handshake that are processed from one source. Each costs a key agreement at most.
  public var badMessages = 32
  /// Sessions; of those of the peers that are worth the least to the caller, the one that was not used for the longest time
  /// makes room.
  public var sessions = 256
  /// Peers without session or handshake that something is known of: the bad messages that they sent.
  public var strangers = 64
  /// The longest plaintext, in bytes.
  public var messageBytes = 65_535
  /// Maximum early messages of one source that are stored for a peer, and bytes of early messages for all peers: of one source, and in all.
  public var earlyMessages = 4
  public var earlyBytesOfSource = 64 << 10
  public var earlyBytes = 256 << 10
  /// Messages in a row that no key opens, after which a new handshake is begun where there is a session. Without one the first does it:
  /// the peer has one that this side has lost.
  public var undecryptable = 3
  /// A session is renewed when it is so old, or when so many messages went over it in both directions together.
  public var rekeyAge = Duration.seconds(3600)
  public var rekeyMessages = 10_000
  /// It is renewed only when nothing went over it for so long.
  public var rekeyIdle = Duration.seconds(5)
  /// The side with the smaller identity renews it. The other side waits so much longer, because some peers never do; nil
  /// if it waits for ever.
  public var rekeyGrace: Duration? = .seconds(120)

  public init() {}
}

// An action that is printed shows nothing of what was said.
extension Sessions.Action: CustomStringConvertible, CustomReflectable {
  public var description: String {
    switch self {
    case .send(let peer, let message): "send \(message.count) bytes of a handshake to \(peer)"
    case .established(let peer, _, _): "established with \(peer)"
    case .opened(let peer, let text): "opened \(text.count) bytes from \(peer)"
    case .failed(let peer, let failure): "failed with \(peer): \(failure)"
    case .ended(let peer): "ended with \(peer)"
    }
  }

  public var customMirror: Mirror { Mirror(self, children: []) }
}
