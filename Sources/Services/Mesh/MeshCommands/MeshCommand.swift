import CommandLine
import Common
import DBus
import Glibc
import Loop
import MeshViews
import Terminal
import Tool

/// Commands of `earshot mesh` with one call to the service.
@LoopActor
struct MeshCommand {
  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  private var isJSON: Bool { line.flag("json") }

  // MARK: Public messages

  func say() async throws(Failure) -> ExitCode {
    let text = try StandardInput.text(or: line.arguments("TEXT"))
    try await client.connect()
    return try await Interruption.hold(unanswered: Self.unanswered) { _ throws(Failure) in
      let message = Self.number(try await client.mesh("Say", .string(text)))
      report("Public message \(message) sent.", [.init("message", .int(Int64(message)))])
      return .ok
    }
  }

  func tell() async throws(Failure) -> ExitCode {
    let text = try StandardInput.text(or: line.arguments("TEXT"))
    let state = try await MeshState(client)
    let peer = try state.id(of: line.argument("PEER") ?? "")
    return try await Interruption.hold(unanswered: Self.unanswered) { _ throws(Failure) in
      let message = Self.number(try await client.mesh("Tell", .string(peer), .string(text)))
      report(
        "Message \(message) is on its way to \(state.names.label(of: peer)).",
        [.init("message", .int(Int64(message))), .init("peer", .string(peer))])
      return .ok
    }
  }

  private static let unanswered =
    "The service does not answer, and may send the message later. To see whether it did: earshot mesh log"

  private static func number(_ values: [DBusValue]) -> Int { values.first?.asInteger ?? 0 }

  // MARK: The node

  func nick() async throws(Failure) -> ExitCode {
    let name = PastedText.trimmed(line.argument("NAME") ?? "")
    try await client.connect()
    try await client.mesh("SetNickname", .string(name))
    report("The nickname of this node is \(MeshText.line(name)).", [.init("nickname", .string(name))])
    return .ok
  }

  func announce() async throws(Failure) -> ExitCode {
    try await client.connect()
    try await client.mesh("Announce")
    report("The node was announced to its neighbours.", [.init("announced", true)])
    return .ok
  }

  func wipe() async throws(Failure) -> ExitCode {
    try await client.connect()
    let id = try await client.property(
      MeshNames.path, MeshNames.interface, "PeerId", of: MeshNames.feature
    ).text
    // Without its key, a node does not know its identity.
    let own = id.isEmpty ? "unknown" : id
    let typed = line.value("confirm").map { PastedText.trimmed($0) } ?? ask(own)
    guard typed.lowercased() == own else {
      throw Failure(
        .failed,
        "The answer is not \(own)\(id.isEmpty ? "" : ", the peer ID of this node"). Nothing was erased.")
    }
    try await client.mesh("Wipe", .string(own))
    report("Erased: keys, messages, files, courier envelopes and peers.", [.init("wiped", .string(own))])
    return .ok
  }

  private func ask(_ own: String) -> String {
    Output.complain(
      """
      This permanently erases the keys of this node, all messages and files, the courier envelopes that it carries, and all
      data about peers. The node then has a new peer ID, and peers that have verified it have to verify it again.
      To continue, type \(own)\(own == "unknown" ? " (the node has no peer ID now)" : ", its peer ID"):
      """)
    var typed: [UInt8] = []
    var byte: UInt8 = 0
    // Reads only one line.
    while typed.count < 64, read(STDIN_FILENO, &byte, 1) == 1, byte != UInt8(ascii: "\n") { typed.append(byte) }
    return String(decoding: typed, as: UTF8.self).filter { !$0.isWhitespace }
  }

  func show() async throws(Failure) -> ExitCode {
    let state = try await MeshState(client)
    if isJSON {
      Output.json(MeshShown.json(state.node))
    } else {
      Output.write(MeshShown.text(state.node))
    }
    return .ok
  }

  // MARK: Peers

  func peers() async throws(Failure) -> ExitCode {
    let state = try await MeshState(client)
    let peers = state.peers.filter { $0.isNear || !line.flag("near") }
    if isJSON {
      Output.json(.array(PeerList.ordered(peers, state.names).map { PeerList.json($0, state.names) }))
    } else {
      let terminal = Output.terminal
      let none = line.flag("near") ? "No peer is in range.\n" : "No peer is known.\n"
      let width = terminal.isTerminal ? terminal.width : nil
      Output.write(
        peers.isEmpty ? none : PeerList.text(peers, state.names, width: width, colour: terminal.hasColour))
    }
    return .ok
  }

  func favourite() async throws(Failure) -> ExitCode {
    try await mark("Favourite", "favourite", ("is a favourite", "is not a favourite"))
  }

  func block() async throws(Failure) -> ExitCode {
    try await mark("Block", "blocked", ("is blocked", "is not blocked"))
  }

  private func mark(_ method: String, _ name: String, _ says: (on: String, off: String)) async throws(Failure)
    -> ExitCode
  {
    let isOn = !line.flag("off")
    let (state, peer) = try await known()
    try await client.meshPeer(peer, method, .bool(isOn))
    report(
      "\(state.names.label(of: peer)) \(isOn ? says.on : says.off).",
      [.init("peer", .string(peer)), .init(name, .bool(isOn))])
    return .ok
  }

  func forget() async throws(Failure) -> ExitCode {
    let (state, peer) = try await known()
    try await client.meshPeer(peer, "Forget")
    report("\(state.names.label(of: peer)) is forgotten.", [.init("peer", .string(peer)), .init("forgotten", true)])
    return .ok
  }

  /// Returns the peer named on the command line; it must have a D-Bus object.
  private func known() async throws(Failure) -> (MeshState, String) {
    let state = try await MeshState(client)
    let peer = try state.id(of: line.argument("PEER") ?? "")
    guard state.peer(peer) != nil else {
      throw Failure(.failed, "The peer \(peer) is not known. Try: earshot mesh peers")
    }
    return (state, peer)
  }

  // MARK: Map

  func map() async throws(Failure) -> ExitCode {
    let state = try await MeshState(client)
    let values = try await client.mesh("Topology")
    let links = (values.first?.asArray ?? []).compactMap { value -> (String, String)? in
      guard let pair = value.asArray?.compactMap(\.asString), pair.count == 2 else { return nil }
      return (pair[0], pair[1])
    }
    let map = MeshMap(own: state.node.id, nickname: state.node.nickname, peers: state.peers, links: links)
    if isJSON {
      Output.json(map.json)
      return .ok
    }
    let terminal = Output.terminal
    let lines =
      terminal.isTerminal
      ? map.lines(width: terminal.width, height: line.flag("all") ? nil : terminal.height - 1) : map.lines(width: nil)
    Output.write(lines.map { $0 + "\n" }.joined())
    return .ok
  }

  private func report(_ sentence: String, _ members: [JSONValue.Member]) {
    if isJSON { Output.json(.object(members)) } else { Output.line(sentence) }
  }
}
