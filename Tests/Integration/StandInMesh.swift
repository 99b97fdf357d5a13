import DBus
import Loop
import TestSupport

/// A stand-in for the mesh's D-Bus interfaces: a node, two peers, and the messages of the test.
@LoopActor
final class StandInMesh {
  static let name = "org.earshot"
  static let path: ObjectPath = "/org/earshot/mesh"
  static let interface = "org.earshot.Mesh1"
  static let own = "00000000000000aa"
  static let bob = "11111111111111bb"
  static let carol = "22222222222222cc"

  struct Kept {
    let conversation: String
    let sender: String
    let nickname: String
    let text: String
    var state: String
  }

  let bus: PrivateBus
  /// The calls with their arguments: `Say hello`.
  let calls = Mailbox<String>()
  private(set) var messages: [Kept] = []
  private var service: BusConnection?
  private var node: ExportedObject?
  private var objects: [ExportedObject] = []
  /// The nickname of carol.
  var carol = "carol"

  init() async throws {
    bus = try PrivateBus()
    try await start()
  }

  func start() async throws {
    let service = BusConnection(address: .address(bus.address))
    self.service = service
    let manager: ObjectPath = "/org/earshot"
    objects = [
      service.objects.export(manager, interfaces: [Interface("org.earshot.Manager1", audience: .everybody)])
    ]
    service.objects.exportManager(manager)
    node = service.objects.export(Self.path, interfaces: [mesh()], manager: manager)
    for peer in [Self.bob, Self.carol] {
      objects.append(
        service.objects.export(Self.path.child("peer" + peer), interfaces: [self.peer(peer)], manager: manager))
    }
    service.connect(name: Self.name)
    try await service.ready()
  }

  func stop() {
    objects = []
    node = nil
    service?.close()
    service = nil
  }

  func close() {
    stop()
    bus.stop()
  }

  func hear(_ sender: String, _ text: String, isPrivate: Bool = false) {
    let name = sender == Self.bob ? "bob" : carol
    messages.append(
      Kept(conversation: isPrivate ? sender : "", sender: sender, nickname: name, text: text, state: "unread"))
    node?.emit(Self.interface, "MessageReceived", [.uint32(UInt32(messages.count))])
  }

  func set(_ number: Int, _ state: String) {
    messages[number - 1].state = state
    node?.emit(Self.interface, "MessageStateChanged", [.uint32(UInt32(number)), .string(state)])
  }

  // MARK: The interfaces

  private func mesh() -> Interface {
    Interface(
      Self.interface, audience: .everybody,
      methods: [
        Self.method("Say", in: [Argument("text", "s")], out: [Argument("message", "u")]) {
          [weak self] (call: MethodCall) in
          self?.send(call, "", call.arguments[0].asString ?? "", "sent")
        },
        Self.method("Tell", in: [Argument("peer", "s"), Argument("text", "s")], out: [Argument("message", "u")]) {
          [weak self] (call: MethodCall) in
          self?.send(call, call.arguments[0].asString ?? "", call.arguments[1].asString ?? "", "waiting")
        },
        Self.method(
          "ListMessages", in: [Argument("after", "u"), Argument("limit", "u")],
          out: [Argument("messages", "a(utssssss)")]
        ) {
          [weak self] (call: MethodCall) in
          call.reply(self?.list(after: call.arguments[0].asInteger ?? 0) ?? .array(of: "(utssssss)", []))
        },
        Self.method("MarkRead", in: [Argument("message", "u")]) { [weak self] (call: MethodCall) in
          self?.markRead(call)
        },
        Self.method("SetNickname", in: [Argument("nickname", "s")]) { [weak self] (call: MethodCall) in
          self?.note(call)
          call.reply()
        },
      ],
      properties: [
        Property("Nickname", "s") { .string("anna") }, Property("PeerId", "s") { .string(Self.own) },
        Property("State", "s", audience: .everybody) { .string("connected") }, Property("Links", "u") { .uint32(1) },
      ],
      signals: [
        Signal("MessageReceived", [Argument("message", "u")]),
        Signal("MessageStateChanged", [Argument("message", "u"), Argument("state", "s")]),
      ])
  }

  private func peer(_ id: String) -> Interface {
    Interface(
      "org.earshot.MeshPeer1",
      methods: [
        Self.method("Favourite", in: [Argument("isFavourite", "b")]) { [weak self] (call: MethodCall) in
          self?.note(call)
          call.reply()
        }
      ],
      properties: [
        Property("PeerId", "s") { .string(id) },
        Property("Nickname", "s") { [weak self] in .string(id == Self.bob ? "bob" : self?.carol ?? "") },
        Property("Hops", "u") { .uint32(id == Self.bob ? 1 : 2) }, Property("Direct", "b") { .bool(id == Self.bob) },
        Property("Rssi", "n") { .int16(id == Self.bob ? -58 : 127) },
      ])
  }

  private static func method(
    _ name: String, in arguments: [Argument], out: [Argument] = [], _ body: @escaping Method.Handler
  ) -> Method {
    Method(name, in: arguments, out: out, handler: body)
  }

  private func note(_ call: MethodCall) {
    calls.put(
      ([call.member] + call.arguments.map { $0.asString ?? $0.asInteger.map(String.init) ?? "\($0.asBool ?? false)" })
        .joined(separator: " "))
  }

  private func send(_ call: MethodCall, _ conversation: String, _ text: String, _ state: String) {
    note(call)
    guard text != "refuse this" else { return call.fail(.notReady("The clock is not known to be right.")) }
    messages.append(Kept(conversation: conversation, sender: Self.own, nickname: "anna", text: text, state: state))
    call.reply(.uint32(UInt32(messages.count)))
  }

  private func markRead(_ call: MethodCall) {
    note(call)
    let number = call.arguments[0].asInteger ?? 0
    let conversation = messages[number - 1].conversation
    for index in messages.indices.prefix(number)
    where messages[index].conversation == conversation && messages[index].state == "unread" {
      messages[index].state = "seen"
    }
    call.reply()
  }

  /// Returns two messages at a time, so that a client has to call again for the rest.
  private func list(after: Int) -> DBusValue {
    let all = messages.enumerated().dropFirst(after).prefix(2).map { index, kept in
      DBusValue.structure([
        .uint32(UInt32(index + 1)), .uint64(1_795_356_120_000), .string(kept.conversation), .string(kept.sender),
        .string(kept.nickname), .string(kept.text), .string(kept.state), .string("mesh"),
      ])
    }
    return .array(of: "(utssssss)", Array(all))
  }
}
