import DBus
import Loop

/// A packet that the mesh node passes to the uplink for a contact, in its text form.
struct MeshPacket: Sendable {
  enum Kind: String, Sendable { case message, delivered, read }

  /// Unique ID of the packet. A packet that is passed again has the same ID.
  let id: String
  let kind: Kind
  /// The contact's key as `npub`.
  let key: String
  let text: String
  /// The time at which the message was written, in milliseconds since 1970-01-01 UTC.
  let createdAt: UInt64
}

/// A request of the mesh node to the uplink.
enum MeshRequest {
  /// The keys of the mutual favourites, as `npub`.
  case contacts([String])
  /// - Parameter then: called once: nil if the packet is stored.
  case send(MeshPacket, then: @LoopActor (DBusError?) -> Void)
  case cancel(String)
  /// - Parameter then: called once: nil if keys and outbox are erased.
  case wipe(then: @LoopActor (DBusError?) -> Void)
  /// `isAttached` or `reason` has changed.
  case changed
  /// The node has accepted the uplink and passes packets to it; the value is the node's peer ID.
  case attached(String)
}

/// The node of the mesh as the uplink uses it. It is a protocol, so that tests can simulate the node.
@LoopActor
protocol MeshPort: AnyObject {
  var onRequest: (@LoopActor (MeshRequest) -> Void)? { get set }
  /// Whether the node passes packets to the uplink.
  var isAttached: Bool { get }
  /// The reason why the node passes no packets, and the remedy; empty if it passes them.
  var reason: String { get }

  /// Begins to attach to the node, with this machine's public key as `npub`. A call with another key attaches again.
  func start(key: String)
  /// Passes a received text to the node.
  ///
  /// - Parameter then: called once: whether the node has handled or refused the text. False means that the node could
  ///   not, and that the text must be passed again.
  func deliver(_ text: String, from key: String, then: @escaping @LoopActor (Bool) -> Void)
  func stop()
}

/// The mesh node of `earshotd`, reached over its D-Bus interface `org.earshot.MeshUplink1`.
@LoopActor
final class BusMesh: MeshPort {
  nonisolated static let meshPath: ObjectPath = "/org/earshot/mesh/uplink"
  nonisolated static let meshInterface = "org.earshot.MeshUplink1"
  nonisolated static let sinkPath: ObjectPath = "/org/earshot/uplink/sink"
  nonisolated static let sinkInterface = "org.earshot.MeshUplinkSink1"
  /// The pause before a refused request is repeated.
  private static let pause = Duration.seconds(5)

  var onRequest: (@LoopActor (MeshRequest) -> Void)?
  private let bus: BusConnection
  private let name: String
  private let scheduler: any Scheduler
  private var owner: String?
  private var key: String?
  private var watch: Registration?
  private var object: ExportedObject?
  private var retry: Registration?
  private var refusal: DBusError?
  private(set) var isAttached = false
  /// Number of the present attempt to attach, by which late answers to earlier attempts are ignored.
  private var attempt = 0

  /// - Parameter name: the bus name of `earshotd`.
  init(_ name: String, on bus: BusConnection, scheduler: any Scheduler) {
    (self.name, self.bus, self.scheduler) = (name, bus, scheduler)
  }

  var reason: String {
    if owner == nil { return "earshotd does not run. Start it with systemctl start earshotd." }
    if let refusal { return "earshotd hands no messages over: \(refusal.message)" }
    return isAttached ? "" : "earshotd has not answered yet."
  }

  func start(key: String) {
    self.key = key
    if object == nil {
      object = bus.objects.export(Self.sinkPath, interfaces: [Self.sink(self)])
      watch = bus.watchName(name) { [weak self] in self?.ownerChanged($0) }
    } else {
      attach()
    }
  }

  func stop() { (object, watch, retry, onRequest, owner, isAttached) = (nil, nil, nil, nil, nil, false) }

  func deliver(_ text: String, from key: String, then: @escaping @LoopActor (Bool) -> Void) {
    guard let owner, isAttached else { return scheduler.soon { then(false) } }
    bus.call(owner, Self.meshPath, Self.meshInterface, "Received", [.string(key), .string(text)]) { result in
      switch result {
      case .success: then(true)
      case .failure(let error): then(error.name == "org.earshot.Error.InvalidArgs")
      }
    }
  }

