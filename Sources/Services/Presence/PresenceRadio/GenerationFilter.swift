import Common
import Radio
import Thali

/// Decides which received advertisements are reported: a new generation at once, the same one again every 10 s.
///
/// The literal form of the document has no generation. Its beacons change together with the advertiser's own address,
/// so each new address of the advertiser counts as the next generation.
struct GenerationFilter: Sendable {
  private struct Sender: Sendable {
    var generation: UInt8
    var advertiser: BluetoothAddress
    var reported: Instant
  }

  static let repetition = Duration.seconds(10)
  private static let reportsPerSecond = 100

  private var senders: [DeviceAddress: Sender] = [:]
  private var bucket = TokenBucket(GenerationFilter.reportsPerSecond)
  /// Number of advertisements that were not reported because too many arrived.
  private(set) var tooFast: UInt64 = 0

  /// Number of stored senders.
  var count: Int { senders.count }

  /// Handles an advertisement of a device.
  ///
  /// - Parameters:
  ///   - generation: the generation of the advertisement; nil for the literal form.
  ///   - advertiser: the address from which it was sent.
  /// - Returns: the generation to report; nil if nothing is reported.
  mutating func receive(
    _ device: DeviceAddress, _ generation: UInt8?, from advertiser: BluetoothAddress, at now: Instant
  ) -> UInt8? {
    let known = senders[device]
    let version: UInt8
    if let generation {
      version = generation
    } else if let known {
      version = known.advertiser == advertiser ? known.generation : known.generation &+ 1
    } else {
      version = 0
    }
    if let known, known.generation == version, known.reported.duration(to: now) < Self.repetition {
      senders[device]?.advertiser = advertiser
      return nil
    }
    guard bucket.take(at: now) else {
      tooFast += 1
      return nil
    }
    if known == nil, senders.count >= Limits.waysOfOneKind {
      senders.min { $0.value.reported < $1.value.reported }.map { senders[$0.key] = nil }
    }
    senders[device] = Sender(generation: version, advertiser: advertiser, reported: now)
    return version
  }
}
