import FullScreen
import Glibc
import MeshViews

@testable import Chat

/// A user in front of the chat's terminal.
struct Sitting {
  static let anna = "00000000000000aa"
  static let bob = "11111111111111bb"
  static let carol = "22222222222222cc"
  /// 2026-11-22 14:02 UTC
  static let noon: UInt64 = 1_795_356_120_000

  var model = ChatModel(moment: ChatMoment.utc)
  var actions: [ChatAction] = []
  private var number: UInt32 = 0

  /// Anna's node has a link with bob, and receives from carol over one relay.
  init(columns: Int = 80, rows: Int = 24, peers: [MeshPeerView]? = nil) {
    var node = MeshView()
    (node.id, node.nickname, node.state, node.links) = (Self.anna, "anna", "connected", 1)
    node.fingerprint = String(repeating: "0a", count: 32)
    feed(.resized(columns: columns, rows: rows))
    feed(.serviceCame)
    feed(.node(node))
    feed(.peers(peers ?? [Self.peer(Self.bob, "bob", rssi: -58), Self.peer(Self.carol, "carol", hops: 2)]))
  }

  static func peer(_ id: String, _ nickname: String, hops: Int = 1, rssi: Int? = nil) -> MeshPeerView {
    var peer = MeshPeerView(id: id)
    (peer.nickname, peer.hops, peer.rssi, peer.isDirect) = (nickname, hops, rssi, hops == 1)
    peer.fingerprint = String(repeating: "1b", count: 32)
    return peer
  }

  mutating func feed(_ event: ChatEvent) { actions += model.handle(event) }

  mutating func press(_ keys: Key...) { for key in keys { feed(.key(key)) } }

  mutating func type(_ text: String) { for character in text { feed(.key(.character(character))) } }

  mutating func enter(_ text: String) {
    type(text)
    press(.enter)
  }

  /// The actions since the last call.
  mutating func taken() -> [ChatAction] {
    defer { actions = [] }
    return actions
  }

  @discardableResult
  mutating func hear(
    _ sender: String, _ text: String, nickname: String? = nil, to conversation: String = "",
    state: MeshMessageView.State? = nil, minutes: UInt64 = 0, isByUplink: Bool = false
  ) -> UInt32 {
    number += 1
    let name = nickname ?? [Self.anna: "anna", Self.bob: "bob", Self.carol: "carol"][sender] ?? "?"
    let message = MeshMessageView(
      number: number, time: Self.noon + minutes * 60_000, conversation: conversation, sender: sender, nickname: name,
      text: text, state: state ?? (sender == Self.anna ? .sent : .unread),
      isByUplink: isByUplink)
    feed(.messages([message]))
    return number
  }

  var rows: [String] { model.frame.text }
  /// The rows of messages, without list, title, status and input.
  var messages: [String] {
    rows.dropFirst().dropLast(2).map { row in
      row.split(separator: "│", maxSplits: 1, omittingEmptySubsequences: false).last.map(String.init) ?? ""
    }.filter { !$0.isEmpty }
  }
  var status: String { rows[rows.count - 2] }
  var inputRow: String { rows[rows.count - 1] }

  func style(of text: String) -> Style? {
    model.frame.rows.flatMap { $0 }.first { $0.text.contains(text) }?.style
  }
}

extension ChatMoment {
  /// Formats a time in UTC.
  ///
  /// - Parameter milliseconds: since 1970.
  static func utc(_ milliseconds: UInt64) -> ChatMoment {
    var seconds = time_t(clamping: milliseconds / 1000)
    var parts = tm()
    guard gmtime_r(&seconds, &parts) != nil else { return ChatMoment(day: "", time: "--:--") }
    return ChatMoment(parts)
  }
}
