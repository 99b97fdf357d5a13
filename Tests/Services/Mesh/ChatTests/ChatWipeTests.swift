import MeshViews
import Testing

@testable import Chat

@Suite("A chat whose node is wiped")
struct ChatWipeTests {
  private func node(_ id: String) -> MeshView {
    var node = MeshView()
    (node.id, node.nickname, node.state) = (id, "anna", "alone")
    return node
  }

  @Test("Nothing that was said stays on the screen, in any conversation or among the lines that can be called up again")
  func erased() {
    var sitting = Sitting()
    sitting.hear(Sitting.bob, "the secret place", to: Sitting.bob)
    sitting.hear(Sitting.carol, "a public secret")
    sitting.enter("/msg bob my own secret")
    sitting.feed(.node(node("")))
    for key in 0..<3 {
      #expect(!sitting.rows.contains { $0.contains("secret") }, "\(key)")
      sitting.press(.control("n"))
    }
    sitting.press(.up)
    #expect(!sitting.inputRow.contains("secret"))
    sitting.feed(.node(node("00000000000000dd")))
    #expect(sitting.model.latest == 0 && sitting.rows.contains { $0.contains("wiped") })
  }

  @Test("What is said after it is shown, whichever number it has")
  func after() {
    var sitting = Sitting()
    for _ in 0..<5 { sitting.hear(Sitting.carol, "old") }
    sitting.feed(.node(node("00000000000000dd")))
    let message = MeshMessageView(
      number: 2, time: Sitting.noon, conversation: "", sender: Sitting.bob, nickname: "bob", text: "quite new",
      state: .unread)
    sitting.feed(.messages([message]))
    #expect(sitting.messages.contains { $0.contains("quite new") } && !sitting.messages.contains { $0.contains("old") })
  }
}
