import BitchatWire
import Common
import Crypto

/// Request of a machine. The node carries out intents in their order.
enum Intent {
  /// Report an action to the service.
  case report(MeshAction)
  /// Add to one of the counters of the engine.
  case count(WritableKeyPath<NodeCounters, UInt64>, by: UInt64 = 1)
  /// Send a payload in the session with a peer; nothing is sent without a session.
  case seal(NoisePayload, for: PeerID)
  /// Begin a session with a peer.
  case beginSession(PeerID)
  /// Begin one handshake with a peer, without further attempts.
  case tryHandshake(PeerID)
  /// Report that a peer has not answered in its session, and may have lost the keys.
  case unanswered(PeerID)
  /// Send the open challenge of a verification code to a peer with a session.
  case challenge(PeerID)
  /// Pin the signing key that a peer has proven.
  case settle(PeerID, Ed25519.PublicKey)
  /// End the proof of a verification code, if it has not ended.
  case conclude(PeerID, ProofOutcome)
  /// Handle a private message whose author is authenticated.
  case handlePrivateMessage(PrivateMessage, from: PeerID)
  /// Handle a receipt whose author is authenticated.
  case handleReceipt(MessageID, from: PeerID, isRead: Bool)
  /// Send a courier envelope to a peer over these links.
  case sendEnvelope(CourierEnvelope, to: PeerID, over: [LinkID])
  /// Send a Noise message to a peer.
  case sendNoise([UInt8], as: MessageType, to: PeerID, PacketClass)
  /// Send everything that waited for a session with a peer.
  case sessionBegan(PeerID)
  /// Handle a payload that a peer has sent in its session.
  case handlePlaintext([UInt8], from: PeerID)
  /// Check at once whether private messages for absent peers can be given to a courier.
  case hurryCourier
  /// Entrust a receipt to a courier if a courier has brought the message.
  case entrust(NoisePayload, to: PeerID)
  /// Remove the envelopes of a message that was delivered.
  case forgetEnvelopes(of: OutgoingMessage)
  /// Record whether a peer reports this node as its favourite, and the key that it states.
  case favouredBy(PeerID, FavoriteNotice)
  /// Record that the uplink carries a packet of this node.
  case uplinked(UplinkPacket.ID)
  /// Record that couriers carry a message of this node.
  case deposited(UInt32, with: [PeerID], key: X25519.PublicKey)
  /// Send a receipt for a message or file to its sender, over a courier if there is no session.
  case acknowledge(NoisePayload, to: PeerID)
  /// Begin a new session with the peer of a file, if one is due, so that it states its capabilities again.
  case renewSession(forFile: UInt32, with: PeerID)
  /// Make the packet of a file of this node.
  case makeFilePacket(UInt32)
  /// Remove the packets of a file from archive and queues.
  case withdraw(FilePackets)
  /// Delay paced packets after a fragment of a file on this link.
  case giveWay(LinkID)
  /// Store a packet of this node for neighbours that missed it.
  case archive(GossipArchive.Item)
  /// Record that a chat message is sent, so that files leave capacity for chat.
  case chatted
  /// Sign a packet of this node, and send it over a link.
  case sendSigned(Packet, on: LinkID)
  /// Disconnect a link for a reason.
  case cut(LinkID, CutReason)
  /// Record the packet version that a neighbour supports.
  case noteVersion(PacketVersion, of: PeerID)
  /// Send a packet of this node over these links, in the dialect of each.
  case send(Packet, as: PacketClass, to: [LinkID])
  /// Send an answer to a sync request.
  case sendAnswer([UInt8], MessageType, on: LinkID)
  /// Send a ping or its answer; without a link, over the links of the peer.
  case sendPing(PingPayload, as: MessageType, in: PacketClass, to: PeerID, over: LinkID?)
  /// Send an encoded packet over these links, in fragments where a link is too narrow.
  case sendBytes([UInt8], as: PacketClass, to: [LinkID])
  /// Send a fragment of another node that arrived on `from` at the speed of a phone.
  case paceFragment([UInt8], on: LinkID, from: LinkID?)
  /// Record the TTL with which a packet is relayed.
  case noteReach(UInt8, of: WireKey, MessageType)
  /// Record that an announce of a peer was relayed.
  case announceRelayed(of: PeerID)
}
