import Bitchat
import BitchatWire
import DBus
import Hosting
import Journal
import Loop

/// D-Bus adaptor of the uplink: `org.earshot.MeshUplink1`, for `earshot-nostrd` alone.
@LoopActor
final class MeshUplinkAdaptor {
  nonisolated static let interfaceName = "org.earshot.MeshUplink1"
  nonisolated static let path: ObjectPath = "/org/earshot/mesh/uplink"
  /// The object and the interface of the program.
  nonisolated static let sinkPath: ObjectPath = "/org/earshot/uplink/sink"
  nonisolated static let sinkInterface = "org.earshot.MeshUplinkSink1"
  /// The Unix user of `earshot-nostrd`, the only one that may call these methods.
  nonisolated static let userName = "earshot-nostr"

  private let service: MeshService
  private let bus: BusConnection
  private let caller: SoleCaller<UplinkSink>
  private var object: ExportedObject?

  /// - Parameter users: returns the users that may call; nil: the users of `earshot-nostrd` and of this service.
  init(
    _ service: MeshService, on bus: BusConnection, tree: ObjectTree, manager: ObjectPath,
    users: (@LoopActor () -> Set<UInt32>)? = nil
  ) {
    (self.service, self.bus) = (service, bus)
    caller = SoleCaller(
      Self.userName, on: bus, users: users, denied: "Only the user \(Self.userName) may do this, after Attach.",
      busy: "Another program carries packets.")
    caller.onLeave = { [weak self] in
      service.uplink.detach()
      self?.object?.changed("Attached")
    }
    object = tree.export(
      Self.path,
      interfaces: [
        Self.interface(
          service, denied: { [weak self] in self?.caller.deniedCalls ?? 0 },
          attach: { [weak self] in self?.attach($0) ?? $0.fail(Self.stopping) },
          received: { [weak self] in self?.received($0) ?? $0.fail(Self.stopping) })
      ], manager: manager)
  }

  private static var stopping: DBusError { .notReady("The service stops.") }

  // MARK: The caller

  private func attach(_ call: MethodCall) {
    caller.admit(call) { [weak self] call in
      guard let self else { return call.fail(Self.stopping) }
      let sink = caller.sink(of: call) ?? UplinkSink(call.sender, bus)
      do throws(DBusError) {
        guard let key = call.arguments.first?.asString else { throw .invalidArgs("Attach takes a key.") }
        try service.uplink.attach(sink, key: key) { call.reply(.string($0.description)) }
        caller.attach(sink, as: call.sender)
        object?.changed("Attached")
      } catch {
        call.fail(error)
      }
    }
  }

  private func received(_ call: MethodCall) {
    guard caller.sink(of: call) != nil else { return caller.deny(call) }
    guard let key = call.arguments.first?.asString, let text = call.arguments.last?.asString else {
      return call.fail(.invalidArgs("Received takes a key and a text."))
    }
    do throws(UplinkRefusal) {
      try service.uplink.received(text, from: key)
      call.reply()
    } catch {
      call.fail(DBusError(error))
    }
  }

  // MARK: The interface

  typealias Handler = @LoopActor (MethodCall) -> Void

  static func interface(
    _ service: MeshService, denied: @escaping @LoopActor () -> UInt64 = { 0 },
    attach: @escaping Handler = { $0.fail(stopping) }, received: @escaping Handler = { $0.fail(stopping) }
  ) -> Interface {
    Interface(
      interfaceName,
      documentation:
        "Private messages for mutual favourites that have no path in the mesh. Only the user earshot-nostr may call. "
        + "The program that attaches first carries the packets until it leaves the bus: it gets the calls Contacts, "
        + "Send, Cancel and Wipe of org.earshot.MeshUplinkSink1 at /org/earshot/uplink/sink. Another program gets Busy meanwhile.",
      audience: .everybody,
      methods: [
        Method(
          "Attach", in: [Argument("key", "s")], out: [Argument("peer", "s")],
          documentation:
            "Begins to carry packets. key is the node's Nostr key in Bech32 (npub1…), which favourites get in the "
            + "mesh. Returns the node's peer ID. A program with a key for another peer ID must erase the key and "
            + "attach with a new one: a wipe of the mesh was meant to erase it.",
          errors: [.denied, .busy, .invalidArgs, .notReady, .notSupported], handler: attach),
        Method(
          "Received", in: [Argument("key", "s"), Argument("text", "s")],
          documentation:
            "Hands over the text of a private message that was received. key is the authenticated Nostr key of its "
            + "sender in Bech32. Returns when the text is handled; InvalidArgs means that it was dropped.",
          errors: [.denied, .invalidArgs, .notReady], handler: received),
      ],
      properties: [
        Property(
          "Attached", "b", documentation: "Whether a program carries packets.", audience: .everybody,
          get: { .bool(service.uplink.isAttached) }),
        Property(
          "DeniedCalls", "t", documentation: "Calls by other users or before Attach.", audience: .everybody,
          emits: .none, get: { .uint64(denied()) }),
      ])
  }
}

/// The program that carries packets, as an object on the bus.
@LoopActor
private final class UplinkSink: UplinkProgram {
  let name: String
  private let bus: BusConnection

  init(_ name: String, _ bus: BusConnection) { (self.name, self.bus) = (name, bus) }

  func setContacts(_ keys: [String]) { call("Contacts", [.strings(keys)]) { _ in } }

  func send(_ packet: UplinkPacket, then: @escaping @LoopActor (Bool) -> Void) {
    call(
      "Send",
      [
        .string(packet.id.text), .string(packet.id.kind.rawValue), .string(packet.key), .string(packet.text),
        .uint64(packet.createdAt),
      ], then: then)
  }

  func cancel(_ id: UplinkPacket.ID) { call("Cancel", [.string(id.text)]) { _ in } }

  func wipe(then: @escaping @LoopActor (Bool) -> Void) { call("Wipe", [], then: then) }

  private func call(_ method: String, _ arguments: [DBusValue], then: @escaping @LoopActor (Bool) -> Void) {
    bus.call(name, MeshUplinkAdaptor.sinkPath, MeshUplinkAdaptor.sinkInterface, method, arguments) { result in
      if case .failure(let error) = result { Log.shared.debug("\(method) was refused: \(error.name)") }
      then((try? result.get()) != nil)
    }
  }
}

extension DBusError {
  init(_ refusal: UplinkRefusal) {
    self =
      switch refusal {
      case .otherText: .invalidArgs("The text is not a packet.")
      case .malformed: .invalidArgs("The packet is malformed.")
      case .unexpected: .invalidArgs("The packet is not a message or a receipt for this node.")
      case .unopened: .invalidArgs("The payload is not encrypted by the sender for this node.")
      case .stranger: .invalidArgs("The sender is not a favourite with this key.")
      case .blocked: .invalidArgs("The sender is blocked.")
      case .date: .invalidArgs("The packet is too old, or from the future.")
      case .notReady: .notReady("The mesh cannot receive messages now.")
      }
  }
}
