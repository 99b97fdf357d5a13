import Bytes

/// Content of a decrypted Noise packet: one byte of type, and the value. Facts: bitchat.md section 5.2. Layout:
///
///     01  private message           10  verification challenge
///     02  read: a message ID        11  answer to a challenge
///     03  delivered: a message ID   20  file
///                                   21  state of the peer
public enum NoisePayload: Hashable, Sendable {
  case privateMessage(PrivateMessage)
  case read(MessageID)
  case delivered(MessageID)
  case verificationChallenge(VerificationChallenge)
  case verificationResponse(VerificationResponse)
  case file(SharedFile)
  case peerState(PeerState)

  /// Decodes a plaintext. Throws `unknownType` for voice, groups and vouches.
  public init(reading plaintext: [UInt8]) throws(NoisePayloadError) {
    guard let type = plaintext.first else { throw .empty }
    let rest = plaintext.dropFirst()
    let payload: NoisePayload?
    do throws(WireError) {
      payload = try Self.read(type, rest)
    } catch {
      throw .malformed(error)
    }
    guard let payload else { throw .unknownType(type) }
    self = payload
  }

  private static func read(_ type: UInt8, _ rest: ArraySlice<UInt8>) throws(WireError) -> NoisePayload? {
    switch type {
    case 0x01: .privateMessage(try PrivateMessage(reading: rest))
    case 0x02: .read(try MessageID(bytes: rest))
    case 0x03: .delivered(try MessageID(bytes: rest))
    case 0x10: .verificationChallenge(try VerificationChallenge(reading: rest))
    case 0x11: .verificationResponse(try VerificationResponse(reading: rest))
    // Files had type 09 for a short time.
    case 0x20, 0x09: .file(try Self.file(rest))
    case 0x21: .peerState(try PeerState(reading: rest))
    default: nil
    }
  }

  private static func file(_ rest: ArraySlice<UInt8>) throws(WireError) -> SharedFile {
    var reader = ByteReader(rest)
    return try SharedFile(reading: &reader)
  }

  /// The message that a receipt is for; nil for other payloads.
  package var acknowledged: MessageID? {
    switch self {
    case .read(let id), .delivered(let id): id
    default: nil
    }
  }

  /// The payload encoded as the plaintext of a Noise message.
  public var bytes: [UInt8] {
    var writer = ByteWriter()
    switch self {
    case .privateMessage(let message):
      writer.u8(0x01)
      message.write(to: &writer)
    case .read(let message):
      writer.u8(0x02)
      writer.append(message.text.utf8)
    case .delivered(let message):
      writer.u8(0x03)
      writer.append(message.text.utf8)
    case .verificationChallenge(let challenge):
      writer.u8(0x10)
      challenge.write(to: &writer)
    case .verificationResponse(let response):
      writer.u8(0x11)
      response.write(to: &writer)
    case .file(let file):
      writer.u8(0x20)
      file.write(to: &writer)
    case .peerState(let state):
      writer.u8(0x21)
      state.write(to: &writer)
    }
    return writer.bytes
  }
}

/// Reason why the plaintext of a Noise packet is rejected. It is dropped and not acknowledged.
public enum NoisePayloadError: Error, Hashable, Sendable {
  case empty
  /// The type is unknown, or known and not supported.
  case unknownType(UInt8)
  case malformed(WireError)
}

extension NoisePayloadError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .empty: "an empty Noise payload"
    case .unknownType(let type): "unknown Noise payload type \(type)"
    case .malformed(let error): "a malformed Noise payload: \(error)"
    }
  }
}
