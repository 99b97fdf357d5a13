import Crypto

@testable import Bitchat
@testable import BitchatWire

/// A peer whose packets, valid and invalid, the test makes.
struct Stranger {
  let noiseKey: X25519.PrivateKey
  let signingKey: Ed25519.PrivateKey
  let nickname: String
  var id: PeerID { PeerID(noiseKey: noiseKey.publicKey) }

  init(_ number: UInt64, nickname: String? = nil) {
    var random = SeededRandom(seed: 0x5747_0000_0000 + number)
    noiseKey = X25519.PrivateKey(randomFrom: &random)
    signingKey = Ed25519.PrivateKey(randomFrom: &random)
    self.nickname = nickname ?? "stranger \(number)"
  }

  /// The Noise identity of a stranger with another signing key.
  init(_ other: Stranger, signingWith number: UInt64) {
    noiseKey = other.noiseKey
    signingKey = Stranger(number).signingKey
    nickname = other.nickname
  }

  func packet(
    _ type: MessageType, _ payload: [UInt8], at time: UInt64, to recipient: PeerID? = nil,
    timeToLive: UInt8 = Limits.timeToLive, isSigned: Bool = true, isSyncAnswer: Bool = false
  ) -> [UInt8] {
    var packet = Packet(
      type: type, timeToLive: timeToLive, timestamp: time, sender: id, recipient: recipient, payload: payload,
      isSyncAnswer: isSyncAnswer)
    if payload.count > Int(UInt16.max) { packet.version = .v2 }
    do {
      if isSigned { packet = try packet.signed(with: signingKey) }
      return try packet.encoded()
    } catch {
      return []
    }
  }

  func announce(
    at time: UInt64, timeToLive: UInt8 = Limits.timeToLive, isSyncAnswer: Bool = false, isSigned: Bool = true,
    capabilities: Capabilities? = nil, isEarshot: Bool = false
  ) -> [UInt8] {
    let announcement = try? Announcement(
      nickname: nickname, noiseKey: noiseKey.publicKey, signingKey: signingKey.publicKey, capabilities: capabilities,
      isEarshot: isEarshot)
    return packet(
      .announce, announcement?.bytes ?? [], at: time, timeToLive: timeToLive, isSigned: isSigned,
      isSyncAnswer: isSyncAnswer)
  }

  func line(
    _ text: String, at time: UInt64, to recipient: PeerID? = nil, timeToLive: UInt8 = Limits.timeToLive,
    isSyncAnswer: Bool = false
  ) -> [UInt8] {
    packet(
      .message, Array(text.utf8), at: time, to: recipient, timeToLive: timeToLive, isSyncAnswer: isSyncAnswer)
  }

  func fragment(
    _ id: UInt64, _ index: UInt16, of total: UInt16, _ slice: [UInt8], at time: UInt64, to recipient: PeerID? = nil,
    type: MessageType = .message, timeToLive: UInt8 = Limits.timeToLive
  ) -> [UInt8] {
    var payload = withUnsafeBytes(of: id.bigEndian, Array.init)
    payload += withUnsafeBytes(of: index.bigEndian, Array.init) + withUnsafeBytes(of: total.bigEndian, Array.init)
    payload += [type.rawValue] + slice
    return packet(.fragment, payload, at: time, to: recipient, timeToLive: timeToLive, isSigned: false)
  }

  /// The fragments of a packet.
  func fragments(of bytes: [UInt8], frameLimit: Int = 512) -> [[UInt8]] {
    guard let view = try? PacketView(bytes),
      let plan = FragmentPlan(view, id: FragmentID(rawValue: view.timestamp), frameLimit: frameLimit)
    else { return [] }
    return plan.fragments.compactMap { try? $0.encoded() }
  }
}

extension [UInt8] {
  /// A copy with another byte at this index.
  func with(_ byte: UInt8, at index: Int) -> [UInt8] {
    var copy = self
    copy[index] = byte
    return copy
  }

  /// A copy of the packet with another timestamp, which its signature does not cover.
  func with(time: UInt64) -> [UInt8] {
    var copy = self
    copy.replaceSubrange(3..<11, with: Swift.withUnsafeBytes(of: time.bigEndian, Array.init))
    return copy
  }

  /// A copy of the packet with another sender.
  func with(sender: PeerID) -> [UInt8] {
    var copy = self
    copy.replaceSubrange(14..<22, with: sender.bytes)
    return copy
  }

  /// A copy with all bits of one byte inverted; a negative index counts from the end.
  func flipped(at index: Int) -> [UInt8] {
    let place = index < 0 ? count + index : index
    return with(~self[place], at: place)
  }
}