  private func ownerChanged(_ owner: String?) {
    guard owner != self.owner else { return }
    (self.owner, refusal, isAttached) = (owner, nil, false)
    attach()
    onRequest?(.changed)
  }

  private func attach() {
    retry = nil
    guard let owner, let key else { return }
    attempt += 1
    let attempt = attempt
    bus.call(owner, Self.meshPath, Self.meshInterface, "Attach", [.string(key)]) { [weak self] result in
      guard let self, attempt == self.attempt, owner == self.owner else { return }
      switch result {
      case .success(let values):
        (refusal, isAttached) = (nil, true)
        onRequest?(.changed)
        onRequest?(.attached(values.first?.asString ?? ""))
      case .failure(let error):
        (refusal, isAttached) = (error, false)
        retry = scheduler.schedule(after: Self.pause) { [weak self] in self?.attach() }
        onRequest?(.changed)
      }
    }
  }

  // MARK: Calls of earshotd

  /// - Parameter port: nil if the interface is only described.
  static func sink(_ port: BusMesh?) -> Interface {
    Interface(
      sinkInterface,
      documentation: "Packets of org.earshot.MeshUplink1. Only earshotd may call.",
      methods: [
        Method(
          "Contacts", in: [Argument("keys", "as")],
          documentation:
            "Replaces the Nostr keys, in Bech32, of the peers that may send and get packets: mutual favourites.",
          errors: [.denied, .invalidArgs],
          handler: { [weak port] call in
            guard let port = check(call, port) else { return }
            guard let keys = call.arguments.first?.asStrings else {
              return call.fail(.invalidArgs("Contacts takes a list of keys."))
            }
            port.onRequest?(.contacts(keys))
            call.reply()
          }),
        Method(
          "Send",
          in: [
            Argument("id", "s"), Argument("kind", "s"), Argument("key", "s"), Argument("text", "s"),
            Argument("created", "t"),
          ],
          documentation:
            "Sends a packet, in its text form, to a contact. kind is message, delivered or read. A message is sent "
            + "again until Cancel is called with its id, and a receipt until a relay has accepted it, for at most a "
            + "day. The method returns when the packet is stored on disk. A packet whose id is already stored is not "
            + "stored again. created is the time of the packet in milliseconds since 1970.",
          errors: [.denied, .invalidArgs, .limitExceeded, .notFound, .notReady, .failed],
          handler: { [weak port] call in
            guard let port = check(call, port) else { return }
            guard call.arguments.count == 5, let id = call.arguments[0].asString,
              let kind = call.arguments[1].asString.flatMap({ MeshPacket.Kind(rawValue: $0) }),
              let key = call.arguments[2].asString, let text = call.arguments[3].asString,
              let created = call.arguments[4].asUInt64
            else { return call.fail(.invalidArgs("Send takes an ID, a kind, a key, a text and a time.")) }
            let packet = MeshPacket(id: id, kind: kind, key: key, text: text, createdAt: created)
            guard let onRequest = port.onRequest else { return call.fail(.notReady("The service stops.")) }
            onRequest(.send(packet) { error in if let error { call.fail(error) } else { call.reply() } })
          }),
        Method(
          "Cancel", in: [Argument("id", "s")],
          documentation: "Ends the attempts to send a message, which has arrived or was withdrawn.",
          errors: [.denied, .invalidArgs],
          handler: { [weak port] call in
            guard let port = check(call, port) else { return }
            guard let id = call.arguments.first?.asString else { return call.fail(.invalidArgs("Cancel takes an ID.")) }
            port.onRequest?(.cancel(id))
            call.reply()
          }),
        Method(
          "Wipe", documentation: "Destroys the keys and all messages, and returns when they are erased from the disk.",
          errors: [.denied, .failed],
          handler: { [weak port] call in
            guard let port = check(call, port) else { return }
            guard let onRequest = port.onRequest else { return call.fail(.failed("The service stops.")) }
            onRequest(.wipe { error in if let error { call.fail(error) } else { call.reply() } })
          }),
      ])
  }

  /// The port, if the caller is the `earshotd` in use. Otherwise the call is refused.
  private static func check(_ call: MethodCall, _ port: BusMesh?) -> BusMesh? {
    guard let port, call.sender == port.owner else {
      call.fail(.denied("Only earshotd may do this."))
      return nil
    }
    return port
  }
}
