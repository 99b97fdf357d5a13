import Testing

@testable import MeshNaming

@Suite("Display of peer names")
struct ShownNamesTests {
  @Test("Two peers with one nickname are shown with four digits, which no nickname can imitate")
  func names() throws {
    var book = MeshNameIndex()
    book.add("000000000000aaaa", nickname: "alice")
    #expect(book.name(of: "000000000000aaaa") == "alice")
    book.add("000000000000bbbb", nickname: "Alice ")
    #expect(book.name(of: "000000000000aaaa") == "alice#aaaa" && book.name(of: "000000000000bbbb") == "Alice#bbbb")
    book.add("000000000000bbbb", nickname: "bob")
    #expect(try book.name(of: "000000000000aaaa") == "alice" && book.peer("alice") == "000000000000aaaa")
    // The sender of an old message, whose name belongs to another peer now.
    #expect(book.name(of: "000000000000bbbb", nickname: "alice") == "alice#bbbb")
    book.add("000000000000cccc", nickname: "bob#bbbb")
    #expect(book.name(of: "000000000000cccc") == "bob#bbbb#cccc")
    book.add("000000000000eeee", nickname: "")
    #expect(book.name(of: "000000000000eeee") == "#eeee" && book.label(of: "000000000000eeee") == "<#eeee>")
    #expect(book.names.count == 4)
  }

  @Test(
    "Two nicknames that differ only in invisible characters are treated as equal",
    arguments: [
      "alice\u{FE0F}", "ali\u{200D}ce", "alice\u{200C}", "\u{3164}alice", "alice \u{FFA0}", "al\u{034F}ice",
      "ALICE\u{2800}", "alice\u{115F} ", "a\u{AD}lice", "alice\u{200E}",
    ])
  func lookalikes(nickname: String) {
    var book = MeshNameIndex()
    book.add("000000000000aaaa", nickname: "alice")
    book.add("000000000000bbbb", nickname: nickname)
    #expect(book.name(of: "000000000000aaaa") == "alice#aaaa")
    #expect(book.name(of: "000000000000bbbb").hasSuffix("#bbbb"))
    #expect(throws: MeshNameRefusal.self) { try book.peer("alice") }
  }

  @Test("An invisible nickname is shown as digits of the peer ID, and arrows in a nickname are replaced")
  func blanksAndArrows() throws {
    let book = MeshNameIndex()
    for blank in ["\u{3164}", "\u{2800}\u{2800}", "\u{200D} \u{FE0F}"] {
      #expect(book.name(of: "000000000000aaaa", nickname: blank) == "#aaaa")
    }
    for arrow in ["→", "⟶", "➔", "⮕", "⇒", "➡\u{FE0F}"] {
      let scalar = try #require(arrow.unicodeScalars.first)
      let name = book.name(of: "000000000000aaaa", nickname: "alice \(arrow) you")
      #expect(
        name.unicodeScalars.starts(with: "alice \u{FFFD}".unicodeScalars) && name.hasSuffix(" you")
          && !name.unicodeScalars.contains(scalar))
    }
    #expect(book.name(of: "000000000000aaaa", nickname: "zoë ⭐ 👩\u{200D}🚀") == "zoë ⭐ 👩\u{200D}🚀")
  }
}
