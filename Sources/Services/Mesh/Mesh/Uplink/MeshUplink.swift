import Bitchat
import BitchatWire
import DBus
import Loop
import MeshStore

/// A program that carries packets for peers without a path in the mesh: `earshot-nostrd`.
@LoopActor
protocol UplinkProgram: AnyObject {
  /// Replaces the keys of the peers that may send and get packets, as text.
  func setContacts(_ keys: [String])
  /// Passes a packet to the program.
  ///
  /// - Parameter then: called once, later: whether the program has stored the packet.
  func send(_ packet: UplinkPacket, then: @escaping @LoopActor (Bool) -> Void)
  /// Reports that the packet with this ID need not be repeated.
  func cancel(_ id: UplinkPacket.ID)
  /// Requests to erase the key and all packets.
  ///
  /// - Parameter then: called once, later: whether they are erased.
  func wipe(then: @escaping @LoopActor (Bool) -> Void)
}

/// Private messages over the uplink: passes packets of the engine to a program, and handles those that the program has
/// received.
@LoopActor
final class MeshUplink {
  /// Maximum number of mutual favourites whose keys are passed to the uplink program.
  static let contactLimit = 1000

  private let node: MeshNode
  private let peers: MeshPeers
  private let messages: MeshMessages
  private weak var program: (any UplinkProgram)?
  /// This node's Nostr key, which the program passed to `attach`, as text.
  private var key: String?
  /// Keys that the program was last given; nil if it was given none yet.
  private var contacts: [String]?

  init(_ node: MeshNode, _ peers: MeshPeers, _ messages: MeshMessages) {
    (self.node, self.peers, self.messages) = (node, peers, messages)
    peers.changes.addForGood { [weak self] _ in self?.updateContacts() }
  }

  /// Whether a program has called `Attach` and carries packets over the uplink.
  var isAttached: Bool { program != nil }

  /// Makes a program the carrier of packets.
  ///
  /// - Parameters:
  ///   - key: this node's key, as text: `npub1` and 58 characters.
  ///   - answer: called once, before any packet is passed, with the peer ID of this node. A wipe changes it, and the
  ///     program's key must not outlive a wipe.
  func attach(
    _ program: any UplinkProgram, key: String, answer: @LoopActor (PeerID) -> Void = { _ in }
  ) throws(DBusError) {
    guard node.settings.role.converses else { throw DBusError(MeshRefusal.relay) }
    guard FavoriteNotice.isKey(key) else { throw .invalidArgs("The key is not a Nostr key in Bech32 (npub1…).") }
    guard node.engine != nil else { throw .notReady(node.hindrance ?? "The mesh is starting.") }
    (self.program, self.key, contacts) = (program, key, nil)
    answer(node.ownID)
    open()
  }

  /// Handles the end of the uplink program: its packets wait for the next program.
  func detach() {
    (program, key, contacts) = (nil, nil, nil)
    node.handle(.uplinkClosed)
  }

  /// Passes the attached program to an engine that was created anew, for example after a wipe.
  func reopen() { if program != nil { open() } }

  private func open() {
    guard let key, node.engine != nil else { return }
    if node.engine?.uplinkKey != key { node.keep([.uplinkKey(key)]) }
    updateContacts()
    node.handle(.uplinkOpened(key: key))
  }

  /// Gives the program the keys of the mutual favourites, if they have changed.
  private func updateContacts() {
    guard let program else { return }
    let mutual = peers.marks.values.filter {
      $0.isFavourite && $0.isFavouriteOfPeer && !$0.isBlocked && !$0.uplinkKey.isEmpty
    }
    let keys = Array(Set(mutual.map(\.uplinkKey)).sorted().prefix(Self.contactLimit))
    guard keys != contacts else { return }
    contacts = keys
    program.setContacts(keys)
  }

  /// Handles a text that the program has received.
  ///
  /// - Parameter key: the authenticated key of the sender, as text.
  func received(_ text: String, from key: String) throws(UplinkRefusal) {
    guard node.engine != nil else { throw .notReady }
    var rest: [MeshEngine.Action] = []
    for action in try node.engine?.receive(uplinked: text, from: key, at: node.now, time: node.time) ?? [] {
      if case .told(let message, let peer, let time) = action {
        messages.told(message, from: peer, at: time, by: .uplink)
      } else {
        rest.append(action)
      }
    }
    node.perform(rest)
  }

  // MARK: Actions of the engine

  func send(_ packet: UplinkPacket) {
    guard let program else { return node.scheduler.soon { [weak self] in self?.answered(packet.id, false) } }
    program.send(packet) { [weak self] in self?.answered(packet.id, $0) }
  }

  private func answered(_ id: UplinkPacket.ID, _ isTaken: Bool) {
    node.handle(isTaken ? .uplinkTaken(id) : .uplinkRefused(id))
  }

  func done(_ id: UplinkPacket.ID) { program?.cancel(id) }

  // MARK: Wipe

  /// Erases the key and the packets of the program. A program that is not running erases them when it finds that this
  /// node has another peer ID.
  ///
  /// - Parameter then: called once, maybe at once: whether they are erased.
  func wipe(then: @escaping @LoopActor (Bool) -> Void) {
    guard let program else { return then(true) }
    // The program attaches again with its new key.
    detach()
    program.wipe(then: then)
  }
}
