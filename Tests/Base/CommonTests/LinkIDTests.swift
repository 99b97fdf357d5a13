import Common
import Testing

@Suite("LinkID")
struct LinkIDTests {
  @Test("Link IDs are compared and printed by their numbers")
  func number() {
    #expect(LinkID(7) == LinkID(7))
    #expect(LinkID(7) != LinkID(8))
    #expect("\(LinkID(7))" == "link 7")
  }
}
