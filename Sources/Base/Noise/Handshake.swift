import Bytes
import Crypto

/// One side of one handshake over 25519, ChaChaPoly and SHA256, by one of two patterns (Noise Protocol Framework,
/// revision 34, sections 5.3, 7.4 and 7.5).
///
///     XX  -> e                     32 bytes, and the payload as it is
///         <- e, ee, s, es          80 bytes, and the sealed payload (16 more than its plaintext)
///         -> s, se                 48 bytes, and the sealed payload
///
///     X   <- s                     known before
///         -> e, es, s, ss          80 bytes, and the sealed payload
///
/// With empty payloads the messages of XX have 32, 96 and 64 bytes. A message that cannot be read changes nothing: the
/// correct message can still be read afterwards.
public struct Handshake: Sendable {
  /// Whether a side begins the handshake or answers.
  public enum Part: Hashable, Sendable {
    case xxInitiator, xxResponder
    /// The sender of a message by pattern X to the owner of the key.
    case xSender(to: X25519.PublicKey)
    case xReceiver
  }

  /// The longest message, in bytes (section 3).
  public static let messageLimit = 65_535

  private enum Token {
    case e, s, ee, es, se, ss
  }

  private let part: Part
  private let key: X25519.PrivateKey
  private var state: SymmetricState
  private(set) var ephemeral: X25519.PrivateKey?
  private var peerEphemeral: X25519.PublicKey?
  /// Number of handshake messages that were written and read.
  private var done = 0
  /// The peer's static key: known once it was read, and authentic once its whole message was read.
  public private(set) var peer: X25519.PublicKey?

  /// - Parameters:
  ///   - key: this side's static key.
  ///   - prologue: data that both sides know. The handshake fails if it differs between them.
  public init(_ part: Part, key: X25519.PrivateKey, prologue: [UInt8] = []) {
    (self.part, self.key) = (part, key)
    switch part {
    case .xxInitiator, .xxResponder:
      state = SymmetricState(Self.xx, prologue: prologue)
    case .xSender(let to):
      state = SymmetricState(Self.x, prologue: prologue)
      state.mix(hash: to.bytes)
      peer = to
    case .xReceiver:
      state = SymmetricState(Self.x, prologue: prologue)
      state.mix(hash: key.publicKey.bytes)
    }
  }

  private static let xx = SymmetricState.Start(name: "Noise_XX_25519_ChaChaPoly_SHA256")
  private static let x = SymmetricState.Start(name: "Noise_X_25519_ChaChaPoly_SHA256")

  public var isComplete: Bool { done == messages.count }

  /// The hash of all transmitted messages, 32 bytes. When the handshake is complete, it is equal on both sides and
  /// unique to this handshake (section 11.2).
  public var hash: [UInt8] { state.hash }

  /// Creates the next message. Throws `outOfTurn` if this side has no message to send now. Throws `badLength` if the
  /// message would be longer than 65,535 bytes, `weakKey` if a key of the peer is a low-order point.
  public mutating func write(
    _ payload: [UInt8] = [], randomFrom random: inout some RandomSource
  ) throws(NoiseError) -> [UInt8] {
    guard !isComplete, isInitiator == done.isMultiple(of: 2) else { throw .outOfTurn }
    var next = self
    var writer = ByteWriter(capacity: 96 + payload.count)
    for token in messages[done] {
      switch token {
      case .e:
        let ephemeral = X25519.PrivateKey(ephemeralFrom: &random)
        next.ephemeral = ephemeral
        writer.append(ephemeral.publicKey.bytes)
        next.state.mix(hash: ephemeral.publicKey.bytes)
      case .s: writer.append(try next.state.seal(key.publicKey.bytes))
      case .ee, .es, .se, .ss: try next.mix(token)
      }
    }
    writer.append(try next.state.seal(payload))
    guard writer.bytes.count <= Self.messageLimit else { throw .badLength }
    next.advance()
    self = next
    return writer.bytes
  }

