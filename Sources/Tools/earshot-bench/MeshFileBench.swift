import Bitchat
import BitchatWire
import Common
import Crypto

/// A public file of 1 MiB between two engines of the mesh, over a link in virtual time: processor time of each end, the
/// best of several runs.
enum MeshFileBench {
  private static let turns = 5
  private static let link = LinkID(1)
  private static let epoch: UInt64 = 1_800_000_000_000

  static func run() -> [Figure] {
    var best: (sender: Double, receiver: Double)?
    for _ in 0..<turns {
      guard var pair = Pair(), let taken = pair.carry(bytes: 1 << 20) else { return [] }
      best = (min(best?.sender ?? .infinity, taken.sender), min(best?.receiver ?? .infinity, taken.receiver))
    }
    guard let best else { return [] }
    return [
      .less("mesh: send a 1 MiB file, processor time", best.sender * 1000, "ms"),
      .less("mesh: receive a 1 MiB file, processor time", best.receiver * 1000, "ms"),
    ]
  }

  /// Two mesh engines with a link between them.
  private struct Pair {
    private var engines: [MeshEngine] = []
    private var waiting: [[[UInt8]]] = [[], []]
    private var taken = [0.0, 0.0]
    private var files = 0
    private var now = Instant.zero

    private var time: UInt64 { epoch + UInt64(Instant.zero.duration(to: now) / .milliseconds(1)) }

    init?() {
      var random = SystemRandom()
      for name in ["ann", "bob"] {
        let identity = MeshEngine.Identity(
          noiseKey: X25519.PrivateKey(randomFrom: &random), signingKey: Ed25519.PrivateKey(randomFrom: &random))
        engines.append(
          MeshEngine(identity: identity, configuration: MeshEngine.Configuration(nickname: name), random: random))
      }
      for end in 0...1 {
        handle(.clock(isTrusted: true), at: end)
        handle(.start, at: end)
        handle(.linkOpened(link, frameLimit: 512, isOurs: end == 0), at: end)
      }
      pass(.seconds(5))
      guard engines[0].peer(engines[1].identity.id)?.isEarshot == true else { return nil }
    }

    /// - Returns: the processor time of each end, in seconds; nil if the file did not arrive.
    mutating func carry(bytes: Int) -> (sender: Double, receiver: Double)? {
      var random = SystemRandom()
      guard let file = try? SharedFile(name: "a.bin", mime: nil, content: random.bytes(bytes)) else { return nil }
      taken = [0, 0]
      let begin = processorTime()
      let actions = try? engines[0].send(file, to: nil, as: 1, at: now, time: time)
      taken[0] += processorTime() - begin
      carryOut(actions ?? [], of: 0)
      pass(.seconds(120))
      return files == 1 ? (taken[0], taken[1]) : nil
    }

    private mutating func handle(_ event: MeshEngine.Event, at end: Int) {
      let begin = processorTime()
      let actions = engines[end].handle(event, at: now, time: time)
      taken[end] += processorTime() - begin
      carryOut(actions, of: end)
    }

    private mutating func carryOut(_ actions: [MeshEngine.Action], of end: Int) {
      for action in actions {
        switch action {
        case .send(let bytes, _, _): waiting[end].append(bytes)
        case .file: files += 1
        default: break
        }
      }
    }

    /// Advances virtual time. Sent data arrives 5 ms later, and then no longer counts towards the link's capacity.
    private mutating func pass(_ duration: Duration) {
      let end = now.advanced(by: duration)
      while now < end, files == 0 {
        now = now.advanced(by: .milliseconds(5))
        for place in 0...1 {
          let frames = waiting[place]
          waiting[place] = []
          for frame in frames { handle(.received(frame, on: link), at: 1 - place) }
          if !frames.isEmpty { handle(.room(link, waiting: 0), at: place) }
          if let due = engines[place].deadline, due <= now { handle(.timer, at: place) }
        }
      }
    }
  }
}
