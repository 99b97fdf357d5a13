import FullScreen
import MeshViews
import Testing

@testable import Chat

@Suite("Commands and keys of `earshot chat`")
struct ChatModelTests {
  @Test("Chat input is sent as a public message, or as a private one in an open private conversation")
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

  @Test("A mistyped chat command sends nothing, and the status line gives the reason")
  func mistyped() {
    let lines = [
      ("/mgs bob secret", "There is no command /mgs"), ("/msg", "/msg NAME TEXT"),
      ("/msg dave secret", "No peer is called <dave>."),
      ("/favourite", "Name a peer"), ("/block bob now", "No peer is called <bob now>."), ("/nick", "/nick NAME"),
      ("/verify yes", "Name a peer"),
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
    let told = sitting.messages.joined(separator: " ")
    #expect(sitting.taken() == [] && sitting.status.contains("Nothing was sent"))
    #expect(told.contains("<bob#11bb>") && told.contains("<bob#22cc>"))
    sitting.enter("/msg bob#22cc secret")
    #expect(sitting.taken() == [.tell(peer: Sitting.carol, "secret")])
  }

  @Test("A chat command finds a peer name with blanks, and sends nothing if a name is ambiguous")
  func blanks() {
    var sitting = Sitting(peers: [Sitting.peer(Sitting.bob, "Mary"), Sitting.peer(Sitting.carol, "Mary Ann")])
    sitting.enter("/msg mary hi")
    #expect(sitting.taken() == [.tell(peer: Sitting.bob, "hi")])
    sitting.enter("/msg mary ann hi there")
    #expect(sitting.taken() == [])
    #expect(sitting.messages.joined().contains("<Mary Ann#22cc>"))
    sitting.enter("/msg \"mary ann\" hi there")
    sitting.enter("/msg mary#11bb ann says hi")
    #expect(
      sitting.taken() == [.tell(peer: Sitting.carol, "hi there"), .tell(peer: Sitting.bob, "ann says hi")])
    sitting.enter("/block mary ann")
    #expect(sitting.taken() == [.block(peer: Sitting.carol, true)])
  }

