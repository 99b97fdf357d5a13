import DBus
import Loop
import MeshViews
import TestSupport
import Tool

/// A stand-in for the service on a bus of its own: it has a node and peers, and records the calls.
@LoopActor
final class MeshStand {
  nonisolated static let own = "00000000000000ff"
  nonisolated static let alice = "000000000000a11c"
  nonisolated static let bob = "0000000000000b0b"
  /// The ID of a peer with bob's nickname.
  nonisolated static let other = "0000000000001234"

  private let service: StandInService
  private var node: ExportedObject?

  var state = "connected"
  /// The node's peer ID; empty while the node has no identity.
  var ownID = MeshStand.own
  var messages: [MeshMessageView] = []
  var links: [(String, String)] = []
  /// The peers that are verified.
  var verified: Set<String> = []
  /// The result of the verification of a peer whose code was read, after some queries.
  var proof = "proven"
  /// The peer whose code was read.
  var prover = MeshStand.alice
  var looksUntilProof = 0
  /// Bytes of a fragment of a public file; 0 for a service that does not report it.
  var sliceBytes: UInt32 = 0
  /// The maximum number of messages in one reply.
  var pageSize = 500

  init() async throws {
    service = try StandInService()
    service.export(Client.manager, Interface(Client.managerInterface, audience: .everybody))
    node = service.export(MeshNames.path, face())
    for (id, name, hops) in [(Self.alice, "alice", UInt32(1)), (Self.bob, "bob", 2), (Self.other, "Bob", 0)] {
      service.export(MeshNames.path(ofPeer: id), peer(id, name, hops))
    }
    try await service.begin()
  }

  var bus: PrivateBus { service.bus }
  /// All calls with their arguments, in order.
  var calls: [String] { service.calls }
  /// The error that answers all calls.
  var refusal: DBusError? {
    get { service.refusal }
    set { service.refusal = newValue }
  }

  func close() { service.close() }

  func run(_ words: String..., input: String = "") async -> ToolCall {
    await ToolCall.run(["mesh", "--bus", bus.address] + words, input: input)
  }

  /// Adds a message and sends the signal for it.
  func hear(_ message: MeshMessageView) {
    messages.append(message)
    node?.emit(MeshNames.interface, "MessageReceived", [.uint32(message.number)])
  }

  func change(_ message: UInt32, _ state: String) {
    node?.emit(MeshNames.interface, "MessageStateChanged", [.uint32(message), .string(state)])
  }

  // MARK: D-Bus interfaces

  private func face() -> Interface {
    Interface(
      MeshNames.interface, audience: .everybody,
      methods: [
        service.method("Say", ["s"], out: ["u"]) { _ in [.uint32(7)] },
        service.method("Tell", ["s", "s"], out: ["u"]) { _ in [.uint32(8)] },
        service.method("ListMessages", ["u", "u"], out: ["a(utssssss)"]) { [weak self] in self?.page($0) ?? [] },
        service.method("MarkRead", ["u"]) { _ in [] }, service.method("SetNickname", ["s"]) { _ in [] },
        service.method("Announce") { _ in [] }, service.method("Wipe", ["s"]) { _ in [] },
        service.method("Topology", out: ["a(ss)"]) { [weak self] _ in
          [.array(of: "(ss)", (self?.links ?? []).map { .structure([.string($0.0), .string($0.1)]) })]
        },
        service.method("SendFile", ["h", "s", "s", "s"], out: ["o"]) { [weak self] in self?.take($0) ?? [] },
        service.method("Ping", ["s"], out: ["u", "u"]) { _ in [.uint32(42), .uint32(2)] },
        service.method("VerificationCode", out: ["s"]) { _ in [.string("bitchat://verify?v=1")] },
        service.method("VerifyCode", ["s"], out: ["s"]) { [weak self] _ in [.string(self?.prover ?? "")] },
      ],
      properties: [
        Property("State", "s", audience: .everybody, get: { [weak self] in .string(self?.state ?? "") }),
        Property("Reason", "s", audience: .everybody, get: { .string("") }),
        Property("Role", "s", audience: .everybody, get: { .string("node") }),
        Property(
          "Counters", "a{st}", audience: .everybody, emits: .none,
          get: { .dictionary(key: "s", value: "t", [DBusEntry(.string("Clock"), .uint64(2))]) }),
        Property("Nickname", "s", get: { .string("desk") }),
        Property("PeerId", "s", get: { [weak self] in .string(self?.ownID ?? "") }),
        Property("Fingerprint", "s", get: { .string("f0") }), Property("Links", "u", get: { .uint32(1) }),
        Property("Unread", "u", get: { .uint32(3) }), Property("Carried", "u", get: { .uint32(2) }),
        Property("SliceBytes", "u", get: { [weak self] in .uint32(self?.sliceBytes ?? 0) }),
      ],
      signals: [
        Signal("MessageReceived", [Argument("message", "u")]),
        Signal("MessageStateChanged", [Argument("message", "u"), Argument("state", "s")]),
      ])
  }

