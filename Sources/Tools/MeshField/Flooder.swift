import Bitchat
import BitchatWire
import Common
import Crypto

/// Frames of an attacker that floods the mesh. It has a peer ID and keys like others, so that its links stay.
struct Flooder: Sendable {
  /// Interval between two bursts of frames of an attacker.
  static let pause = Duration.milliseconds(100)
  private static let heardLimit = 256

  private let settings: FloodSettings
  private var random: FieldRandom
  /// Announces of others, for replay.
  private var heard: [[UInt8]] = []
  private var turns = 0

  init(_ settings: FloodSettings, _ random: FieldRandom) {
    (self.settings, self.random) = (settings, random)
  }

  mutating func hear(_ bytes: [UInt8]) {
    guard bytes.count > 22, bytes[1] == MessageType.announce.rawValue else { return }
    if heard.count < Self.heardLimit { heard.append(bytes) } else { heard[random.number(below: heard.count)] = bytes }
  }

  /// Returns the frames for one link in this time slice.
  mutating func frames(_ identity: MeshEngine.Identity, at time: UInt64) -> [[UInt8]] {
    turns += 1
    var frames: [[UInt8]] = []
    for _ in 0..<share(settings.identities) { frames.append(contentsOf: stranger(at: time)) }
    for _ in 0..<share(settings.replays) where !heard.isEmpty {
      var bytes = heard[random.number(below: heard.count)]
      bytes[2] = Limits.timeToLive
      frames.append(bytes)
    }
    for _ in 0..<share(settings.requests) { frames.append(contentsOf: request(identity, at: time)) }
    for _ in 0..<share(settings.fragments) { frames.append(contentsOf: fragment(identity, at: time)) }
    return frames
  }

  /// Number of frames of a rate per second for this time slice.
  private mutating func share(_ rate: Int) -> Int {
    rate / 10 + (random.number(below: 10) < rate % 10 ? 1 : 0)
  }

  private mutating func stranger(at time: UInt64) -> [[UInt8]] {
    let noiseKey = X25519.PrivateKey(ephemeralFrom: &random)
    let signingKey = Ed25519.PrivateKey(inSlotsFrom: &random)
    let announcement = try? Announcement(
      nickname: "flood", noiseKey: noiseKey.publicKey, signingKey: signingKey.publicKey)
    guard let announcement else { return [] }
    let packet = Packet(
      type: .announce, timestamp: time, sender: announcement.peerID, payload: announcement.bytes)
    return [try? packet.signed(with: signingKey).encoded()].compactMap(\.self)
  }

  /// Makes a sync request with an empty filter.
  private func request(_ identity: MeshEngine.Identity, at time: UInt64) -> [[UInt8]] {
    guard let request = try? SyncRequest(filter: SyncFilter([PacketID]()), types: [.announce, .message, .fragment])
    else {
      return []
    }
    let packet = Packet(
      type: .requestSync, timeToLive: 0, timestamp: time &+ UInt64(turns % 50), sender: identity.id,
      payload: request.bytes)
    return [try? packet.signed(with: identity.signingKey).encoded()].compactMap(\.self)
  }

  private mutating func fragment(_ identity: MeshEngine.Identity, at time: UInt64) -> [[UInt8]] {
    guard let id = try? FragmentID(reading: random.bytes(FragmentID.size)),
      let fragment = try? Fragment(id: id, index: 0, total: 200, type: .message, slice: random.bytes(400))
    else { return [] }
    let packet = Packet(type: .fragment, timestamp: time, sender: identity.id, payload: fragment.bytes)
    return [try? packet.encoded()].compactMap(\.self)
  }
}