  @Test("A peer whose nickname imitates another peer's name and digits gets neither its messages nor its marks")
  func impostor() {
    var sitting = Sitting(peers: [Sitting.peer(Sitting.bob, "bob"), Sitting.peer(Sitting.carol, "bob#11bb")])
    sitting.enter("/msg bob#11bb secret")
    sitting.enter("/favourite bob#11bb")
    sitting.enter("/msg \(Sitting.bob) secret")
    #expect(
      sitting.taken() == [
        .tell(peer: Sitting.bob, "secret"), .favourite(peer: Sitting.bob, true), .tell(peer: Sitting.bob, "secret"),
      ])
  }

  @Test("The chat shows the result of a command only after the service has confirmed it")
  func done() {
    var sitting = Sitting()
    for (action, words) in [
      (ChatAction.block(peer: Sitting.bob, true), "<bob> is blocked"),
      (.block(peer: Sitting.bob, false), "no longer blocked"),
      (.favourite(peer: Sitting.bob, true), "<bob> is a favourite"),
      (.favourite(peer: Sitting.bob, false), "no longer a favourite"),
      (.verify(peer: Sitting.bob, fingerprint: "00"), "<bob> is verified"),
      (.verify(peer: Sitting.bob, fingerprint: ""), "no longer verified"), (.setNickname("ann"), "is now <ann>"),
    ] {
      #expect(!sitting.messages.joined().contains(words))
      sitting.feed(.done(action))
      #expect(sitting.messages.last?.contains(words) == true, "\(sitting.messages)")
    }
    let before = sitting.messages
    sitting.feed(.done(.say("x")))
    #expect(sitting.messages == before)
  }

  @Test("/who lists present peers, /clear empties the screen, /send sends a file, /all sends a public message")
  func further() {
    var far = Sitting.peer("33333333333333dd", "dave", hops: 0)
    far.isFavourite = true
    var sitting = Sitting(peers: [
      Sitting.peer(Sitting.bob, "bob", rssi: -58), Sitting.peer(Sitting.carol, "carol", hops: 2), far,
    ])
    sitting.enter("/who")
    #expect(
      sitting.messages.suffix(2) == ["   -- <bob> neighbour, -58 dBm", "   -- <carol> 2 hops away"],
      "\(sitting.messages)")
    sitting.hear(Sitting.bob, "hello")
    _ = sitting.taken()
    sitting.enter("/clear")
    #expect(!sitting.messages.joined().contains("hello") && !sitting.messages.joined().contains("bob"))
    sitting.enter("/send /tmp/a b.png")
    sitting.enter("/msg bob")
    sitting.enter("/send ~/c.png")
    sitting.enter("/all tea?")
    sitting.enter("/send")
    #expect(
      sitting.taken() == [
        .sendFile(path: "/tmp/a b.png", peer: ""), .sendFile(path: "~/c.png", peer: Sitting.bob), .say("tea?"),
      ])
    #expect(sitting.status.contains("/send FILE") && sitting.model.current == ChatModel.everybody)
    var lines = Sitting(peers: []).model
    #expect(lines.line("/all for all").actions == [.say("for all")])
    #expect(lines.line("/clear").complaint != nil)
    #expect(lines.present == ["No peer is in range."])
  }

  @Test(
    "The chat reports that a favourite or verified peer was renamed, and shows its verified name"
  )
  func renamed() {
    var mallory = Sitting.peer(Sitting.bob, "alice")
    (mallory.isVerified, mallory.verifiedName, mallory.nicknameHistory) = (true, "mallory", ["mallory", "alice"])
    var sitting = Sitting(peers: [mallory, Sitting.peer(Sitting.carol, "carol")])
    sitting.feed(.renamed(peer: Sitting.bob, before: "mallory", now: "alice"))
    for _ in 0..<2 {
      let text = sitting.messages.joined(separator: " ").split(separator: " ").joined(separator: " ")
      #expect(text.contains("<mallory> (\(Sitting.bob)) calls itself <alice> now."))
      sitting.enter("/msg alice")
    }
    #expect(sitting.rows[0].contains("<alice,\u{A0}verified\u{A0}as\u{A0}<mallory>>"))
    sitting.hear(Sitting.bob, "send me the key", nickname: "alice", to: Sitting.bob)
    #expect(sitting.messages.last?.contains("<alice,\u{A0}verified\u{A0}as\u{A0}<mallory>>: send me the key") == true)
    // A second peer with the nickname mallory is not selected.
    sitting.feed(.peers([mallory, Sitting.peer(Sitting.carol, "mallory")]))
    _ = sitting.taken()
    sitting.enter("/msg mallory the plan")
    #expect(sitting.taken() == [])
  }

  @Test("/favourite, /block, /nick and the quit key of the chat produce their actions")
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

  @Test("/verify shows the fingerprint, and only the confirmation verifies the peer")
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

  @Test("/verify with a verification code asks the service, and the result of the proof is shown")
  func proof() {
    var sitting = Sitting()
    sitting.enter("/verify bitchat://verify?v=1&noise=ab  cd")
    #expect(sitting.taken() == [.verifyCode("bitchat://verify?v=1&noise=abcd")])
    for (proof, words) in [
      (MeshProof.proven, "<bob> is verified."), (.wrong, "It is somebody else."), (.noAnswer, "it did not answer."),
      (.gone, "it has left."), (.blocked, "it is blocked."), (.asked, "has not proven its code in time."),
    ] {
      sitting.feed(.proof(peer: Sitting.bob, proof))
      let text = sitting.messages.joined(separator: " ").split(separator: " ").joined(separator: " ")
      #expect(text.contains(words), "\(proof)")
    }
  }

  @Test("Tab completes commands and names, present peers first, and then cycles through the matches")
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
    #expect(sitting.model.input.text == "/msg \"Bo Derek\" ")
  }

  @Test("The chat marks messages as read when the screen has shown the end of their conversation")
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

  @Test("Scrolling back keeps the position when messages arrive, and no key scrolls beyond the ends")
  func scrollback() {
    var sitting = Sitting()
    for number in 1...100 { sitting.hear(Sitting.bob, "line \(number)", state: .seen) }
    #expect(sitting.messages.first == "14:02 <bob>: line 80" && sitting.messages.last == "14:02 <bob>: line 100")
    sitting.press(.pageUp)
    let before = sitting.messages
    #expect(before.last == "14:02 <bob>: line 80")
    sitting.hear(Sitting.bob, String(repeating: "long ", count: 30))
    #expect(sitting.messages == before)
    #expect(sitting.status.contains("more lines below"))
    for _ in 0..<20 { sitting.press(.pageUp) }
    #expect(sitting.messages.first?.contains("Sunday") == true && sitting.messages.count == 21)
    for _ in 0..<20 { sitting.press(.pageDown) }
    #expect(sitting.messages.contains("14:02 <bob>: line 100"))
    #expect(!sitting.status.contains("below"))
    sitting.press(.pageUp)
    sitting.enter("back")
    #expect(!sitting.status.contains("below"))
  }

  @Test("The scroll position stays while older messages are dropped, and moves to the oldest message left")
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

  @Test("Of 5,000 messages a chat conversation holds the last 2,000 to 2,200")
  func bounded() {
    var sitting = Sitting()
    for number in 1...5000 { sitting.hear(Sitting.bob, "\(number)", state: .seen) }
    let entries = sitting.model.conversations[""]?.entries ?? []
    #expect((2000...2200).contains(entries.count))
    #expect(sitting.messages.last == "14:02 <bob>: 5000")
  }

  @Test("A message that the service lists twice is shown once")
  func twice() {
    var sitting = Sitting()
    sitting.hear(Sitting.bob, "once")
    let message = MeshMessageView(
      number: 1, time: Sitting.noon, conversation: "", sender: Sitting.bob, nickname: "bob", text: "once", state: .seen)
    sitting.feed(.messages([message]))
    #expect(sitting.messages.count == 2)
  }

  @Test("Without the service the chat sends and loses no text, and lists messages again when it returns")
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

  @Test("A chat text that could not be sent returns to the input line, with the reason")
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

  @Test("The chat's help text fits its screen")
  func help() {
    var sitting = Sitting()
    sitting.enter("/help")
    #expect(sitting.messages.first?.contains("/msg NAME") == true, "\(sitting.messages)")
    #expect(sitting.messages.last?.contains("unread") == true)
  }

  @Test("The up key in the chat recalls sent texts")
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
