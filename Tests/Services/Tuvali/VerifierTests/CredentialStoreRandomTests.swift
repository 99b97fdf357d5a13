import TestSupport
import Testing

@testable import Verifier

@Suite("Random events of the credential store")
struct CredentialStoreRandomTests {
  @Test(
    "In 20,000 random events every request is answered once, in time and correctly",
    arguments: Seeds.few)
  func anything(seed: UInt64) {
    var model = CredentialStoreModel(seed: seed)
    model.handle(.start)
    while model.counts["event"] ?? 0 < 20_000 && model.complaints.isEmpty { model.step() }
    model.settle()
    #expect(model.complaints == [])
    // Each of these events did happen many times, with a working disk.
    for (what, least) in [
      ("put well", 200), ("accept well", 100), ("remove well", 100), ("idle", 200), ("expire", 50), ("restore", 50),
      ("restart", 20), ("numbers", 20), ("verdict", 200), ("verdict on the disk", 30),
    ] {
      #expect(model.counts[what] ?? 0 >= least, "\(what): \(model.counts)")
    }
  }
}
