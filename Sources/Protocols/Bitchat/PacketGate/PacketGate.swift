import BitchatWire
import Common
import Crypto

/// Checks received packets before the node handles them: copies, timestamps, signatures, and the limits on work and on
/// public messages. It also decides whether this node's clock is trusted.
struct PacketGate: Sendable {
  /// Counter of the reason why a packet is dropped.
  typealias Refusal = WritableKeyPath<NodeCounters, UInt64>

  private let hash: KeyedHash
  private let signatures: any SignatureChecking
  private(set) var seen = SeenPackets()
  private(set) var budget = WorkBudget()
  private var handshakes = HandshakeFlow()
  private var lines = PublicMessageQuota()
  /// Public messages that wait for the announce of their unknown senders.
  private(set) var unknown = WaitingChat()
  /// Neighbours whose clocks agree with this node's, according to their announces.
  private(set) var witnesses = ClockWitnesses()
  /// Whether the service knows that this machine's clock is right.
  private(set) var isClockTrusted = false

  /// - Parameters:
  ///   - hash: keyed hash of packets, with a secret of this node.
  ///   - signatures: verifies signatures.
  init(hash: KeyedHash, signatures: any SignatureChecking) {
    self.hash = hash
    self.signatures = signatures
  }

  /// Number of packets remembered to detect copies.
  var remembered: Int { seen.counts.keys + seen.counts.ids }

  /// Time at which waiting chat of an unknown peer expires; nil if none waits.
  var deadline: Instant? { unknown.deadline }

  // MARK: Admission

  /// Facts about a packet that the gate does not know itself.
  struct Context {
    let now: Instant
    /// Current time, in milliseconds since 1970.
    let time: UInt64
    /// Peer ID of this node.
    let own: PeerID
    let origin: DeviceOrigin
    /// Whether the link takes fragments at full speed because its peer is an Earshot peer.
    let isFast: Bool
    /// Whether an answer to a sync request is awaited on the link.
    let awaitsAnswer: Bool
    /// Whether the packet is an announce that is older than the newest one of its sender.
    let isOvertaken: Bool
    /// Whether packets of the sender are relayed.
    let goesOn: Bool
  }

  /// Result of admitting a packet that is not a copy.
  enum Verdict {
    case dropped(Refusal)
    /// The packet is relayed without being decoded.
    case forOthers
    /// The packet is for this node, which decodes it.
    case forNode
  }

  /// Returns the key by which copies of a packet are recognised.
  ///
  /// - Parameter isVerified: whether this node checks the signature.
  func key(of view: PacketView, isVerified: Bool) -> WireKey { view.wireKey(hash, withSignature: !isVerified) }

  /// Decides about a packet that is not a copy.
  mutating func admit(
    _ arrival: Arrival, _ key: WireKey, isVerified: Bool, _ context: Context
  ) -> Verdict {
    let view = arrival.view
    guard !arrival.isAnswer || context.awaitsAnswer else { return .dropped(\.unaskedAnswers) }
    if view.type != .announce, let refusal = Self.untimely(arrival, at: context.time) { return .dropped(refusal) }
    // An announce older than the newest one only shows which link is the sender's.
    guard arrival.isDirect || !context.isOvertaken else { return .dropped(\.oldAnnounces) }
    guard context.goesOn || view.type == .announce || view.type == .leave else { return .dropped(\.blocked) }
    guard
      isVerified || arrival.isReassembled
        || budget.takeUnverified(view.type, on: arrival.link, isFast: context.isFast, at: context.now)
    else { return .dropped(\.tooManyUnverified) }
    if !arrival.isReassembled, let isFirst = view.isFirstOfHandshake,
      !handshakes.take(view, isFirst: isFirst, from: context.origin, hash, at: context.now)
    {
      return .dropped(\.tooManyHandshakes)
    }
    guard !view.isRead(by: context.own) else { return .forNode }
    seen.insert(key, view.type, at: context.now)
    return .forOthers
  }

  /// Result of decoding a packet and verifying its signature.
  enum Decoding {
    case packet(Packet)
    case dropped(Refusal)
    case malformed(PacketError)
  }

  /// Decodes a packet, within the limit on inflation of its link.
  mutating func decode(_ view: PacketView, on link: LinkID, at now: Instant) -> Decoding {
    guard budget.takeInflation(of: view.inflatedCount, on: link, at: now) else { return .dropped(\.tooMuchInflation) }
    do throws(PacketError) { return .packet(try Packet(view)) } catch { return .malformed(error) }
  }

  // MARK: Copies

  /// Whether a packet with this key was received before. If so, its lifetime restarts.
  mutating func isCopy(_ key: WireKey, _ type: MessageType, at now: Instant) -> Bool { seen.see(key, type, at: now) }

