import MeshViews
import Testing

@testable import Chat

@Suite("The messages that the chat prints as lines")
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

  @Test("At the start only unread messages of other peers are printed")
  func first() {
    var position = LinesPosition()
    position.begin(node())
    let messages = [message(1, .seen), message(2), message(3, .sent, from: Sitting.anna), message(4)]
    let taken = position.take(messages, own: Sitting.anna)
    #expect(numbers(taken) == [2, 4])
  }

  @Test("Later messages are printed once, also if another reader has marked them as seen")
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

  @Test("After a wipe and a restart of the numbers, new messages are printed")
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
