import BitchatWire
import Common
import DBus
import Loop

/// D-Bus objects of the mesh's peers, `org.earshot.MeshPeer1`, accessible to root and the group.
@LoopActor
final class MeshPeerObjects {
  nonisolated static let interfaceName = "org.earshot.MeshPeer1"

  private let service: MeshService
  private let tree: ObjectTree
  private let root: ObjectPath
  private let manager: ObjectPath
  private var objects: [PeerID: ExportedObject] = [:]
  /// Node that the peers belong to; nil while its identity is unknown.
  private var node: PeerID?

  init(_ service: MeshService, on tree: ObjectTree, below root: ObjectPath, manager: ObjectPath) {
    (self.service, self.tree, self.root, self.manager) = (service, tree, root, manager)
    service.peers.changes.addForGood { [weak self] in self?.look(at: $0) }
    service.node.changes.addForGood { [weak self] in self?.lookAtNode() }
    service.peers.renames.addForGood { [weak self] in
      self?.objects[$0.peer]?.emit(Self.interfaceName, "Renamed", [.string($0.before), .string($0.now)])
    }
  }

  /// Adds and removes objects after the node's identity became known or was changed by a wipe.
  private func lookAtNode() {
    let now = service.node.engine?.identity.id
    guard now != node else { return }
    node = now
    let known = Set(service.peers.known)
    for peer in objects.keys where !known.contains(peer) { objects[peer] = nil }
    for peer in known where objects[peer] == nil { look(at: peer) }
  }

  private func look(at peer: PeerID) {
    guard service.peers.view(of: peer) != nil else {
      objects[peer] = nil
      return
    }
    if let object = objects[peer] {
      return object.changed(
        "Nickname", "VerifiedName", "NicknameHistory", "Fingerprint", "Direct", "Hops", "Verified", "Proof",
        "Favourite",
        "FavouriteOfPeer", "UplinkKey", "Blocked", "Session", "Trouble")
    }
    objects[peer] = tree.export(
      root.child("peer\(peer)"), interfaces: [Self.interface(peer, service)], manager: manager)
  }

