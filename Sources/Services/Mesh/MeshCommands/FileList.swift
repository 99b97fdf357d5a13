import Calendar
import CommandLine
import MeshNaming
import MeshViews
import Terminal

/// Table of the mesh's files, oldest first.
enum FileList {
  /// - Parameter time: formats milliseconds since 1970.
  static func text(
    _ files: [MeshFileView], _ names: MeshNameBook, width: Int?, colour: Bool,
    time: (UInt64) -> String = LocalTime.text
  ) -> String {
    var table = TextTable([
      .init("FILE", .right), .init("TIME"), .init("FROM"), .init("TO"), .init("SIZE", .right), .init("STATE"),
      .init("NAME"),
    ])
    for file in files {
      let known = file.nickname.isEmpty ? names.name(of: file.peer) : names.name(of: file.peer, nickname: file.nickname)
      let peer = file.peer.isEmpty ? "everybody" : known
      let isMoving = file.state == "sending" || file.state == "receiving"
      let state = isMoving ? "\(file.state) \(file.progress) %" : file.state
      table.append([
        "\(file.number)", time(file.time), file.isIncoming ? peer : "me",
        file.isIncoming ? (file.isPrivate ? "me" : "everybody") : peer, file.shownSize, state, file.shownName,
      ])
    }
    return table.text(width: width, colour: colour)
  }

  static func json(_ file: MeshFileView) -> JSONValue {
    .object([
      .init("file", .int(Int64(file.number))), .init("name", .string(file.name)), .init("mime", .string(file.mime)),
      .init("size", .int(Int64(file.size))), .init("peer", .string(file.peer)),
      .init("nickname", .string(file.nickname)),
      .init("private", .bool(file.isPrivate)), .init("incoming", .bool(file.isIncoming)),
      .init("progress", .int(Int64(file.progress))), .init("state", .string(file.state)),
      .init("reason", .string(file.reason)), .init("time", .unsigned(file.time)),
    ])
  }
}
