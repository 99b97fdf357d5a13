import Air
import BitchatWire
import Common
import Crypto
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Mesh files over a lossy radio")
struct LossyFileTests {
  init() { EventLoop.shared.runInBackground() }

  /// Whether a public file of 100 kB arrives two hops away within 90 s at 1 % loss of frames in each direction.
  ///
  /// - Parameter syncs: whether nodes can request missing fragments.
  @LoopActor
  private static func arrives(seed: UInt64, syncs: Bool = true) throws -> Bool {
    var conditions = AirConditions(commandLoss: 0.01, notificationLoss: 0.01)
    if !syncs {
      conditions.filter = { packet in
        packet.value.count > 1 && packet.value[1] == MessageType.requestSync.rawValue ? .drop : .deliver
      }
    }
    let village = Village(seed: seed, conditions: conditions)
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 8))
    let cid = village.add("cid", at: 16)
    // The two ends are out of each other's range.
    guard
      village.wait(.seconds(120), until: { bob.mesh.neighbours == 2 && cid.mesh.node.engine?.peer(ann.id)?.hops == 2 })
    else { return false }
    var random = SeededRandom(seed: seed)
    let content = random.bytes(100_000)
    _ = try ann.mesh.files.send(file: content, name: "lossy.bin", mime: "", to: "")
    var arrived: FileLog.Entry? {
      cid.mesh.files.log.numbers.compactMap { cid.mesh.files[$0] }.first { $0.name == "lossy.bin" }
    }
    guard village.wait(.seconds(90), until: { arrived != nil }), let number = arrived?.number else { return false }
    var found: [UInt8]?
    cid.mesh.files.open(number) { found = try? $0.get() }
    _ = village.wait(.seconds(1)) { found != nil }
    return found == content
  }

  @Test("With 1% frame loss, 19 of 20 files of 100 kB arrive over two hops within 90 s")
  @LoopActor
  func lossy() throws {
    let seeds = 1...UInt64(Extent.of(1, all: 20))
    let late = try seeds.filter { try !Self.arrives(seed: $0) }
    #expect(late.count <= seeds.count / 20, "late with \(late)")
  }

  /// Some 440 fragments must arrive without a loss: with one seed of a hundred they do.
  @Test("With frame loss and no requests for missing fragments, at most 1 of 10 files arrives")
  @LoopActor
  func withoutSync() throws {
    let seeds = 1...UInt64(Extent.of(2, all: 20))
    let arrived = try seeds.filter { try Self.arrives(seed: $0, syncs: false) }
    #expect(arrived.count <= seeds.count / 10, "with \(arrived)")
  }
}
