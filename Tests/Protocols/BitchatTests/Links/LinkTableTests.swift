import Common
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("The table of mesh links")
struct LinkTableTests {
  @Test("The values of the link table are sorted by link number, and a removed link has no value")
  func values() {
    var table = LinkTable<String>()
    for number in [5, 1, 9, 3] as [UInt64] { table[LinkID(number)] = "\(number)" }
    #expect(table.keys.map(\.number) == [1, 3, 5, 9] && table.values == ["1", "3", "5", "9"])
    #expect(table[LinkID(3)] == "3" && table[LinkID(4)] == nil)
    table[LinkID(3)] = nil
    table[LinkID(7)] = nil
    table[LinkID(9)] = "nine"
    if let index = table.index(of: LinkID(1)) { table.change(at: index) { $0 += "!" } }
    #expect(table.map { "\($0.key.number) \($0.value)" } == ["1 1!", "5 5", "9 nine"])
    #expect(table.count == 3 && !table.isEmpty && table.index(of: LinkID(3)) == nil)
  }
}