  static func interface(_ peer: PeerID, _ service: MeshService) -> Interface {
    func view() -> KnownPeer? { service.peers.view(of: peer) }
    func flag(_ name: String, _ documentation: String, _ get: @escaping @LoopActor (KnownPeer) -> Bool)
      -> Property
    {
      Property(name, "b", documentation: documentation, get: { .bool(view().map(get) ?? false) })
    }
    return Interface(
      interfaceName,
      documentation:
        "A peer of the mesh: one that was received in the last minutes, one that the user has marked, or one that has "
        + "sent or received a message or a file. Signals about it are sent to programs that have called Watch of the "
        + "manager.",
      audience: .group, methods: methods(peer, service),
      properties: [
        Property(
          "PeerId", "s", documentation: "The ID of the peer.", emits: .const, get: { .string(peer.description) }),
        Property(
          "Nickname", "s", documentation: "The nickname of the peer, which other peers may have as well.",
          get: { .string(view()?.nickname ?? "") }),
        Property(
          "VerifiedName", "s",
          documentation:
            "The nickname that the peer had when it was verified; empty if it is not verified, or had none.",
          get: { .string(view()?.marks.verifiedName ?? "") }),
        Property(
          "NicknameHistory", "as",
          documentation:
            "The last eight nicknames of the peer since it became a favourite or was verified. One of them alone never "
            + "names another peer.",
          get: { .array(of: "s", (view()?.marks.nicknameHistory ?? []).map { .string($0) }) }),
        Property(
          "Fingerprint", "s",
          documentation:
            "The fingerprint that people compare to verify the peer, 64 hexadecimal digits; empty while it is not "
            + "known.",
          get: { .string(view()?.fingerprint?.description ?? "") }),
        flag("Direct", "Whether this node has a link to the peer.") { $0.isDirect },
        Property(
          "Hops", "u",
          documentation:
            "The number of hops to the peer; 0 if its link has ended, or nothing was received from it for some "
            + "minutes.",
          get: { .uint32(UInt32(clamping: view()?.hops ?? 0)) }),
        Property(
          "Rssi", "n", documentation: "The strength of the peer's signal in dBm; 127 if it is not known.", emits: .none,
          get: { .int16(SignalStrength.number(service.links.rssi(of: peer))) }),
        Property(
          "LastSeen", "t",
          documentation:
            "When the peer was last received, in milliseconds since 1970-01-01 UTC; 0 if that is not known.",
          emits: .none, get: { .uint64(view()?.seenAt ?? 0) }),
        flag(
          "Verified",
          "Whether a person has compared the peer's fingerprint or the peer has proven its code, and the peer has also "
            + "proven its signing key in a session."
        ) { $0.isVerified },
        Property(
          "Proof", "s",
          documentation:
            "The state of the last proof that Verify or VerifyCode requested: asked, proven, wrong (it answered with "
            + "other keys than the code's), noAnswer, gone or blocked; empty if none was requested since the "
            + "service started.",
          get: { .string(service.peers.proofs[peer]?.rawValue ?? "") }),
        flag("Favourite", "Whether the peer is a favourite.") { $0.marks.isFavourite },
        flag("FavouriteOfPeer", "Whether this node is a favourite of the peer.") { $0.marks.isFavouriteOfPeer },
        Property(
          "UplinkKey", "s",
          documentation:
            "The peer's Nostr key in Bech32 (npub1…) from its favourite notice; empty if no notice contained one. "
            + "Private messages to a mutual favourite without a path in the mesh go to this key.",
          get: { .string(view()?.marks.uplinkKey ?? "") }),
        flag("Blocked", "Whether the peer is blocked.") { $0.marks.isBlocked },
        Property(
          "Trouble", "s",
          documentation:
            "Why data of the peer was refused in the last ten minutes, in a sentence: the type of a file, a clock that "
            + "is off by more than two minutes, or a link that was closed because the peer did not announce itself; "
            + "empty if nothing was refused.",
          get: { .string(service.peers.trouble(of: peer)) }),
        flag(
          "Session",
          "Whether there is a session for private messages. False from the end of the peer's last link until the peer has shown that it "
            + "still has the session."
        ) { $0.hasSession },
      ],
      signals: [
        Signal(
          "Renamed", [Argument("before", "s"), Argument("now", "s")],
          documentation:
            "A favourite or verified peer has another nickname. At most six signals a minute are sent for each peer.")
      ])
  }

  private static func methods(_ peer: PeerID, _ service: MeshService) -> [Method] {
    [
      Method(
        "Favourite", in: [Argument("favourite", "b")],
        documentation:
          "Marks the peer as a favourite, or removes the mark. The peer gets a notice, which is repeated until the "
          + "peer acknowledges it.",
        errors: [.limitExceeded],
        returning: { call throws(DBusError) in
          try service.peers.favourite(peer, call.arguments.first?.asBool ?? false)
          return []
        }),
      Method(
        "Block", in: [Argument("blocked", "b")],
        documentation: "Blocks or unblocks the peer. Messages of a blocked peer are not shown, and it gets no answer.",
        errors: [.limitExceeded],
        returning: { call throws(DBusError) in
          try service.block(peer, call.arguments.first?.asBool ?? false)
          return []
        }),
      Method(
        "Verify", in: [Argument("fingerprint", "s")],
        documentation:
          "States that a person has compared the peer's fingerprint with this one; an empty text revokes that. The "
          + "fingerprint covers only the key of the peer's sessions, so the peer becomes Verified when it has proven "
          + "its signing key in a session. The service asks the peer for that proof at once if it is in range, "
          + "otherwise when it returns.",
        errors: [.invalidArgs, .limitExceeded],
        returning: { call throws(DBusError) in
          try service.peers.verify(peer, fingerprint: call.arguments.first?.asString ?? "")
          return []
        }),
      Method(
        "Forget",
        documentation:
          "Removes the peer, its keys, and everything that waits for it. When it is received again, it is a new peer.",
        returning: { _ throws(DBusError) in
          service.peers.forget(peer)
          return []
        }),
    ]
  }
}
