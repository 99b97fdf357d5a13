import Common
import Crypto

extension Sessions {
  /// What happened.
  public enum Event: Sendable {
    /// There is something to send to the peer, and no session to send it with.
    case begin(Peer)
    /// A message of a handshake came from the peer, or from somebody who says so.
    ///
    /// - Parameter by: the way that it came.
    case handshake(Peer, [UInt8], by: HandshakeWay = .far)
    /// A sealed message came.
    case message(Peer, [UInt8])
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

/// The way that a message of a handshake came, as far as the caller can tell.
public enum HandshakeWay: Hashable, Sendable {
  /// Over a link that is the peer's own. Such handshakes have an account of their own, which nobody who writes the peer's name
  /// elsewhere can use up.
  case near
  /// Another way, although the peer has a link of its own here: it may well be somebody else's. As a first message it is dropped while
  /// a handshake is under way that came near, or that this side has begun, before its first attempt has ended.
  case aside
  /// Some way; the peer has no link of its own here.
  case far
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
  /// A first message that came aside, while a handshake was under way with the peer itself.
  case aside = "Aside"
  /// It pretends to come from ourselves, or was asked to go there.
  case ourselves = "Ourselves"
  /// A message of a handshake that does not authenticate.
  case badHandshake = "BadHandshake"
  /// A public key that is a low-order point.
  case weakKey = "WeakKey"
  /// A static key that is not the sender's.
  case wrongKey = "WrongKey"
  /// So many messages of one handshake were bad that no more are looked at: of those that come near, or of the others.
  case tooManyBad = "TooManyBad"
  /// More handshakes with one peer than a minute allows.
  case peerRate = "PeerRate"
  /// More handshakes than a minute allows.
  case rate = "Rate"
  /// More handshakes under way than are allowed.
  case halfOpenLimit = "HalfOpenLimit"
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
  /// Peers with which handshakes are under way.
  public var halfOpen = 64
  /// Handshakes under way with one of them.
  public var handshakes = 8
  /// The span of the next four.
  public var span = Duration.seconds(60)
  /// Handshakes with one peer in a span that others cause, as many that this side wants, and as many that come straight from
  /// the peer.
  public var perPeer = 10
  /// Handshakes in a span that others cause, and as many that this side wants: a flood from outside does not keep us from
  /// talking to whom we like.
  public var inAll = 30
  /// Handshakes in a span because no key opens what comes under the names of peers that there are sessions with. These and
  /// those that others cause, all under way at once, leave room for ours.
  public var recoveries = 10
  /// Handshakes in a span that come straight from their peers.
  public var near = 100
  /// From a replacement that the peer began to the next one that it may begin. A recovery or a rekey is no more frequent.
  public var pause = Duration.seconds(60)
  /// Bad messages of one handshake that are looked at, and as many that come over the peer's own link; each costs two key
  /// agreements.
  public var badMessages = 16
  /// Sessions; of those of the peers that are worth the least to the caller, the one that was not used for the longest time
  /// makes room.
  public var sessions = 256
  /// Peers without session or handshake that something is known of: the bad messages that they sent.
  public var strangers = 64
  /// The longest plaintext, in bytes.
  public var messageBytes = 65_535
  /// Messages kept for a peer whose handshake is not complete, and the bytes of all that are kept for all peers.
  public var earlyMessages = 4
  public var earlyBytes = 256 << 10
  /// Messages in a row that no key opens, after which a new handshake is begun.
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
