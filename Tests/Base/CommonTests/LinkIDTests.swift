import Common
import Testing

@Suite("LinkID")
struct LinkIDTests {
  @Test("A link ID equals its number and prints it")
  func number() {
    #expect(LinkID(7) == LinkID(7))
    #expect(LinkID(7) != LinkID(8))
    #expect("\(LinkID(7))" == "link 7")
  }
}