  /// Reads the peer's next message and returns its payload, which may be empty.
  ///
  /// Throws `outOfTurn` if the peer has no message to send now, `badLength` if the message is shorter than its keys or
  /// longer than 65,535 bytes, `weakKey` and `authenticationFailed`. In each case nothing has changed.
  public mutating func read(_ message: [UInt8]) throws(NoiseError) -> [UInt8] {
    guard !isComplete, isInitiator != done.isMultiple(of: 2) else { throw .outOfTurn }
    guard message.count <= Self.messageLimit else { throw .badLength }
    var next = self
    var reader = ByteReader(message)
    for token in messages[done] {
      switch token {
      case .e:
        let ephemeral = try Self.key(try Self.bytes(32, from: &reader))
        next.peerEphemeral = ephemeral
        next.state.mix(hash: ephemeral.bytes)
      case .s:
        let sealed = try Self.bytes(32 + next.state.overhead, from: &reader)
        next.peer = try Self.key(try next.state.open(sealed))
      case .ee, .es, .se, .ss: try next.mix(token)
      }
    }
    let payload = try next.state.open(reader.rest())
    next.advance()
    self = next
    return payload
  }

  /// The session that results from the complete handshake. Throws `outOfTurn` before.
  public func session() throws(NoiseError) -> TransportSession {
    guard isComplete else { throw .outOfTurn }
    return try TransportSession(keys: state.split(), isInitiator: isInitiator)
  }

  private var isInitiator: Bool {
    switch part {
    case .xxInitiator, .xSender: true
    case .xxResponder, .xReceiver: false
    }
  }

  private var messages: [[Token]] {
    switch part {
    case .xxInitiator, .xxResponder: Self.messagesOfXX
    case .xSender, .xReceiver: Self.messagesOfX
    }
  }

  private static let messagesOfXX: [[Token]] = [[.e], [.e, .ee, .s, .es], [.s, .se]]
  private static let messagesOfX: [[Token]] = [[.e, .es, .s, .ss]]

  private mutating func advance() {
    done += 1
    // The ephemeral key is not needed any more, and must not outlive the handshake.
    if isComplete { ephemeral = nil }
  }

  /// Mixes a key agreement into the state: the token's first letter is the initiator's key, the second the responder's.
  private mutating func mix(_ token: Token) throws(NoiseError) {
    let own: X25519.PrivateKey?
    let other: X25519.PublicKey?
    switch (token, isInitiator) {
    case (.ee, _): (own, other) = (ephemeral, peerEphemeral)
    case (.es, true), (.se, false): (own, other) = (ephemeral, peer)
    case (.es, false), (.se, true): (own, other) = (key, peerEphemeral)
    default: (own, other) = (key, peer)
    }
    // In both patterns every key of a token is known before the token is processed.
    guard let own, let other else { throw .outOfTurn }
    try state.mix(own, with: other)
  }

  private static func bytes(_ count: Int, from reader: inout ByteReader) throws(NoiseError) -> ArraySlice<UInt8> {
    do throws(WireError) {
      return try reader.bytes(count)
    } catch {
      throw NoiseError(error)
    }
  }

  private static func key(_ bytes: some Collection<UInt8>) throws(NoiseError) -> X25519.PublicKey {
    do throws(CryptoError) {
      return try X25519.PublicKey(bytes)
    } catch {
      throw NoiseError(error)
    }
  }
}

/// A message to a peer that is not connected: one message by pattern X, which the receiver opens later (Noise Protocol
/// Framework, revision 34, section 7.4).
///
///     ephemeral key          32
///     sender's static key    48, sealed
///     text                   as long as its plaintext, and a tag of 16
///
/// The receiver learns the sender's static key. The message is not protected against replay. Whoever has the receiver's
/// private key can read all such messages, also earlier ones.
public enum OneWayMessage {
  /// Number of bytes that a message is longer than its text.
  public static let overhead = 96

  /// Seals `text` for the owner of `peer`. Throws `weakKey` if `peer` is a low-order point, `badLength` if the message
  /// would be longer than 65,535 bytes.
  public static func seal(
    _ text: [UInt8], to peer: X25519.PublicKey, from key: X25519.PrivateKey, prologue: [UInt8],
    randomFrom random: inout some RandomSource
  ) throws(NoiseError) -> [UInt8] {
    var handshake = Handshake(.xSender(to: peer), key: key, prologue: prologue)
    return try handshake.write(text, randomFrom: &random)
  }

  /// Returns the text of a message to the owner of `key`, and the static key of its sender.
  ///
  /// Throws `badLength`, `weakKey` or `authenticationFailed`.
  public static func open(
    _ message: [UInt8], with key: X25519.PrivateKey, prologue: [UInt8]
  ) throws(NoiseError) -> (text: [UInt8], sender: X25519.PublicKey) {
    var handshake = Handshake(.xReceiver, key: key, prologue: prologue)
    let text = try handshake.read(message)
    guard let sender = handshake.peer else { throw .authenticationFailed }
    return (text, sender)
  }
}
