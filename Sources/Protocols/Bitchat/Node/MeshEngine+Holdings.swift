extension MeshEngine {
  /// How much a node keeps of each kind: what grows with its surroundings, and has a limit.
  public struct Holdings: Hashable, Sendable {
    public var peers = 0
    public var pins = 0
    public var announces = 0
    public var messages = 0
    /// Fragments that neighbours may ask for.
    public var fragments = 0
    /// Bytes of announces, messages and fragments that neighbours may ask for.
    public var archiveBytes = 0
    /// Packets by which copies are told.
    public var recentPackets = 0
    /// Packets that wait to be passed on, and their bytes.
    public var pendingRelays = 0
    public var pendingBytes = 0
    /// Packets that are put together from fragments, and what that costs.
    public var assemblies = 0
    public var assemblyBytes = 0
    /// Chat of senders that have not announced themselves.
    public var waitingChat = 0
    /// Frames that leave one after the other.
    public var pacedFrames = 0

    public init() {}
  }

  /// How much this node keeps.
  public var holdings: Holdings {
    var holdings = Holdings()
    (holdings.peers, holdings.pins) = (table.count, table.pinCount)
    (holdings.announces, holdings.messages) = (archive.announceCount, archive.messageCount)
    (holdings.fragments, holdings.archiveBytes) = (archive.fragmentCount, archive.bytes)
    holdings.recentPackets = seen.counts.keys + seen.counts.ids
    (holdings.pendingRelays, holdings.pendingBytes) = (pending.count, pending.bytes)
    (holdings.assemblies, holdings.assemblyBytes) = (assembler.count, assembler.bytes)
    (holdings.waitingChat, holdings.pacedFrames) = (unknown.count, paced.count)
    return holdings
  }
}
