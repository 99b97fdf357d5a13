import Common
import Crypto

extension Sessions {
  /// Input of the session engine: messages of peers, and requests of the caller.
  public enum Event: Sendable {
    /// The caller has data for a peer without a session, and wants a session.
    case begin(Peer)
    /// The peer may be reachable over a link that its first message was not sent over. An unanswered first message is
    /// sent again, at most three times in an attempt. A peer that has received it drops the copy.
    case again(Peer)
    /// The caller wants one handshake with the peer, without further attempts. If one is under way, its first message
    /// is sent again.
    case ask(Peer)
    /// A handshake message arrived with the peer's name as its sender. The name is not authenticated.
    ///
    /// - Parameter from: the link or device of the message.
    case handshake(Peer, [UInt8], from: MessageSource = .unknown)
    /// An encrypted message arrived with the peer's name as its sender.
    case message(Peer, [UInt8], from: MessageSource = .unknown)
    /// A message for the peer had no answer although one was due: the peer may have other keys. The engine begins a
    /// handshake, at most once a minute, and continues to use the session meanwhile.
    case unanswered(Peer)
    /// The time of the engine's deadline has come.
    case timer
    /// Removes the peer with all keys. The engine returns no action for it.
    case forget(Peer)
    /// Removes all peers with their keys and records.
    case forgetAll
  }

  /// An output of the engine, which the caller carries out.
  public enum Action: Hashable, Sendable {
    /// Send a handshake message to the peer.
    case send(Peer, [UInt8])
    /// A new session with the owner of the key exists: waiting data can be sealed. `hash` is the handshake hash, equal
    /// on both sides.
    case established(Peer, key: X25519.PublicKey, hash: [UInt8])
    /// The plaintext of a message from the peer.
    case opened(Peer, [UInt8])
    /// The requested session could not be established. The caller may request it again.
    case failed(Peer, Failure)
    /// The session with the peer was evicted for another one; its keys are erased.
    case ended(Peer)
  }

  /// The reason why a requested session could not be established.
  public enum Failure: Hashable, Sendable {
    /// The peer did not answer, or its answers were invalid.
    case timedOut
    /// A limit on handshakes was reached, or the peer is this side itself.
    case refused(Drop)
  }
}

/// The link or device that a message arrived from, as a number that the caller assigns. The sender's name in a message
/// can be forged; the link that it arrives on cannot.
public struct MessageSource: Hashable, Comparable, Sendable {
  public let number: UInt64

  public static let unknown = MessageSource(0)

  public init(_ number: UInt64) { self.number = number }

  public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// The reason why a message or request was dropped. Each reason has a counter of this name.
public enum Drop: String, CaseIterable, Hashable, Sendable {
  /// The message has a length that no message can have.
  case badLength = "BadLength"
  /// A message for a handshake that is not under way.
  case outOfTurn = "OutOfTurn"
  /// A first message that was answered before.
  case repeated = "Repeated"
  /// The first message of a peer that must answer this side's: both sides began, and this side has the smaller
  /// identity.
  case collision = "Collision"
  /// The message claims to come from this side, or a request names this side as the peer.
  case ourselves = "Ourselves"
  /// A handshake message whose authentication failed.
  case badHandshake = "BadHandshake"
  /// A public key that is a low-order point.
  case weakKey = "WeakKey"
  /// A static key that is not the sender's.
  case wrongKey = "WrongKey"
  /// A message of a handshake for which this source has sent the maximum number of invalid messages.
  case tooManyBad = "TooManyBad"
  /// More handshakes in a minute than this side may begin with one peer, or than one source may cause under the
  /// identity of one peer.
  case peerRate = "PeerRate"
  /// More handshakes in a minute than are allowed in all, or for one source.
  case rate = "Rate"
  /// More handshakes under way than are allowed.
  case halfOpenLimit = "HalfOpenLimit"
  /// A handshake that was evicted for one from another source.
  case pushedOut = "PushedOut"
  /// A first message from a peer whose session was replaced within `replacementPause`.
  case replacedLately = "ReplacedLately"
  /// A message that was opened before.
  case replayed = "Replayed"
  /// A message whose nonce is so far below the newest one that it may have been opened before.
  case tooOld = "TooOld"
  /// A message whose nonce is too far above the newest one.
  case nonceJump = "NonceJump"
  /// The peer's session and its former keys cannot decrypt the message.
  case undecryptable = "Undecryptable"
  /// The message arrived before the handshake was complete, and the limit of stored messages is reached.
  case earlyLimit = "EarlyLimit"
  /// The message is longer than the limit.
  case tooLong = "TooLong"
}

extension Sessions {
  /// Counts since the engine was created.
  public struct Counters: Hashable, Sendable {
    /// Handshakes that this side began, each attempt counted.
    public var begun = 0
    /// Handshakes that a peer began and this side answered.
    public var answered = 0
    /// Handshakes that led to a session.
    public var established = 0
    /// Number of established sessions that replaced another one.
    public var replaced = 0
    /// Handshakes that were begun because a session was old.
    public var rekeys = 0
    /// Handshakes that were begun because messages could not be opened, or had no answer.
    public var recoveries = 0
    /// Handshakes that were not completed in time.
    public var timedOut = 0
    /// Sessions that were evicted for others.
    public var evicted = 0
    public var sealed = 0
    public var opened = 0
    public private(set) var drops: [Drop: Int] = [:]

