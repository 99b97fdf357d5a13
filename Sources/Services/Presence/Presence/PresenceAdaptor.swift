import Common
import DBus
import Glibc
import Hosting
import Loop
import Thali

/// D-Bus adaptor of private presence: `org.earshot.Presence1`, and `org.earshot.PresencePeer1` for each known peer.
///
/// All data is for the group, because known and nearby peers are not public.
@LoopActor
final class PresenceAdaptor {
  nonisolated static let busName = "org.earshot.Presence"
  nonisolated static let interfaceName = "org.earshot.Presence1"
  nonisolated static let peerInterfaceName = "org.earshot.PresencePeer1"
  nonisolated static let path: ObjectPath = "/org/earshot/presence"
  nonisolated static let peers: ObjectPath = "/org/earshot/presence/peers"

  private let service: PresenceService
  private let bus: BusConnection
  private let object: ExportedObject
  private var peerObjects: [PeerID: ExportedObject] = [:]
  /// The programs with registered services, by their bus names, with the registrations that notice their ends.
  private var owners: [String: Registration] = [:]

  init(_ service: PresenceService, on bus: BusConnection) {
    (self.service, self.bus) = (service, bus)
    let tree = bus.objects
    tree.exportManager(Self.path)
    let owner = AdaptorBox()
    object = tree.export(
      Self.path, interfaces: [Self.interface(service, tree: tree, register: { owner.face?.register($0) })])
    owner.face = self
    service.changes.addForGood { [weak self] in self?.changed() }
    service.added.addForGood { [weak self] in self?.export($0) }
    service.removed.addForGood { [weak self] in self?.peerObjects[$0.id] = nil }
    service.moved.addForGood { [weak self] in
      self?.peerObjects[$0]?.changed("Nearby", "Ways", "LastHeard")
    }
  }

  private func changed() {
    object.changed("State", "Reason", "PublicKey", "Fingerprint", "Announcing", "Reachable", "Services")
  }

  private func export(_ peer: PresenceService.Peer) {
    peerObjects[peer.id] = bus.objects.export(
      Self.path(of: peer), interfaces: [Self.peerInterface(service, peer)], manager: Self.path)
  }

  nonisolated static func path(of peer: PresenceService.Peer) -> ObjectPath {
    peers.child("\(peer.entry.number)")
  }

  // MARK: Services of programs

  /// Registers the service of a caller until its connection ends.
  private func register(_ call: MethodCall) {
    guard call.arguments.count == 2, let label = call.arguments[0].asString.flatMap({ ServiceLabel($0) }) else {
      return call.fail(DBusError(.badService))
    }
    guard let address = call.arguments[1].asString.flatMap({ LocalAddress($0) }) else {
      return call.fail(DBusError(.badAddress))
    }
    bus.credentials(of: call.sender) { [weak self] result in
      guard let self, case .success(let caller) = result else {
        return call.fail(.failed("The bus does not know the user of this program."))
      }
      do throws(PresenceService.Refusal) {
        try service.streams.register(label, at: address, by: call.sender, user: caller.uid)
        follow(call.sender)
        changed()
        call.reply()
      } catch {
        call.fail(DBusError(error))
      }
    }
  }

  private func follow(_ owner: String) {
    guard owners[owner] == nil else { return }
    owners[owner] = bus.watchName(owner) { [weak self] present in
      guard let self, present == nil else { return }
      service.streams.unregister(all: owner)
      owners[owner] = nil
      changed()
    }
  }

  // MARK: Interfaces

  /// - Parameters:
  ///   - tree: the tree whose signals `Watch` requests; nil if the interface is only described.
  ///   - register: handles a call of `Register`.
  static func interface(
    _ service: PresenceService, tree: ObjectTree? = nil, register: @escaping @LoopActor (MethodCall) -> Void = { _ in }
  ) -> Interface {
    Interface(
      interfaceName,
      documentation:
        "Private presence (Thali): announces this machine to chosen peers, finds known peers that announce themselves, and "
        + "opens authenticated streams to them.",
      methods: WatchMethods.methods(tree) + methods(service, register), properties: properties(service))
  }

