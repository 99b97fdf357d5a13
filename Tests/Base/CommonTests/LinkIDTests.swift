import Common
import Testing

@Suite("LinkID")
struct LinkIDTests {
  @Test("A link is its number and shows it")
  func number() {
    #expect(LinkID(7) == LinkID(7))
    #expect(LinkID(7) != LinkID(8))
    #expect("\(LinkID(7))" == "link 7")
  }
}
