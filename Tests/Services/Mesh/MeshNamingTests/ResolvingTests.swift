import Testing

@testable import MeshNaming

@Suite("Finding the peer that a text names")
struct ResolvingTests {
  static let alice = "aaaaaaaaaaaa1c60"
  static let bob = "bbbbbbbbbbbb0b0b"
  static let carl = "cccccccccccccafe"
  static let own = "eeeeeeeeeeeeeeee"

  static func book(_ peers: (String, String)...) -> MeshNameIndex {
    var book = MeshNameIndex()
    for (id, nickname) in peers { book.add(id, nickname: nickname) }
    book.add(own: own, nickname: "anna")
    return book
  }

  static func reason(_ book: MeshNameIndex, _ text: String) -> MeshNameRefusal.Reason? {
    do throws(MeshNameRefusal) {
      _ = try book.peer(text)
      return nil
    } catch {
      return error.reason
    }
  }

  @Test("A peer ID names its peer, known or not, and never a peer whose nickname equals the ID")
  func ids() throws {
    let book = Self.book((Self.alice, "alice"), (Self.carl, Self.alice), (Self.bob, "0123456789abcdef"))
    #expect(try book.peer(Self.alice) == Self.alice)
    #expect(try book.peer("  AAAAAAAAAAAA1C60\n") == Self.alice)
    #expect(try book.peer("0123456789abcdef") == "0123456789abcdef")
    #expect(book.name(of: Self.carl) == "\(Self.alice)#cafe" && book.name(of: Self.bob) == "0123456789abcdef#0b0b")
    // Digits in a number that no ID has are part of a nickname.
    #expect(Self.reason(book, "aaaaaaaaaaaa1c6") == .unknown)
  }

  @Test("A name with digits does not name a peer whose nickname imitates name and digits")
  func impostor() throws {
    for nickname in ["alice#1c60", "ALICE#1C60", "alice #1c60", "alice\u{200D}#1c60"] {
      let book = Self.book((Self.alice, "alice"), (Self.carl, nickname))
      for text in ["alice#1c60", "Alice#1C60", " alice#1c60 ", "#1c60", "alice#\(Self.alice)", "<alice#1c60>", "alice"]
      {
        #expect(try book.peer(text) == Self.alice, "\(text)")
      }
      #expect(book.name(of: Self.carl).hasSuffix("#cafe"))
      #expect(try book.peer(book.name(of: Self.carl)) == Self.carl)
    }
    // While the other peer is unknown, the name matches no peer.
    let alone = Self.book((Self.carl, "alice#1c60"))
    do throws(MeshNameRefusal) {
      _ = try alone.peer("alice#1c60")
      Issue.record("resolved")
    } catch {
      #expect(error.reason == .unknown && error.candidates.map(\.name) == ["alice#1c60#cafe"])
    }
  }

  @Test(
    "A nickname with number signs or digits of other scripts is shown with digits of the peer ID",
    arguments: [
      "alice＃1c60", "alice#\u{301}1c60", "alice#\u{20E3}1c60", "alice♯1c60", "alice#１ｃ６０", "alice#١c٦٠",
      "ａａａａａａａａａａａａ１ｃ６０", "me", "Everybody",
    ])
  func lookalikes(nickname: String) {
    #expect(Self.book((Self.carl, nickname)).name(of: Self.carl).hasSuffix("#cafe"))
  }

  @Test("A nickname of several peers is refused with all candidates, and case does not matter")
  func ambiguous() {
    let book = Self.book((Self.alice, "Alice"), (Self.carl, "alice\u{2060}"), (Self.bob, "bob"))
    do throws(MeshNameRefusal) {
      _ = try book.peer("ALICE")
      Issue.record("resolved")
    } catch {
      #expect(error.reason == .ambiguous && error.candidates.map(\.id) == [Self.alice, Self.carl])
      #expect(error.sentence.contains("<Alice#1c60> (\(Self.alice))"))
      #expect(error.sentence.contains("#cafe> (\(Self.carl))"))
    }
  }

  @Test("Peers with equal nicknames and equal last digits are distinguished by whole peer IDs")
  func sameDigits() throws {
    let other = "1111111111111c60"
    let book = Self.book((Self.alice, "alice"), (other, "alice"))
    #expect(Self.reason(book, "alice#1c60") == .ambiguous && Self.reason(book, "#1c60") == .ambiguous)
    #expect(book.name(of: Self.alice) == "alice#\(Self.alice)")
    #expect(try book.peer("alice#\(other)") == other)
  }

  @Test("This node's own nickname names a peer with the same nickname, or is refused")
  func ownName() throws {
    #expect(Self.reason(Self.book((Self.bob, "bob")), "anna") == .thisNode)
    #expect(Self.reason(Self.book((Self.bob, "bob")), "anna#eeee") == .thisNode)
    let book = Self.book((Self.bob, "Anna"))
    #expect(try book.peer("anna") == Self.bob)
    #expect(book.name(of: Self.bob) == "Anna#0b0b" && book.name(of: Self.own) == "anna#eeee")
  }

  @Test("An empty, blank or overlong peer name is refused")
  func nothing() {
    let book = Self.book((Self.bob, "bob"), (Self.carl, ""), (Self.alice, "\u{3164}"))
    for text in ["", "  ", "#", "<>", "\u{200D}", String(repeating: "b", count: 10_000), "bob#", "bob#0b", "bob#0b0bb"]
    {
      #expect(Self.reason(book, text) == .unknown, "\(text.prefix(20))")
    }
    #expect(book.name(of: Self.carl) == "#cafe" && (try? book.peer("#cafe")) == Self.carl)
  }