  private static func methods(
    _ service: PresenceService, _ register: @escaping @LoopActor (MethodCall) -> Void
  ) -> [Method] {
    [
      Method(
        "AddPeer", in: [Argument("name", "s"), Argument("key", "s")], out: [Argument("peer", "o")],
        documentation:
          "Adds a known peer: a name of 1 to 64 bytes, and the peer's PublicKey. Returns when it is stored. A peer that "
          + "has announced itself to this machine before is nearby at once.",
        errors: [.invalidArgs, .limitExceeded, .notReady, .failed],
        handler: { call in
          guard call.arguments.count == 2, let name = call.arguments[0].asString,
            let key = call.arguments[1].asString
          else { return call.fail(.invalidArgs("AddPeer takes a name and a key.")) }
          service.addPeer(name, key: key) { result in
            switch result {
            case .success(let peer): call.reply(.objectPath(path(of: peer)))
            case .failure(let refusal): call.fail(DBusError(refusal))
            }
          }
        }),
      Method(
        "RemovePeer", in: [Argument("peer", "o")],
        documentation:
          "Forgets a known peer and ends its streams. If it was announced to, the other recipients get a new "
          + "announcement.",
        errors: [.notFound, .notReady, .failed],
        handler: { call in
          guard let peer = known(call.arguments.first, service) else {
            return call.fail(DBusError(.engine(.unknownPeer)))
          }
          service.removePeer(peer.id) { refusal in
            if let refusal { call.fail(DBusError(refusal)) } else { call.reply() }
          }
        }),
      Method(
        "Announce", in: [Argument("names", "as"), Argument("seconds", "u")],
        documentation:
          "Announces this machine to 1 to 15 known peers by their names, for at least 10 s or, with 0, until Silence. "
          + "It replaces what was announced before. The announcement ends with the service.",
        errors: [.invalidArgs, .notFound, .notReady, .limitExceeded, .failed],
        returning: { call throws(DBusError) in
          guard call.arguments.count == 2, let names = call.arguments[0].asStrings,
            let seconds = call.arguments[1].asUInt32
          else { throw .invalidArgs("Announce takes names and a number of seconds.") }
          do throws(PresenceService.Refusal) {
            try service.announce(to: names, seconds: seconds)
            return []
          } catch {
            throw DBusError(error)
          }
        }),
      Method(
        "Silence", documentation: "Ends the announcement, and closes the port. Open streams stay open.",
        returning: { _ throws(DBusError) in
          service.silence()
          return []
        }),
      Method(
        "Register", in: [Argument("service", "s"), Argument("address", "s")],
        documentation:
          "Offers a service to known peers: each stream that a peer opens to it is connected to the address. This is the "
          + "path of a Unix socket, whose listener must belong to the caller's user, or 127.0.0.1 or [::1] with a port. "
          + "The service named default also receives streams that name no service, as other implementations open them. A "
          + "service ends with the caller's connection to the bus.",
        errors: [.invalidArgs, .busy, .limitExceeded, .failed], handler: register),
      Method(
        "Open", in: [Argument("peer", "o"), Argument("service", "s")], out: [Argument("stream", "h")],
        documentation:
          "Opens a stream to a service of a peer nearby, and returns a connected socket. NotReady: the peer is not nearby, or "
          + "none of its programs has registered the service. PeerLost: the peer cannot be reached or authenticated.",
        errors: [.invalidArgs, .notFound, .notReady, .peerLost, .limitExceeded],
        handler: { call in
          guard let peer = known(call.arguments.first, service) else {
            return call.fail(DBusError(.engine(.unknownPeer)))
          }
          guard let label = call.arguments.last?.asString.flatMap({ ServiceLabel($0) }) else {
            return call.fail(DBusError(.badService))
          }
          service.streams.connect(to: peer.id, label) { result in
            switch result {
            case .success(let descriptor): call.reply(.descriptor(FileDescriptor(owning: descriptor)))
            case .failure(let refusal): call.fail(DBusError(refusal))
            }
          }
        }),
    ]
  }

  private static func known(_ value: DBusValue?, _ service: PresenceService) -> PresenceService.Peer? {
    value?.asObjectPath.flatMap { path in service.peers.first { Self.path(of: $0) == path } }
  }