    /// Number of messages and requests that were dropped for this reason.
    public subscript(drop: Drop) -> Int { drops[drop, default: 0] }

    mutating func count(_ drop: Drop) { drops[drop, default: 0] += 1 }

    /// The counters of handshakes and drops, by name: for example `DroppedReplayed`. `sealed` and `opened` are not
    /// included, because they concern only the two sides.
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
  /// Data that both sides of a handshake know.
  public var prologue: [UInt8] = []
  /// Timeout from the first message to the second.
  public var initiatorTimeout = Duration.seconds(10)
  /// Timeout from the second message to the third.
  public var responderTimeout = Duration.seconds(20)
  /// Maximum attempts for a requested session, each with a fresh ephemeral key.
  public var attempts = 3
  /// Maximum copies of the first message of an attempt.
  public var copies = 3
  /// Time that a wanted session waits for a handshake that the peer may have begun, before this side begins one as
  /// well.
  public var courtesy = Duration.seconds(1)
  /// Maximum peers with handshakes under way.
  public var halfOpen = 64
  /// Maximum handshakes under way with one peer.
  public var handshakes = 32
  /// Maximum handshakes under way with one peer that one source has begun.
  public var handshakesOfSource = 16
  /// Time in which a handshake is not evicted for another one that its source begins under the same peer's name.
  public var firmTime = Duration.seconds(3)
  /// Time in which a handshake is not evicted for another one that its source begins under a different peer's name.
  public var firmTimeOfMany = Duration.seconds(1)
  /// Period in which the limits from `perPeer` to `recoveries` apply.
  public var span = Duration.seconds(60)
  /// Maximum handshakes in a span that this side begins with one peer because it needs a session.
  public var perPeer = 10
  /// Maximum handshakes in a span that this side begins with all peers because it needs sessions.
  public var inAll = 30
  /// Maximum handshakes in a span that one source causes under one name. This bounds the work; the caller may pass
  /// far fewer on.
  public var perPeerOfSource = 240
  /// Maximum handshakes in a span that one source causes under all names.
  public var perSource = 960
  /// Maximum handshakes in a span that all sources cause together, beside their reserves.
  public var ofOthers = 2000
  /// Number of handshakes in a span that each source may cause beyond `ofOthers`.
  public var reserve = 60
  /// Maximum number of sources with a reserve.
  public var reserves = 64
  /// Maximum handshakes in a span because messages of one source cannot be opened, under the names of peers with
  /// sessions or without. A handshake because of the third consecutive message without a session does not count here.
  public var recoveriesOfSource = 10
  /// Maximum of these handshakes in a span for all sources together. Beyond it each source may still cause one.
  public var recoveries = 20
  /// Minimum time between two replacements of a session by handshakes that the peer begins: a peer may restart several
  /// times a minute.
  public var replacementPause = Duration.seconds(5)
  /// Minimum time between two recoveries, or renewals, of a session.
  public var pause = Duration.seconds(60)
  /// Maximum invalid messages from one source that are processed for a handshake. Each costs at most one key agreement.
  public var badMessages = 32
  /// Maximum sessions. Beyond it, among the peers with the lowest worth, the source with the most sessions loses its
  /// least recently used one.
  public var sessions = 256
  /// Maximum peers with a record of invalid messages but without a session or handshake.
  public var strangers = 64
  /// Maximum length of a message's plaintext, in bytes.
  public var messageBytes = 65_535
  /// Maximum number of early messages of one source that are stored for a peer.
  public var earlyMessages = 4
  /// Maximum bytes of the early messages of one source for all peers.
  public var earlyBytesOfSource = 64 << 10
  /// Maximum bytes of the early messages of all sources for all peers.
  public var earlyBytes = 256 << 10
  /// Number of consecutive messages that no key opens before the engine begins a new handshake although there is a
  /// session. Without a session one message suffices: the peer has a session that this side has lost.
  public var undecryptable = 3
  /// Age at which a session is renewed.
  public var rekeyAge = Duration.seconds(3600)
  /// Number of messages in both directions after which a session is renewed.
  public var rekeyMessages = 10_000
  /// Minimum time without messages before a renewal.
  public var rekeyIdle = Duration.seconds(5)
  /// The side with the smaller identity renews the session. The other side waits this much longer, because some peers
  /// never renew; nil means that it never renews.
  public var rekeyGrace: Duration? = .seconds(120)

  public init() {}
}

// The printed form of an action contains no message content.
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
