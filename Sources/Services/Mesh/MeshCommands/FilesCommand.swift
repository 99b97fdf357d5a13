import Calendar
import CommandLine
import DBus
import Loop
import MeshNaming
import MeshViews
import Terminal
import Tool

/// `earshot mesh files`: lists files, and saves, cancels or deletes one of them.
@LoopActor
struct FilesCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  private var isJSON: Bool { line.flag("json") }

  func run() async throws(Failure) -> ExitCode {
    let wanted = ["save", "cancel", "delete"].filter { line.integer($0) != nil }
    guard wanted.count <= 1 else { throw Failure(.usage, "Only one of --save, --cancel and --delete can be given.") }
    if line.value("output") != nil, wanted != ["save"] { throw Failure(.usage, "--output requires --save.") }
    // Only --save writes a file. The path is checked before the content is requested.
    let place = wanted == ["save"] ? try FilePlace(line.value("output") ?? "./") : nil
    try await client.connect()
    let objects = try await client.objects()
    let state = try MeshState(objects)
    let files = MeshFileView.all(objects)
    guard let action = wanted.first, let number = line.integer(action) else { return list(files, state) }
    guard let file = files.first(where: { $0.number == UInt32(clamping: number) }) else {
      throw Failure(.failed, "There is no file \(number). Try: earshot mesh files")
    }
    let path = MeshNames.path(ofFile: file.number)
    if let place { return try await save(file, path, place) }
    switch action {
    case "cancel":
      _ = try await client.call(path, MeshNames.fileInterface, "Cancel", [])
      report("Sending \(file.shownName) was cancelled.", file)
    default:
      _ = try await client.call(path, MeshNames.fileInterface, "Delete", [])
      report("\(file.shownName) was deleted.", file)
    }
    return .ok
  }

  private func list(_ files: [MeshFileView], _ state: MeshState) -> ExitCode {
    if isJSON {
      Output.json(.array(files.map { FileList.json($0) }))
    } else {
      let terminal = Output.terminal
      let width = terminal.isTerminal ? terminal.width : nil
      Output.write(
        files.isEmpty
          ? "There are no files.\n" : FileList.text(files, state.names, width: width, colour: terminal.hasColour))
    }
    return .ok
  }

  /// Saves a file, without replacing an existing one unless the user names it.
  private func save(_ file: MeshFileView, _ path: ObjectPath, _ place: FilePlace) async throws(Failure) -> ExitCode {
    let values = try await client.call(path, MeshNames.fileInterface, "Open", [])
    guard let descriptor = values.first?.asDescriptor else {
      throw Failure(.failed, "The service's reply contains no file.")
    }
    let content: [UInt8]
    do throws(DBusError) { content = try descriptor.contents() } catch {
      throw Failure(error, service: client.service)
    }
    let name =
      file.name.isEmpty || file.name.utf8.contains(UInt8(ascii: "/")) || file.name.utf8.first == UInt8(ascii: ".")
      ? "file\(file.number)" : file.name
    let saved = try place.keep(content, as: name)
    if isJSON {
      Output.json(.object([.init("file", .int(Int64(file.number))), .init("path", .string(saved))]))
    } else {
      Output.line("\(saved): \(file.shownSize). The content was not checked.")
    }
    return .ok
  }

  private func report(_ sentence: String, _ file: MeshFileView) {
    if isJSON {
      Output.json(.object([.init("file", .int(Int64(file.number)))]))
    } else {
      Output.line(sentence)
    }
  }
}

/// Table of the mesh's files, oldest first.
enum FileList {
  /// - Parameter time: formats milliseconds since 1970.
  static func text(
    _ files: [MeshFileView], _ names: MeshNameIndex, width: Int?, colour: Bool,
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