  private static func properties(_ service: PresenceService) -> [Property] {
    [
      Property(
        "State", "s", documentation: "stopped, waiting, ready or failed: Reason names what is missing.",
        get: {
          switch service.phase {
          case .stopped: .string("stopped")
          case .opening: .string("waiting")
          case .failed: .string("failed")
          case .ready: .string(service.isUsable ? "ready" : "waiting")
          }
        }),
      Property(
        "Reason", "s", documentation: "What is missing, and what to do; empty if everything works.",
        get: { .string(service.reason) }),
      Property(
        "PublicKey", "s",
        documentation: "The public key of this machine, which peers add: base64url of 88 bytes, 118 characters.",
        get: { .string(service.publicKey.map(KeyText.text) ?? "") }),
      Property(
        "Fingerprint", "s",
        documentation: "The first 16 bytes of the SHA-256 of the public key, in hexadecimal digits.",
        get: { .string(service.publicKey.map(KeyText.fingerprint) ?? "") }),
      Property(
        "Dialects", "as", documentation: "The dialects of announcements that are read: spec, node.", emits: .const,
        get: { .strings(service.dialects.map(\.rawValue)) }),
      Property(
        "Announcing", "as", documentation: "The names of the peers that this machine announces itself to.",
        get: { .strings(service.announcing.compactMap { service.peer($0)?.entry.name }) }),
      Property(
        "Reachable", "as",
        documentation: "How peers can reach this machine at this moment: bluetooth, network, or nothing.",
        get: { .strings(service.reachable) }),
      Property(
        "MultiPeerConnectivity", "s",
        documentation: "Always unsupported: the protocol of Apple's multipeer connectivity is not public.",
        emits: .const,
        get: { .string("unsupported") }),
      Property(
        "Services", "as", documentation: "The services that programs have registered.",
        get: { .strings(service.streams.serviceNames) }),
      Property(
        "Counters", "a{st}",
        documentation: "Counters since the service started, including everything that was dropped, by reason.",
        emits: .none, get: { .tallies(service.tallies) }),
    ]
  }

  /// The interface of a known peer.
  ///
  /// - Parameter peer: nil if the interface is only described.
  static func peerInterface(_ service: PresenceService, _ peer: PresenceService.Peer?) -> Interface {
    Interface(
      peerInterfaceName, documentation: "A known peer.",
      properties: [
        Property(
          "Name", "s", documentation: "The name under which the peer was added.", emits: .const,
          get: { .string(peer?.entry.name ?? "") }),
        Property(
          "Fingerprint", "s",
          documentation: "The first 16 bytes of the SHA-256 of the peer's public key, in hexadecimal digits.",
          emits: .const, get: { .string(peer.map { KeyText.fingerprint($0.entry.key) } ?? "") }),
        Property(
          "Nearby", "b", documentation: "Whether the peer announces itself to this machine at this moment.",
          get: { .bool(peer.map { service.isNearby($0.id) } ?? false) }),
        Property(
          "Ways", "as", documentation: "How the peer can be reached: bluetooth, network.",
          get: { .strings(WayWord.words(peer.map { service.ways(to: $0.id) } ?? [])) }),
        Property(
          "LastHeard", "t",
          documentation:
            "When the peer's announcement was received last, in milliseconds since 1970-01-01 UTC; 0 if it was not "
            + "received in this run.",
          get: { .uint64(peer.map { service.lastHeard($0.id) } ?? 0) }),
      ])
  }
}

/// Holds the adaptor, for callbacks that are created before it.
@LoopActor
private final class AdaptorBox {
  weak var face: PresenceAdaptor?
}

/// The words for the kinds of ways to a peer. Addresses are not shown.
private enum WayWord {
  static func words(_ ways: [Way]) -> [String] {
    let kinds = ways.map { way in
      switch way {
      case .bluetooth: "bluetooth"
      case .network: "network"
      }
    }
    return ["bluetooth", "network"].filter(kinds.contains)
  }
}

extension DBusError {
  init(_ refusal: PresenceService.Refusal) {
    let sentence = refusal.sentence
    switch refusal {
    case .notReady, .notNearby, .serviceNotRegistered: self = .notReady(sentence)
    case .badName, .nameTaken, .badService, .badAddress: self = .invalidArgs(sentence)
    case .unknownName: self = .notFound(sentence)
    case .store: self = .failed(sentence)
    case .unreachable: self = .peerLost(sentence)
    case .tooManyStreams, .tooManyServices: self = .limitExceeded(sentence)
    case .serviceTaken: self = .busy(sentence)
    case .engine(let error):
      switch error {
      case .badKey, .ownKey, .knownKey, .badRecipients, .badLife: self = .invalidArgs(sentence)
      case .tooManyPeers, .tooFast, .tooManyAnnouncements: self = .limitExceeded(sentence)
      case .unknownPeer: self = .notFound(sentence)
      case .clockNotSet: self = .notReady(sentence)
      case .cryptoFailed: self = .failed(sentence)
      }
    }
  }
}