  /// The states of a file, returned one after the other.
  var fileStates: [String] = ["sent"]
  private(set) var sentContent: [UInt8] = []

  private func take(_ call: MethodCall) -> [DBusValue] {
    sentContent = (try? call.arguments.first?.asDescriptor?.contents()) ?? []
    let path = MeshNames.path(ofFile: 9)
    addFile(9, isIncoming: false)
    return [.objectPath(path)]
  }

  /// Adds an incoming or outgoing file.
  func addFile(_ number: UInt32, isIncoming: Bool) {
    service.export(MeshNames.path(ofFile: number), file(isIncoming))
  }

  private func file(_ isIncoming: Bool) -> Interface {
    func text(_ name: String, _ value: String) -> Property { Property(name, "s", get: { .string(value) }) }
    return Interface(
      MeshNames.fileInterface,
      methods: [
        Method(
          "Open", out: [Argument("b", "h")],
          returning: { _ throws(DBusError) in [.descriptor(try .sealed([1, 2, 3], name: "file"))] }),
        service.method("Cancel") { _ in [] }, service.method("Delete") { _ in [] },
      ],
      properties: [
        text("Name", isIncoming ? "pic\u{1B}.png" : "notes.bin"), text("Mime", "application/octet-stream"),
        Property("Size", "t", get: { .uint64(1_234) }), text("Peer", isIncoming ? Self.alice : ""),
        Property("Private", "b", get: { .bool(isIncoming) }), text("Direction", isIncoming ? "incoming" : "outgoing"),
        Property("Progress", "u", get: { .uint32(50) }),
        Property(
          "State", "s",
          get: { [weak self] in .string(isIncoming ? "received" : self?.nextState() ?? "") }),
        text("Reason", "Why."), Property("Time", "t", get: { .uint64(1000) }),
      ])
  }

  private func nextState() -> String { fileStates.count > 1 ? fileStates.removeFirst() : fileStates[0] }

  private func page(_ call: MethodCall) -> [DBusValue] {
    let after = call.arguments.first?.asUInt32 ?? 0
    let rows = messages.filter { $0.number > after }.prefix(pageSize).map { message -> DBusValue in
      .structure([
        .uint32(message.number), .uint64(message.time), .string(message.conversation), .string(message.sender),
        .string(message.nickname), .string(message.text), .string(message.state.rawValue),
        .string(message.isByUplink ? "uplink" : "mesh"),
      ])
    }
    return [.array(of: "(utssssss)", Array(rows))]
  }

  private func peer(_ id: String, _ nickname: String, _ hops: UInt32) -> Interface {
    Interface(
      MeshNames.peerInterface,
      methods: [
        service.method("Favourite", ["b"], of: id), service.method("Block", ["b"], of: id),
        service.method("Verify", ["s"], of: id),
        service.method("Forget", of: id),
      ],
      properties: [
        Property("PeerId", "s", get: { .string(id) }), Property("Nickname", "s", get: { .string(nickname) }),
        Property("Hops", "u", get: { .uint32(hops) }), Property("Direct", "b", get: { .bool(hops == 1) }),
        Property("Rssi", "n", get: { .int16(hops == 1 ? -60 : 127) }),
        Property("LastSeen", "t", get: { .uint64(hops == 0 ? 0 : 1000) }),
        Property("Verified", "b", get: { [weak self] in .bool(self?.verified.contains(id) ?? false) }),
        Property("Proof", "s", get: { [weak self] in .string(self?.lookAtProof() ?? "") }),
      ])
  }

  private func lookAtProof() -> String {
    guard looksUntilProof > 0 else { return proof }
    looksUntilProof -= 1
    return "asked"
  }
}