  /// Whether a packet with this ID was received before, in any encoding. If so, its lifetime restarts.
  mutating func isCopy(_ id: PacketID, at now: Instant) -> Bool { seen.see(id, at: now) }

  /// Remembers a packet by its key.
  mutating func remember(_ key: WireKey, _ type: MessageType, at now: Instant) { seen.insert(key, type, at: now) }

  /// Remembers a packet by its ID: a relay may recompress it, so that its bytes differ.
  mutating func remember(_ id: PacketID, at now: Instant) { seen.insert(id, at: now) }

  /// Records the TTL with which a packet is relayed: 0 if it is not relayed, `SeenPackets.ended` if no copy changes
  /// that.
  mutating func note(reach: UInt8, of key: WireKey, _ type: MessageType) { seen.note(reach: reach, of: key, type) }

  /// Records that a packet is not relayed, whatever copies of it are received.
  mutating func end(_ key: WireKey, _ type: MessageType) { seen.note(reach: SeenPackets.ended, of: key, type) }

  mutating func note(reach: UInt8, of id: PacketID) { seen.note(reach: reach, of: id) }

  /// Copies the TTL that is recorded for the key of a packet to its ID.
  mutating func shareReach(of key: WireKey, _ type: MessageType, with id: PacketID) {
    seen.shareReach(of: key, type, with: id)
  }

  /// Whether a copy with this TTL reaches far enough beyond the recorded one to be relayed.
  func isWorthwhile(_ timeToLive: UInt8, _ key: WireKey, _ type: MessageType) -> Bool {
    seen.isWorthwhile(timeToLive, key, type)
  }

  /// Whether a copy of the packet with this ID reaches far enough beyond the recorded TTL to be relayed.
  func isWorthwhile(_ timeToLive: UInt8, _ id: PacketID) -> Bool { seen.isWorthwhile(timeToLive, id) }

  /// Whether a TTL reaches far enough beyond that of a stored announce; true if there is none (nil).
  static func isWorthwhile(_ timeToLive: UInt8, beyond announce: UInt8?) -> Bool {
    SeenPackets.isWorthwhile(timeToLive, announce)
  }

  // MARK: Signatures

  /// Checks the signature of a packet, within the work budget of the link.
  ///
  /// - Returns: the reason why the packet is rejected; nil if the signature is valid.
  mutating func checkSignature(
    _ arrival: Arrival, _ packet: Packet, _ key: Ed25519.PublicKey, isKnownAnnounce: Bool, at now: Instant
  ) -> Refusal? {
    guard budget.takeSignature(on: arrival.link, isKnownAnnounce: isKnownAnnounce, at: now) else {
      return \.tooManySignatures
    }
    let check = SignatureCheck(arrival.view, decoded: packet, key: key, by: signatures)
    // `takeSignature` charged one signature. Further ones, and long payloads, are charged here.
    budget.spend(check.computed * (1 + packet.payload.count / WorkBudget.bytesPerSignature) - 1, on: arrival.link)
    return check.isValid ? nil : \.badSignatures
  }

  /// Result of checking an announce with the payload of its sender's latest one.
  enum RepeatedAnnounce {
    case valid
    case dropped(Refusal)
    /// The sender may have signed another form than the received one: the announce needs complete handling.
    case needsDecoding
  }

  /// Checks the signature of an announce with the payload of its sender's latest one. Nothing is decoded.
  mutating func checkRepeated(
    _ view: PacketView, _ signature: ArraySlice<UInt8>, by key: Ed25519.PublicKey, on link: LinkID, at now: Instant
  ) -> RepeatedAnnounce {
    guard budget.takeSignature(on: link, isKnownAnnounce: true, at: now) else { return .dropped(\.tooManySignatures) }
    guard !signatures.holds(signature, of: view.signingPreimage, by: key) else { return .valid }
    let hasOtherForm = PayloadSection(deflating: Array(view.section), version: view.version, level: 6) != nil
    return hasOtherForm ? .needsDecoding : .dropped(\.badSignatures)
  }

  /// Charges a link for opening an envelope, which takes three curve multiplications more than checking a signature.
  ///
  /// - Returns: the reason why the envelope is not opened; nil if it may be opened.
  mutating func takeOpening(on link: LinkID, at now: Instant) -> Refusal? {
    guard budget.takeSignature(on: link, isKnownAnnounce: false, at: now) else { return \.tooManySignatures }
    budget.spend(2, on: link)
    return nil
  }

  /// Whether a new identity is accepted from a link; counts it if so.
  mutating func takeIdentity(on link: LinkID, at now: Instant) -> Bool { budget.takeIdentity(on: link, at: now) }

  /// Whether another pinned key may be persisted; counts it if so.
  mutating func takePin(at now: Instant) -> Bool { budget.takePin(at: now) }

