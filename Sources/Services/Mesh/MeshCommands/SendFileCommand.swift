import BitchatWire
import CommandLine
import DBus
import Loop
import MeshViews
import Terminal
import Tool

/// Runs `earshot mesh send`: sends a file, and waits for the result or a timeout.
@LoopActor
final class SendFileCommand {
  private let client: Client
  private let line: ParsedCommand
  private var isGone = false

  /// Maximum time between polls. Signals of the service trigger earlier ones.
  private static let pause = Duration.seconds(2)
  private static let pauseWithoutSignals = Duration.milliseconds(300)

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  private var isJSON: Bool { line.flag("json") }

  func run() async throws(Failure) -> ExitCode {
    let path = line.argument("FILE") ?? "-"
    let file = try InputFile(path, name: "file")
    let name = line.value("name") ?? String(path.split(separator: "/").last ?? "file")
    guard file.size <= Limits.fileBytes else {
      throw Failure(.failed, "The file has \(file.size) bytes; the mesh accepts at most \(Limits.fileBytes).")
    }
    let state = try await MeshState(client)
    let peer = try line.argument("PEER").map { name throws(Failure) in try state.id(of: name) } ?? ""
    try warn(of: file.size, peer.isEmpty ? Self.forAll(state.node) : Self.forOne(state.peer(peer), state.node))
    let prefix = MeshNames.path.string + "/file"
    let news = NewsOf(client) {
      $0.path?.string.hasPrefix(prefix) == true || $0.arguments.first?.asObjectPath?.string.hasPrefix(prefix) == true
    }
    let pause = try await client.watchGroup() ? Self.pause : Self.pauseWithoutSignals
    let watch = client.bus.watchName(client.service) { [weak self, weak news] in
      guard $0 == nil else { return }
      self?.isGone = true
      news?.wake()
    }
    defer {
      watch.cancel()
      news.cancel()
    }
    let recipient = peer.isEmpty ? "everybody" : state.names.label(of: peer)
    let object = try await Interruption.hold(
      unanswered: "The service does not answer, and may send the file later. To see whether it does: earshot mesh files"
    ) { _ throws(Failure) in
      let values = try await client.mesh(
        "SendFile", .descriptor(file.descriptor), .string(name), .string(line.value("mime") ?? ""), .string(peer))
      guard let object = values.first?.asObjectPath else {
        throw Failure(.failed, "The service's reply names no file.")
      }
      if let file = MeshFileView(object.string, [:]) {
        Output.complain(
          "The service sends file \(file.number) to \(recipient), also after this command ends. To stop it: earshot "
            + "mesh files --cancel \(file.number)")
      }
      return object
    }
    return try await follow(object, recipient, news, pause)
  }

  /// How a file is cut into fragments on the way to its recipients, for the warning about long files.
  private struct Cut {
    /// Bytes of the file in each fragment.
    var slice = FragmentPlan.olderSlice
    /// The cause of smaller fragments, as the end of a sentence; empty with fragments of the usual size.
    var cause = ""
  }

  private static func forAll(_ node: MeshView) -> Cut {
    // 0 if the service does not know it.
    guard node.sliceBytes > 0, node.sliceBytes < FragmentPlan.olderSlice else { return Cut() }
    return Cut(slice: node.sliceBytes, cause: " while a neighbour accepts only small fragments, as one does now")
  }

  /// Fragmentation of a file for one peer. A file for a neighbour is cut for its link; otherwise each fragment has a
  /// route, or goes to all neighbours.
  private static func forOne(_ peer: MeshPeerView?, _ node: MeshView) -> Cut {
    guard let peer, peer.isNear, !peer.isDirect else { return Cut() }
    let hops = max(1, peer.hops - 1)
    let slice = FragmentPlan.sliceSize(frameLimit: Limits.olderFrameBytes, hasRecipient: true, hops: hops)
    let routed = Cut(slice: slice ?? FragmentPlan.olderSlice, cause: " over several hops")
    let flooded = forAll(node)
    return flooded.slice < routed.slice ? flooded : routed
  }

  /// Rejects sizes that phones drop, unless the user allows them.
  private func warn(of size: Int, _ cut: Cut) throws(Failure) {
    let longest = FragmentPlan.longestForAndroid(sliceBytes: cut.slice)
    guard size > longest else { return }
    guard line.flag("large") else {
      throw Failure(
        .usage,
        "The file has \(size) bytes, and Android phones drop files of more than about \((longest + 500) / 1000) "
          + "kB\(cut.cause). --large sends it anyway.")
    }
    Output.complain(
      size > FragmentPlan.longestForIOS(sliceBytes: cut.slice)
        ? "Phones drop files of this size: Android phones because of the size, iPhones after 30 s."
        : "Android phones drop files of this size.")
  }

  private func follow(
    _ object: ObjectPath, _ recipient: String, _ news: NewsOf, _ pause: Duration
  ) async throws(Failure) -> ExitCode {
    let end = line.seconds("wait").map { EventLoop.shared.now.advanced(by: $0) }
    while true {
      let file = try await view(object)
      guard !isGone else { throw Failure(.notRunning, "The service ended before the file was sent.") }
      if file.isEnded || end.map({ EventLoop.shared.now >= $0 }) ?? false { return try report(file, recipient) }
      if !isJSON, Output.terminal.isTerminal {
        let word = file.state == "waiting" ? "Waiting for a recipient" : "Sending"
        Output.progress("\(word): \(file.shownName), \(file.progress) %")
      }
      let left = end.map { EventLoop.shared.now.duration(to: $0) } ?? pause
      await news.next(within: min(pause, left))
    }
  }

  private func view(_ object: ObjectPath) async throws(Failure) -> MeshFileView {
    let properties = try await client.properties(object, MeshNames.fileInterface)
    guard let file = MeshFileView(object.string, properties), !file.state.isEmpty else {
      throw Failure(.failed, "The file was deleted.")
    }
    return file
  }

  private func report(_ file: MeshFileView, _ recipient: String) throws(Failure) -> ExitCode {
    if !isJSON, Output.terminal.isTerminal { Output.progress("") }
    if isJSON {
      Output.json(FileList.json(file))
      return file.isWell ? .ok : file.isEnded ? .failed : .timeout
    }
    switch file.state {
    case "sent": Output.line("\(file.shownName) (\(file.shownSize)) was sent to \(recipient).")
    case "delivered": Output.line("\(recipient) has received \(file.shownName) (\(file.shownSize)).")
    case "waiting", "sending":
      throw Failure(
        .timeout, "\(file.shownName) is still \(file.state == "sending" ? "being sent" : "waiting for \(recipient)").")
    case "cancelled": throw Failure(.failed, "Sending \(file.shownName) was cancelled.")
    default: throw Failure(.failed, file.reason.isEmpty ? "\(file.shownName) was not sent." : file.reason)
    }
    return .ok
  }
}
