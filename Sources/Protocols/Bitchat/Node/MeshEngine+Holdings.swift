import Common

extension MeshEngine {
  /// Amounts of stored items that grow with the network and have a limit.
  public struct Holdings: Hashable, Sendable {
    public var peers = 0
    public var pins = 0
    public var announces = 0
    public var messages = 0
    /// Fragments stored for sync.
    public var fragments = 0
    /// Bytes of announces, messages and fragments stored for sync.
    public var archiveBytes = 0
    /// Packets remembered to detect copies.
    public var recentPackets = 0
    /// Packets that wait to be relayed, and their bytes.
    public var pendingRelays = 0
    public var pendingBytes = 0
    /// Incomplete fragmented packets, and the memory that they use, in bytes.
    public var assemblies = 0
    public var assemblyBytes = 0
    /// Chat of senders that have not announced themselves.
    public var waitingChat = 0
    /// Frames that wait for paced sending.
    public var pacedFrames = 0

    public init() {}
  }

  /// Counters of handshakes and sessions, by name.
  public var noiseTallies: [Tally] { sessions.counters.tallies.map { Tally("Noise" + $0.name, $0.count) } }

  /// Current amounts of stored items.
  public var holdings: Holdings {
    var holdings = Holdings()
    (holdings.peers, holdings.pins) = (table.count, table.pinCount)
    (holdings.announces, holdings.messages) = (gossip.archive.announceCount, gossip.archive.messageCount)
    (holdings.fragments, holdings.archiveBytes) = (gossip.archive.fragmentCount, gossip.archive.bytes)
    holdings.recentPackets = seen.counts.keys + seen.counts.ids
    (holdings.pendingRelays, holdings.pendingBytes) = (pending.count, pending.bytes)
    (holdings.assemblies, holdings.assemblyBytes) = (assembler.count, assembler.bytes)
    (holdings.waitingChat, holdings.pacedFrames) = (unknown.count, paced.count)
    return holdings
  }
}
