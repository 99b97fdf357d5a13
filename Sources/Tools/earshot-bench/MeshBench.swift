import BitchatWire
import Bytes
import Crypto

/// Packets of the mesh on one core: processor time, the best of several runs. Operations of a library are compared with
/// direct calls of it.
enum MeshBench {
  private static let turns = 5
  private static let packets = 20_000
  private static let signatures = 2_000
  private static let filters = 500
  private static let sender = PeerID(rawValue: 0x0102_0304_0506_0708)

  static func run() -> [Figure] {
    var random = SystemRandom()
    guard let frames = try? frames(&random), let signed = try? signed(&random) else { return [] }
    let hash = KeyedHash(randomFrom: &random)
    let ids = (0..<1000).compactMap { _ in try? PacketID(reading: random.bytes(PacketID.size)) }
    var best = (decode: 0.0, duplicates: 0.0, verify: 0.0, bare: 0.0, filters: 0.0)
    for _ in 0..<turns {
      let seen = remembered(frames, hash)
      best.decode = max(best.decode, seen.rate)
      best.duplicates = max(best.duplicates, recognised(frames, hash, among: seen.keys))
      best.verify = max(best.verify, verified(signed.frames, signed.key))
      best.bare = max(best.bare, bareVerified(signed.frames, signed.key))
      best.filters = max(best.filters, filtered(ids))
    }
    return [
      .more("mesh: decode + dedup, 100 to 300 bytes", best.decode, "1/s", goal: 150_000),
      .more("mesh: duplicates by header and payload", best.duplicates, "1/s", goal: 600_000),
      .more("mesh: decode + signature, 100 to 300 bytes", best.verify, "1/s"),
      .more("signature verification alone, libsodium", best.bare, "1/s"),
      .more(
        "mesh: decode + signature, share of libsodium's speed", best.bare > 0 ? best.verify / best.bare : 0, "",
        goal: 0.85),
      .more("mesh: encode + decode a filter, 400 bytes, 1000 IDs", best.filters, "1/s", goal: 5_000),
    ]
  }

  /// Packets of 100 to 300 bytes without a signature, from 50 senders.
  private static func frames(_ random: inout SystemRandom) throws(PacketError) -> [[UInt8]] {
    var frames: [[UInt8]] = []
    for number in 0..<packets {
      let packet = Packet(
        type: .message, timestamp: 1_755_432_100_123 + UInt64(number), sender: PeerID(rawValue: UInt64(number % 50)),
        payload: random.bytes(100 + number % 201 - Limits.smallestPacket))
      frames.append(try packet.encoded())
    }
    return frames
  }

  /// Packets of 100 to 300 bytes with a signature.
  private static func signed(
    _ random: inout SystemRandom
  ) throws(PacketError) -> (frames: [[UInt8]], key: Ed25519.PublicKey) {
    let key = Ed25519.PrivateKey(randomFrom: &random)
    var frames: [[UInt8]] = []
    for number in 0..<signatures {
      let count = 100 + number % 201 - Limits.smallestPacket - Ed25519.signatureSize
      let packet = Packet(
        type: .message, timestamp: 1_755_432_100_123 + UInt64(number), sender: sender, payload: random.bytes(count))
      frames.append(try packet.signed(with: key).encoded())
    }
    return (frames, key.publicKey)
  }

  /// Packets per second that are decoded and added to the known packets.
  private static func remembered(_ frames: [[UInt8]], _ hash: KeyedHash) -> (rate: Double, keys: Set<WireKey>) {
    var keys = Set<WireKey>(minimumCapacity: frames.count)
    var ids = Set<PacketID>(minimumCapacity: frames.count)
    let seconds = time {
      for frame in frames {
        guard let view = try? PacketView(frame), let packet = try? Packet(view),
          ids.insert(PacketID(packet)).inserted
        else { continue }
        keys.insert(view.wireKey(hash))
      }
    }
    return (Double(ids.count) / seconds, keys)
  }

  private static func recognised(_ frames: [[UInt8]], _ hash: KeyedHash, among keys: Set<WireKey>) -> Double {
    var count = 0
    let seconds = time {
      for frame in frames {
        guard let view = try? PacketView(frame), keys.contains(view.wireKey(hash)) else { continue }
        count += 1
      }
    }
    return Double(count) / seconds
  }

  private static func verified(_ frames: [[UInt8]], _ key: Ed25519.PublicKey) -> Double {
    var count = 0
    let seconds = time {
      for frame in frames {
        guard let view = try? PacketView(frame), let packet = try? Packet(view),
          SignatureCheck(view, decoded: packet, key: key).isValid
        else { continue }
        count += 1
      }
    }
    return Double(count) / seconds
  }

  /// Verifications per second with `crypto_sign_verify_detached` alone.
  private static func bareVerified(_ frames: [[UInt8]], _ key: Ed25519.PublicKey) -> Double {
    let signed = frames.compactMap { try? PacketView($0) }.map { ($0.signingPreimage, Array($0.signature ?? [])) }
    var count = 0
    let seconds = time {
      for (preimage, signature) in signed where key.verify(signature, of: preimage) { count += 1 }
    }
    return Double(count) / seconds
  }

  private static func filtered(_ ids: [PacketID]) -> Double {
    var values = 0
    let seconds = time {
      for _ in 0..<filters { values += SyncFilter(ids).values().count }
    }
    return values > 0 ? Double(filters) / seconds : 0
  }

  /// Processor time of this thread for `body`, in seconds.
  private static func time(_ body: () -> Void) -> Double {
    let begin = processorTime()
    body()
    return processorTime() - begin
  }
}
