import TestSupport
import Testing

@testable import Verifier

@Suite("Whatever happens to a vault, it keeps its word")
struct VaultRandomTests {
  @Test(
    "20,000 random events: each asker is answered once and in time; what is said to be kept, accepted or erased is so",
    arguments: Seeds.few)
  func anything(seed: UInt64) {
    var model = VaultModel(seed: seed)
    model.handle(.start)
    while model.counts["event"] ?? 0 < 20_000 && model.complaints.isEmpty { model.step() }
    model.settle()
    #expect(model.complaints == [])
    // It did happen: each of these, many times, with a disk that was well.
    for (what, least) in [
      ("put well", 200), ("accept well", 100), ("remove well", 100), ("idle", 200), ("expire", 50), ("restore", 50),
      ("restart", 20), ("numbers", 20), ("verdict", 200), ("verdict on the disk", 30),
    ] {
      #expect(model.counts[what] ?? 0 >= least, "\(what): \(model.counts)")
    }
  }
}