  // MARK: Timestamps

  /// Records whether the service knows that this machine's clock is right.
  mutating func trustClock(_ isTrusted: Bool) { isClockTrusted = isTrusted }

  /// Whether this machine's clock is right: the service knows it, or enough neighbours agree.
  var isClockRight: Bool { isClockTrusted || witnesses.areEnough }

  /// Forgets the comparisons with neighbours' clocks: this machine's clock was set.
  mutating func forgetClocks() { witnesses.forget() }

  /// Compares this node's clock with that of a neighbour whose announce arrived directly.
  ///
  /// - Parameter announcedAt: timestamp of the neighbour's latest announce; 0 if unknown.
  mutating func noteClock(of arrival: Arrival, announcedAt: UInt64, from origin: DeviceOrigin, at time: UInt64) {
    let timestamp = arrival.view.timestamp
    // An old announce may be a replay.
    guard arrival.isDirect, timestamp >= announcedAt else { return }
    witnesses.note(
      arrival.view.sender, from: origin, agrees: Self.distance(timestamp, time) <= Limits.clockMilliseconds)
  }

  /// Compares the timestamp of a packet with this node's clock. Answers to sync requests may be older, and so may
  /// reassembled file packets, whose fragments take long over a slow link.
  ///
  /// - Returns: the reason why the packet is dropped; nil if it is timely.
  private static func untimely(_ arrival: Arrival, at time: UInt64) -> Refusal? {
    let mayBeFile = arrival.isReassembled && [.fileTransfer, .noiseEncrypted].contains(arrival.view.type)
    let oldest =
      arrival.isAnswer
      ? GossipArchive.messageMilliseconds : mayBeFile ? GossipArchive.fileMilliseconds : Limits.clockMilliseconds
    return untimely(arrival.view.timestamp, at: time, oldest: oldest)
  }

  /// Compares the timestamp of a verified announce with this node's clock. A deviation may show that this node's clock
  /// is wrong.
  ///
  /// - Returns: the reason why the announce is dropped; nil if it is timely.
  static func untimely(announce timestamp: UInt64, _ arrival: Arrival, at time: UInt64) -> Refusal? {
    let oldest = arrival.isAnswer ? GossipArchive.oldAnnounceMilliseconds : Limits.clockMilliseconds
    return untimely(timestamp, at: time, oldest: oldest)
  }

  private static func untimely(_ timestamp: UInt64, at time: UInt64, oldest: UInt64) -> Refusal? {
    let limit = timestamp > time ? Limits.clockMilliseconds : oldest
    guard distance(timestamp, time) > limit else { return nil }
    // An answer that is too old does not indicate a wrong clock.
    return limit == Limits.clockMilliseconds ? \.clock : \.tooOld
  }

  private static func distance(_ one: UInt64, _ other: UInt64) -> UInt64 { one > other ? one - other : other - one }

  // MARK: Public messages

  /// Whether a public message is within the limits of its sender and of the origin of its link. Counts the message.
  ///
  /// - Parameter isDear: whether the sender is a favourite or verified.
  mutating func takeLine(from peer: PeerID, isDear: Bool, over origin: DeviceOrigin, at now: Instant) -> Bool {
    lines.take(from: peer, isDear: isDear, over: origin, at: now)
  }

  /// Whether this node may send another public message. Counts the message.
  mutating func takeOwnLine(_ own: PeerID, at now: Instant) -> Bool { lines.takeOwn(own, at: now) }

  /// Whether an accepted public message is relayed. Counts the message.
  mutating func mayPassOn(lineOf peer: PeerID, over origin: DeviceOrigin, at now: Instant) -> Bool {
    lines.mayPassOn(from: peer, over: origin, at: now)
  }

  // MARK: Chat of unknown peers

  /// Queues the packet of an unknown sender until the sender announces itself.
  ///
  /// - Returns: whether there was capacity.
  mutating func wait(_ arrival: Arrival, at now: Instant) -> Bool { unknown.add(arrival, at: now) }

  /// Removes and returns the packets of a sender that is now known.
  mutating func takeWaiting(of sender: PeerID) -> [Arrival] { unknown.take(of: sender) }

  /// Removes the waiting packets that have timed out.
  ///
  /// - Returns: number of removed packets.
  mutating func expire(at now: Instant) -> UInt64 { unknown.expire(at: now) }

  // MARK: Ends

  /// Removes the waiting packets of a peer.
  mutating func forget(_ peer: PeerID) { unknown.forget(peer) }

  /// Removes a link with its limits and its waiting packets.
  ///
  /// - Returns: number of removed packets.
  mutating func forget(_ link: LinkID) -> UInt64 {
    budget.forget(link)
    return unknown.forget(link)
  }
}
