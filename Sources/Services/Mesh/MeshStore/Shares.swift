import Bitchat

/// How much there is of something, by the peer that it came from. Where there is too much, it says whose goes first, so that no
/// peer can push out what others have sent.
public struct Shares: Sendable {
  /// How much there may be.
  public typealias Limit = (count: Int, bytes: Int)

  /// How much there is.
  public struct Amount: Hashable, Sendable {
    public fileprivate(set) var count = 0
    public fileprivate(set) var bytes = 0

    /// Whether it is more than one of so many parts of a limit.
    func isMore(than limit: Limit, dividedBy parts: Int = 1) -> Bool {
      count > limit.count / parts || bytes > limit.bytes / parts
    }

    fileprivate mutating func add(_ count: Int, _ bytes: Int) {
      self.count += count
      self.bytes += bytes
    }
  }

  /// Nil stands for what this node's user has said.
  private var amounts: [PeerID?: Amount] = [:]
  public private(set) var total = Amount()

  public init() {}

  /// There is one more.
  ///
  /// - Parameter peer: the peer that it came from; nil for what this node's user has said.
  public mutating func add(from peer: PeerID?, bytes: Int = 0) {
    amounts[peer, default: Amount()].add(1, bytes)
    total.add(1, bytes)
  }

  /// There is one less.
  public mutating func remove(from peer: PeerID?, bytes: Int = 0) {
    guard var amount = amounts[peer] else { return }
    amount.add(-1, -bytes)
    amounts[peer] = amount.count > 0 ? amount : nil
    total.add(-1, -bytes)
  }

  /// A peer may have a quarter of all before its own goes first, and this node's user half.
  private static func parts(for peer: PeerID?) -> Int { peer == nil ? 2 : 4 }

  /// Whether a peer has more than a quarter of the limit, or this node's user more than half.
  func isGreedy(_ peer: PeerID?, within limit: Limit) -> Bool {
    amounts[peer]?.isMore(than: limit, dividedBy: Self.parts(for: peer)) ?? false
  }

  /// Those of whom that is true.
  func greedy(within limit: Limit) -> Set<PeerID?> { Set(amounts.keys.filter { isGreedy($0, within: limit) }) }

  /// Whose things go first, the oldest of them before the others: those of who has more than a quarter (nil, this node's user:
  /// more than half); else those of peers that are neither favourite nor verified, while these have more than a quarter together;
  /// else those of all peers; and else the user's.
  ///
  /// Many identities can have less than a quarter each: what they send goes before what favourite and verified peers have sent,
  /// so that this stays. A quarter is theirs all the same: what somebody new sends is not gone with the next thing that comes.
  public func firstToGo(within limit: Limit, isTrusted: (PeerID) -> Bool = { _ in false }) -> Set<PeerID?> {
    let greedy = greedy(within: limit)
    if !greedy.isEmpty { return greedy }
    var others: Set<PeerID?> = []
    var together = Amount()
    for case (let peer?, let amount) in amounts where !isTrusted(peer) {
      others.insert(peer)
      together.add(amount.count, amount.bytes)
    }
    if together.isMore(than: limit, dividedBy: 4) { return others }
    let peers = amounts.keys.filter { $0 != nil }
    return peers.isEmpty ? [nil] : Set(peers)
  }
}
