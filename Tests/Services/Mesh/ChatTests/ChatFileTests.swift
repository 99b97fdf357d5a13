import MeshViews
import Testing

@testable import Chat

@Suite("Files in `earshot chat`")
struct ChatFileTests {
  private func file(_ number: UInt32, _ state: String, progress: Int = 0, peer: String = "") -> MeshFileView {
    var file = MeshFileView(number: number)
    (file.name, file.size, file.state, file.progress) = ("pic\u{1B}.png", 1234, state, progress)
    (file.peer, file.isPrivate, file.isIncoming) = (peer, !peer.isEmpty, state == "received")
    return file
  }

  private func model() -> ChatModel { ChatModel(moment: { _ in ChatMoment(day: "", time: "") }) }

  @Test("The chat shows a received file once in its conversation, and no file received before its start")
  func arrival() {
    var model = model()
    _ = model.handle(.files([file(1, "received")]))
    #expect(model.conversations[ChatModel.everybody]?.entries.isEmpty == true)
    for _ in 0..<2 {
      _ = model.handle(
        .files([file(1, "received"), file(2, "received"), file(3, "received", peer: "00000000000000aa")]))
    }
    #expect(model.conversations[ChatModel.everybody]?.entries.count == 1)
    #expect(model.conversations["00000000000000aa"]?.entries.count == 1)
    guard case .notice(let notice)? = model.conversations[ChatModel.everybody]?.entries.first else {
      Issue.record("no notice")
      return
    }
    #expect(notice.contains("\"pic\u{FFFD}.png\" (1.2 KiB)") && notice.contains("--save 2"))
  }

  @Test("The chat shows a sent file at its start, at each quarter and at its end: 6 entries for 101 reports")
  func progress() {
    var model = model()
    _ = model.handle(.files([]))
    for percent in 0...100 { _ = model.handle(.files([file(1, "sending", progress: percent)])) }
    _ = model.handle(.files([file(1, "sent", progress: 100)]))
    #expect(model.conversations[ChatModel.everybody]?.entries.count == 6)
    _ = model.handle(.files([]))
    #expect(model.conversations[ChatModel.everybody]?.entries.count == 6)
  }
}