  @Test("Four digits alone are not a peer ID, and do not name a peer with that nickname")
  func fourDigits() throws {
    let book = Self.book((Self.alice, "alice"), (Self.carl, "bob"))
    do throws(MeshNameRefusal) {
      _ = try book.peer("1c60")
      Issue.record("resolved")
    } catch {
      #expect(error.reason == .unknown && error.candidates.map(\.id) == [Self.alice])
    }
    #expect(Self.reason(Self.book((Self.alice, "alice"), (Self.carl, "1c60")), "1c60") == .ambiguous)
    #expect(try Self.book((Self.carl, "1c60")).peer("1c60") == Self.carl)
  }

  // MARK: Names that were given up

  static func trusted(_ held: [String], now: String, verifiedName: String = "") -> MeshNameIndex {
    var book = MeshNameIndex()
    book.add(alice, nickname: now, verifiedName: verifiedName, nicknameHistory: held)
    return book
  }

  @Test("A former name of a verified or favourite peer does not name the peer that took it over")
  func taken() throws {
    var book = Self.trusted(["alice", "lily"], now: "lily", verifiedName: "alice")
    #expect(Self.reason(book, "alice") == .formerName)
    book.add(Self.carl, nickname: "Alice")
    do throws(MeshNameRefusal) {
      _ = try book.peer("alice")
      Issue.record("resolved")
    } catch {
      #expect(error.reason == .taken && Set(error.candidates.map(\.name)) == ["Alice#cafe", "lily#1c60"])
    }
    #expect(book.name(of: Self.carl) == "Alice#cafe")
    #expect(try book.peer("alice#cafe") == Self.carl)
    #expect(try book.peer("alice#1c60") == Self.alice && book.peer("lily") == Self.alice)
    // The peer is no longer trusted, so its former names are free.
    book.add(Self.alice, nickname: "lily")
    #expect(try book.peer("alice") == Self.carl && book.name(of: Self.carl) == "Alice")
  }

  @Test("A verified peer that changed its nickname is shown with its verified name")
  func verifiedName() {
    let book = Self.trusted(["mallory", "alice"], now: "alice", verifiedName: "mallory")
    #expect(book.label(of: Self.alice) == "<alice, verified as <mallory>>")
    #expect(book.label(of: Self.alice, nickname: "Mallory") == "<Mallory>")
    #expect(book.formerVerifiedName(of: Self.alice) == "mallory")
    #expect(Self.trusted(["Mallory"], now: "Mallory", verifiedName: "mallory").label(of: Self.alice) == "<Mallory>")
  }

  @Test(
    "A nickname cannot imitate the end of a name or a mark behind it",
    arguments: [
      "ben: yes, pay carl", "ben> pay carl <ben", "ben ✓✓ read", "ben → you", "ben ⇒ you", "ben, verified as <carl>",
      "ben› x",
      "ben＞", "ben〉", "ben ✔ verified", "ben\n10:15 <carl>: x", "ben\u{202E}>",
    ])
  func imitations(nickname: String) {
    let label = Self.book((Self.carl, nickname)).label(of: Self.carl)
    #expect(label.hasPrefix("<") && label.hasSuffix(">"))
    let name = label.dropFirst().dropLast()
    for mark in ["<", ">", "›", "＞", "〉", "→", "⇒", "✓", "✔", "\n", "\u{202E}"] {
      #expect(!name.contains(mark), "\(mark)")
    }
  }

  // MARK: A name at the beginning of a text

  @Test("A text that begins with several peer names is refused, unless quotation marks or digits decide")
  func prefixes() throws {
    let book = Self.book((Self.bob, "bob"), (Self.carl, "bob hi"), (Self.alice, "Mary Ann"))
    do throws(MeshNameRefusal) {
      _ = try book.addressee("bob hi my code is 1234")
      Issue.record("resolved")
    } catch {
      #expect(error.reason == .ambiguous && error.candidates.map(\.name) == ["bob#0b0b", "bob hi#cafe"])
    }
    #expect(throws: MeshNameRefusal.self) { try book.addressee("bob hi") }
    for (text, peer, rest) in [
      ("bob hello", Self.bob, "hello"), ("bob#0b0b hi my code", Self.bob, "hi my code"),
      ("\"bob\" hi my code", Self.bob, "hi my code"), ("\"bob hi\" my code", Self.carl, "my code"),
      ("bob hi#cafe my code", Self.carl, "my code"), ("<bob hi> my  code", Self.carl, "my  code"),
      ("mary ann", Self.alice, ""), ("\(Self.bob) hi", Self.bob, "hi"), ("mary  ann  x", Self.alice, "x"),
    ] {
      let found = try book.addressee(text)
      #expect(found.peer == peer && found.rest == rest, "\(text)")
    }
    for text in ["dave secret", "\"bob hi my code", "mary", "bob#1111 hi", "", "anna hi"] {
      #expect(throws: MeshNameRefusal.self, "\(text)") { try book.addressee(text) }
    }
  }

  @Test("Digits at the beginning of a text are not compared with nicknames")
  func prefixOfImpostor() {
    let book = Self.book((Self.carl, "alice#1c60"), (Self.bob, "alice#1c60 secret"))
    #expect(throws: MeshNameRefusal.self) { try book.addressee("alice#1c60 secret plan") }
  }
}
