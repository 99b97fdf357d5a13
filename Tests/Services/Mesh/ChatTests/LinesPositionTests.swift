import MeshViews
import Testing

@testable import Chat

@Suite("Messages that the chat prints without a terminal")
struct LinesPositionTests {
  private func message(
    _ number: UInt32, _ state: MeshMessageView.State = .unread, from sender: String = Sitting.bob
  ) -> MeshMessageView {
    MeshMessageView(
      number: number, time: Sitting.noon, conversation: "", sender: sender, nickname: "bob", text: "text", state: state)
  }

  private func node(_ id: String = Sitting.anna) -> MeshView {
    var node = MeshView()
    node.id = id
    return node
  }

  private func numbers(_ messages: [MeshMessageView]) -> [UInt32] { messages.map(\.number) }

  @Test("At its start the line mode of the chat prints only unread messages of peers")
  func first() {
    var position = LinesPosition()
    position.begin(node())
    let messages = [message(1, .seen), message(2), message(3, .sent, from: Sitting.anna), message(4)]
    let taken = position.take(messages, own: Sitting.anna)
    #expect(numbers(taken) == [2, 4])
  }

  @Test("In line mode each later message is printed once, even if another reader has marked it as seen")
  func secondReader() {
    var position = LinesPosition()
    position.begin(node())
    _ = position.take([message(1)], own: Sitting.anna)
    var written: [UInt32] = []
    for number in UInt32(2)...21 {
      position.begin(node())
      let state = number.isMultiple(of: 2) ? MeshMessageView.State.seen : .unread
      written += numbers(position.take([message(number - 1), message(number, state)], own: Sitting.anna))
    }
    #expect(written == Array(2...21))
  }

  @Test("In line mode new messages are printed after a wipe, when message numbers start again")
  func wiped() {
    var position = LinesPosition()
    position.begin(node())
    _ = position.take([message(50)], own: Sitting.anna)
    position.begin(node(""))
    position.begin(node(Sitting.carol))
    let taken = position.take([message(1)], own: Sitting.carol)
    #expect(numbers(taken) == [1])
  }
}
