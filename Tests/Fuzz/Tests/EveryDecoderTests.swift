import Crypto
import TestSupport
import Testing

/// The targets of the fuzzer without the fuzzer: random, but deterministic inputs.
@Suite("Fuzzing of every decoder")
struct EveryDecoderTests {
  /// The engines' targets play events and are slow; `HostileWalletTests` and `HostileVerifierTests` play more.
  private static func count(_ name: String) -> Int {
    switch name {
    case "verifier", "wallet", "social-import": Extent.of(100, all: 2000)
    case "mesh", "mesh-dialects": Extent.of(200, all: 5000)
    case "sightings", "remote-database", "noise-sessions": Extent.of(500, all: 10_000)
    default: Extent.of(2000, all: 10_000)
    }
  }

  @Test(
    "Each fuzzed decoder processes thousands of random and mutated inputs without a crash, and reaches its goals",
    arguments: Target.all.map(\.name))
  func hostile(name: String) throws {
    let target = try #require(Target.all.first { $0.name == name })
    let seeds = try target.seeds().filter { $0.count <= 4096 }
    #expect(!seeds.isEmpty)
    var random = SeededRandom(seed: 15)
    var reached: Set<String> = []
    for seed in seeds { reached.formUnion(Self.feed(target, seed)) }
    for _ in 0..<Self.count(name) { reached.formUnion(Self.feed(target, random.bytes(Self.below(64, &random)))) }
    for number in 0..<Self.count(name) {
      reached.formUnion(Self.feed(target, Self.mutated(seeds[number % seeds.count], &random)))
    }
    #expect(target.goals.subtracting(reached) == [])
  }

  private static func feed(_ target: Target, _ bytes: [UInt8]) -> Set<String> {
    bytes.withUnsafeBytes { target.play($0) }
  }

  /// The seed with some bytes changed, inserted, removed or repeated.
  private static func mutated(_ seed: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
    var bytes = seed
    for _ in 0...below(4, &random) {
      let place = below(bytes.count + 1, &random)
      switch below(5, &random) {
      case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8(below(8, &random))
      case 1 where place < bytes.count: bytes[place] = [0, 1, 0x7F, 0x80, 0xFF][below(5, &random)]
      case 2: bytes.insert(contentsOf: random.bytes(1 + below(4, &random)), at: place)
      case 3: bytes.removeSubrange(place..<min(bytes.count, place + 1 + below(4, &random)))
      default: bytes = Array(bytes.prefix(below(2, &random) == 0 ? place : bytes.count))
      }
    }
    return bytes
  }

  private static func below(_ bound: Int, _ random: inout SeededRandom) -> Int {
    let bytes = random.bytes(2)
    return (Int(bytes[0]) << 8 | Int(bytes[1])) % bound
  }
}
