import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Limits of signature checks and new peer IDs")
struct WorkBudgetTests {
  private func moment(_ milliseconds: Int) -> Instant { .zero.advanced(by: .milliseconds(milliseconds)) }

  @Test(
    "A link has 270 checks a second of 900 plus 30 per link; known announces have 30 more, and 70 in common"
  )
  func signatures() {
    var budget = WorkBudget()
    func checked(_ link: UInt64, known: Bool = false) -> Int {
      (0..<2000).count { _ in budget.takeSignature(on: LinkID(link), isKnownAnnounce: known, at: moment(0)) }
    }
    let first = checked(1)
    #expect(first == 270)
    let rest = (2...8).map { checked($0) }.reduce(0, +)
    #expect(first + rest == 900 + 5 * 30)
    let known = checked(1, known: true)
    #expect(known == 30)
    let ofOthers = (2...8).map { checked($0, known: true) }.reduce(0, +)
    #expect(ofOthers == 70)
  }

  @Test("A new peer ID that is refused by the limit of all links does not use up its own link's limit")
  func givenBack() {
    var budget = WorkBudget()
    for link in UInt64(1)...3 {
      for _ in 0..<10 { _ = budget.takeIdentity(on: LinkID(link), at: moment(0)) }
    }
    for _ in 0..<10 {
      let taken = budget.takeIdentity(on: LinkID(4), at: moment(0))
      #expect(!taken)
    }
    // A second later 30 are available to all links, and the fourth link has its full ten.
    let later = (0..<20).count { _ in budget.takeIdentity(on: LinkID(4), at: moment(1000)) }
    #expect(later == 10)
  }
}
