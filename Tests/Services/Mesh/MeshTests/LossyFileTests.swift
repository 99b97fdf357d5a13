import Air
import Bitchat
import Common
import Crypto
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Files over an air that loses frames")
struct LossyFileTests {
  init() { EventLoop.shared.runInBackground() }

  /// Whether 100 kB for all are two hops away within 90 s where one of a hundred frames is lost, each way.
  ///
  /// - Parameter syncs: whether nodes can ask each other for what they miss.
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
    // The ends do not hear each other.
    guard village.wait(.seconds(120), until: { bob.mesh.neighbours == 2 && cid.mesh.engine?.peer(ann.id)?.hops == 2 })
    else { return false }
    var random = SeededRandom(seed: seed)
    let content = random.bytes(100_000)
    _ = try ann.mesh.send(file: content, name: "lossy.bin", mime: "", to: "")
    var arrived: FileLog.Entry? {
      cid.mesh.files.numbers.compactMap { cid.mesh.files[$0] }.first { $0.name == "lossy.bin" }
    }
    guard village.wait(.seconds(90), until: { arrived != nil }), let number = arrived?.number else { return false }
    var found: [UInt8]?
    cid.mesh.open(file: number) { found = try? $0.get() }
    _ = village.wait(.seconds(1)) { found != nil }
    return found == content
  }

  @Test("Where one of a hundred frames is lost 100 kB are two hops away within 90 s, with nineteen of twenty seeds")
  @LoopActor
  func lossy() throws {
    let seeds = 1...UInt64(Extent.of(1, all: 20))
    let late = try seeds.filter { try !Self.arrives(seed: $0) }
    #expect(late.count <= seeds.count / 20, "late with \(late)")
  }

  /// Some 440 fragments have to come through: with one seed of a hundred they do.
  @Test("Without requests for what is missing hardly one of these files arrives")
  @LoopActor
  func withoutSync() throws {
    let seeds = 1...UInt64(Extent.of(2, all: 20))
    let arrived = try seeds.filter { try Self.arrives(seed: $0, syncs: false) }
    #expect(arrived.count <= seeds.count / 10, "with \(arrived)")
  }
}
