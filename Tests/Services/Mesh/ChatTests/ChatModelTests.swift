import FullScreen
import MeshViews
import Testing

@testable import Chat

@Suite("What the chat does")
struct ChatModelTests {
  @Test("A line is said to everybody, or told to the peer whose conversation is open")
  func saying() {
    var sitting = Sitting()
    sitting.enter("Hello")
    sitting.enter("//me waves")
    sitting.enter("   ")
    sitting.press(.enter)
    #expect(sitting.taken() == [.say("Hello"), .say("/me waves")])
    sitting.press(.control("n"))
    sitting.enter("Tea?")
    sitting.enter("/msg carol for you alone")
    sitting.enter("and this")
    sitting.enter("/all")
    sitting.enter("Bye")
    #expect(
      sitting.taken() == [
        .tell(peer: Sitting.bob, "Tea?"), .tell(peer: Sitting.carol, "for you alone"),
        .tell(peer: Sitting.carol, "and this"),
        .say("Bye"),
      ])
  }

  @Test("What is mistyped sends nothing, and the status line says why")
  func mistyped() {
    let lines = [
      ("/mgs bob secret", "There is no command /mgs"), ("/msg", "/msg NAME TEXT"),
      ("/msg dave secret", "Nobody is known"),
      ("/favourite", "Say which peer"), ("/block bob now", "Nobody is known"), ("/nick", "/nick NAME"),
      ("/verify yes", "Say which"),
    ]
    for (line, remark) in lines {
      var sitting = Sitting()
      sitting.enter(line)
      #expect(sitting.taken() == [], "\(line)")
      #expect(sitting.status.contains(remark), "\(line): \(sitting.status)")
      sitting.type("x")
      #expect(!sitting.status.contains(remark))
    }
    var sitting = Sitting(peers: [Sitting.peer(Sitting.bob, "bob"), Sitting.peer(Sitting.carol, "bob")])
    sitting.enter("/msg bob secret")
    #expect(sitting.taken() == [] && sitting.status.contains("Several have that name: bob#11bb, bob#22cc"))
    sitting.enter("/msg bob#22cc secret")
    #expect(sitting.taken() == [.tell(peer: Sitting.carol, "secret")])
  }

  @Test("A name with blanks is found, the longest that fits")
  func blanks() {
    var sitting = Sitting(peers: [Sitting.peer(Sitting.bob, "Mary"), Sitting.peer(Sitting.carol, "Mary Ann")])
    sitting.enter("/msg mary ann hi there")
    sitting.enter("/msg mary hi")
    #expect(sitting.taken() == [.tell(peer: Sitting.carol, "hi there"), .tell(peer: Sitting.bob, "hi")])
  }

  @Test("Favourites, blocking, nickname and quitting")
  func commands() {
    var sitting = Sitting()
    sitting.enter("/favourite bob")
    sitting.enter("/block bob")
    sitting.enter("/nick Anna of the hill")
    sitting.press(.control("n"))
    sitting.enter("/favourite")
    var blocked = Sitting.peer(Sitting.bob, "bob")
    blocked.isBlocked = true
    sitting.feed(.peers([blocked]))
    sitting.enter("/block")
    sitting.enter("/quit")
    sitting.press(.control("c"), .control("d"))
    #expect(
      sitting.taken() == [
        .favourite(peer: Sitting.bob, true), .block(peer: Sitting.bob, true), .setNickname("Anna of the hill"),
        .favourite(peer: Sitting.bob, true), .block(peer: Sitting.bob, false), .quit, .quit, .quit,
      ])
    sitting.type("x")
    sitting.press(.control("d"))
    #expect(sitting.taken() == [])
  }

  @Test("A peer is verified by the fingerprint that was shown, and only when told so")
  func verify() {
    var sitting = Sitting()
    sitting.enter("/verify bob")
    #expect(sitting.taken() == [])
    let text = sitting.messages.joined(separator: " ").split(separator: " ").joined(separator: " ")
    #expect(text.contains("1b1b 1b1b") && text.contains("0a0a 0a0a") && text.contains("/verify yes"))
    sitting.enter("/verify yes")
    let news = sitting.messages.joined(separator: " ").split(separator: " ").joined(separator: " ")
    #expect(news.contains("when it has proven its signing key"))
    sitting.enter("/verify no")
    #expect(
      sitting.taken() == [
        .verify(peer: Sitting.bob, fingerprint: String(repeating: "1b", count: 32)),
        .verify(peer: Sitting.bob, fingerprint: ""),
      ])
  }

  @Test("A peer proves the code that it shows, and what becomes of it is said")
  func proof() {
    var sitting = Sitting()
    sitting.enter("/verify bitchat://verify?v=1&noise=ab  cd")
    #expect(sitting.taken() == [.verifyCode("bitchat://verify?v=1&noise=abcd")])
    for (proof, words) in [
      (MeshProof.proven, "bob is verified."), (.wrong, "It is somebody else."), (.noAnswer, "it did not answer."),
      (.gone, "it has left."), (.blocked, "it is blocked."), (.asked, "gave none within the time."),
    ] {
      sitting.feed(.proof(peer: Sitting.bob, proof))
      let text = sitting.messages.joined(separator: " ").split(separator: " ").joined(separator: " ")
      #expect(text.contains(words), "\(proof)")
    }
  }

  @Test("Tab completes commands and names, those near first, and goes on to the next")
  func completion() {
    var sitting = Sitting(peers: [
      Sitting.peer(Sitting.bob, "Bob"), Sitting.peer(Sitting.carol, "bo", hops: 0),
      Sitting.peer("33333333333333dd", "Bo Derek"),
    ])
    sitting.type("bo")
    var seen: [String] = []
    for _ in 0..<4 {
      sitting.press(.tab)
      seen.append(sitting.model.input.text)
    }
    #expect(seen == ["Bo Derek: ", "Bob: ", "bo: ", "Bo Derek: "])
    sitting.press(.control("u"))
    sitting.type("ask b")
    sitting.press(.tab)
    #expect(sitting.model.input.text == "ask Bo Derek ")
    sitting.press(.control("u"))
    sitting.type("/ms")
    sitting.press(.tab)
    sitting.type("bob")
    sitting.press(.tab)
    sitting.type("hi")
    #expect(sitting.model.input.text == "/msg Bob hi")
    sitting.press(.enter)
    #expect(sitting.taken() == [.tell(peer: Sitting.bob, "hi")])
    sitting.type("xyz")
    sitting.press(.tab)
    #expect(sitting.model.input.text == "xyz")
    sitting.press(.control("u"))
    sitting.type("/msg bo d")
    sitting.press(.tab)
    #expect(sitting.model.input.text == "/msg Bo Derek ")
  }

  @Test("Messages are marked as read when their conversation is on the screen, down to its end, and not before")
  func reading() {
    var sitting = Sitting(rows: 10)
    sitting.hear(Sitting.carol, "1", to: Sitting.carol)
    sitting.hear(Sitting.carol, "2", to: Sitting.carol)
    #expect(sitting.taken() == [])
    #expect(sitting.model.conversations[Sitting.carol]?.unread == 2)
    sitting.press(.control("p"))
    #expect(sitting.taken() == [.markRead(2)])
    #expect(sitting.model.conversations[Sitting.carol]?.unread == 0)
    for number in 0..<20 { sitting.hear(Sitting.carol, "\(number)", to: Sitting.carol, state: .seen) }
    sitting.press(.pageUp)
    sitting.hear(Sitting.carol, "new", to: Sitting.carol)
    #expect(sitting.taken() == [])
    sitting.press(.pageDown)
    #expect(sitting.taken() == [])
    sitting.press(.pageDown)
    #expect(sitting.taken() == [.markRead(23)])
    sitting.feed(.serviceWent)
    sitting.hear(Sitting.carol, "late", to: Sitting.carol)
    #expect(sitting.taken() == [])
  }

  @Test("Scrolling back shows what was before, what is read stays in its place, and no key leads beyond the ends")
  func scrollback() {
    var sitting = Sitting()
    for number in 1...100 { sitting.hear(Sitting.bob, "line \(number)", state: .seen) }
    #expect(sitting.messages.first == "14:02 bob: line 80" && sitting.messages.last == "14:02 bob: line 100")
    sitting.press(.pageUp)
    let before = sitting.messages
    #expect(before.last == "14:02 bob: line 80")
    sitting.hear(Sitting.bob, String(repeating: "long ", count: 30))
    #expect(sitting.messages == before)
    #expect(sitting.status.contains("more lines below"))
    for _ in 0..<20 { sitting.press(.pageUp) }
    #expect(sitting.messages.first?.contains("Sunday") == true && sitting.messages.count == 21)
    for _ in 0..<20 { sitting.press(.pageDown) }
    #expect(sitting.messages.contains("14:02 bob: line 100"))
    #expect(!sitting.status.contains("below"))
    sitting.press(.pageUp)
    sitting.enter("back")
    #expect(!sitting.status.contains("below"))
  }

  @Test("What is being read stays where it is while older messages go, and is as near as can be once it goes itself")
  func trimmed() {
    var sitting = Sitting()
    for number in 1...2200 { sitting.hear(Sitting.bob, "\(number)", state: .seen) }
    sitting.press(.pageUp)
    let before = sitting.messages
    sitting.hear(Sitting.bob, "one more", state: .seen)
    #expect(sitting.model.conversations[""]?.entries.count == 2000)
    #expect(sitting.messages == before)
    for _ in 0..<200 { sitting.press(.pageUp) }
    let first = sitting.messages
    for number in 1...201 { sitting.hear(Sitting.bob, "later \(number)", state: .seen) }
    #expect(sitting.messages.count == first.count && sitting.messages.last?.contains("bob") == true)
    let scroll = sitting.model.conversations[""]?.scroll ?? -1
    #expect(scroll >= 0)
  }

  @Test("A conversation keeps its last two thousand messages")
  func bounded() {
    var sitting = Sitting()
    for number in 1...5000 { sitting.hear(Sitting.bob, "\(number)", state: .seen) }
    let entries = sitting.model.conversations[""]?.entries ?? []
    #expect((2000...2200).contains(entries.count))
    #expect(sitting.messages.last == "14:02 bob: 5000")
  }

  @Test("A message that is listed twice is shown once")
  func twice() {
    var sitting = Sitting()
    sitting.hear(Sitting.bob, "once")
    let message = MeshMessageView(
      number: 1, time: Sitting.noon, conversation: "", sender: Sitting.bob, nickname: "bob", text: "once", state: .seen)
    sitting.feed(.messages([message]))
    #expect(sitting.messages.count == 2)
  }

  @Test("Without the service nothing is sent or lost; when it is back all is listed anew")
  func service() {
    var sitting = Sitting()
    sitting.hear(Sitting.bob, "before")
    _ = sitting.taken()
    sitting.feed(.serviceWent)
    #expect(sitting.rows[0].contains("no service") && sitting.status.contains("not running"))
    sitting.enter("hello")
    #expect(
      sitting.taken() == [] && sitting.model.input.text == "hello" && sitting.status.contains("nothing can be sent"))
    sitting.feed(.serviceCame)
    #expect(sitting.model.latest == 0 && sitting.messages.allSatisfy { !$0.contains("before") })
    sitting.press(.enter)
    #expect(sitting.taken() == [.say("hello")])
  }

  @Test("A text that could not be sent comes back into the input, with the reason")
  func failing() {
    var sitting = Sitting()
    sitting.enter("//hello")
    sitting.feed(.failed(.say("/hello"), "The clock is not known to be right."))
    #expect(sitting.model.input.text == "//hello")
    #expect(sitting.messages.last == "   -- The clock is not known to be right.")
    sitting.feed(.failed(.markRead(3), "no"))
    #expect(!sitting.messages.contains { $0.hasSuffix("-- no") })
    sitting.feed(.failed(.tell(peer: Sitting.bob, "other"), "x"))
    #expect(sitting.model.input.text == "//hello")
  }

  @Test("Help fits its screen")
  func help() {
    var sitting = Sitting()
    sitting.enter("/help")
    #expect(sitting.messages.first?.contains("/msg NAME") == true, "\(sitting.messages)")
    #expect(sitting.messages.last?.contains("unread") == true)
  }

  @Test("What was sent comes back with the up key")
  func recall() {
    var sitting = Sitting()
    sitting.enter("one")
    sitting.enter("two")
    sitting.press(.up, .up, .up)
    #expect(sitting.model.input.text == "one")
    sitting.press(.down)
    #expect(sitting.model.input.text == "two")
    sitting.press(.down, .down)
    #expect(sitting.model.input.isEmpty)
  }
}
