import MeshViews
import Testing

@testable import Chat

@Suite("The chat after a wipe of its mesh node")
struct ChatWipeTests {
  private func node(_ id: String) -> MeshView {
    var node = MeshView()
    (node.id, node.nickname, node.state) = (id, "anna", "alone")
    return node
  }

  @Test("A wipe of the node clears every conversation and the input history")
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

  @Test("A message after a wipe is shown even if a message before the wipe had the same number")
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
