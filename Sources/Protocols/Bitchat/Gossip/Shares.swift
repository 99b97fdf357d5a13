import BitchatWire

/// Number and bytes of stored items, by sending peer and delivering device. If there are too many, it selects the
/// senders whose items are evicted first. No peer can therefore evict the items of others, under any number of names.
public struct Shares: Sendable {
  /// Maximum number and bytes of items.
  public typealias Limit = (count: Int, bytes: Int)

  /// Number of items, and their size in bytes.
  public struct Amount: Hashable, Sendable {
    public fileprivate(set) var count = 0
    public fileprivate(set) var bytes = 0

    /// Whether the amount is more than the limit divided by `parts`, in number or in bytes.
    public func isMore(than limit: Limit, dividedBy parts: Int = 1) -> Bool {
      count > limit.count / parts || bytes > limit.bytes / parts
    }

    /// The fraction of a limit, by number or by bytes, whichever is larger.
    fileprivate func part(of limit: Limit) -> Double {
      max(Double(count) / Double(max(1, limit.count)), Double(bytes) / Double(max(1, limit.bytes)))
    }

    fileprivate mutating func add(_ count: Int, _ bytes: Int) {
      self.count += count
      self.bytes += bytes
    }
  }

  /// The senders whose items are evicted first.
  public struct Losers: Hashable, Sendable {
    public let peers: Set<PeerID?>
    /// Device whose deliveries are evicted; nil if items of any device are.
    fileprivate let device: Device?

    public func contains(_ peer: PeerID?, via device: UInt32? = nil) -> Bool {
      peers.contains(peer) && self.device.map { $0 == Device(mark: device) } ?? true
    }
  }

  /// A device by its mark; nil for an unknown device.
  fileprivate struct Device: Hashable, Sendable {
    let mark: UInt32?
  }

  private struct Share: Hashable, Sendable {
    let peer: PeerID
    let device: Device
  }

  /// The key nil is the user of this node.
  private var amounts: [PeerID?: Amount] = [:]
  private var shares: [Share: Amount] = [:]
  public private(set) var total = Amount()

  public init() {}

  /// Counts one more item.
  ///
  /// - Parameters:
  ///   - peer: the sender; nil for the user of this node.
  ///   - device: the mark of the device that delivered the item.
  public mutating func add(from peer: PeerID?, via device: UInt32? = nil, bytes: Int = 0) {
    change(peer, device, by: 1, bytes)
  }

  /// Subtracts one item from the amounts of its sender and of the device that delivered it.
  public mutating func remove(from peer: PeerID?, via device: UInt32? = nil, bytes: Int = 0) {
    if amounts[peer] != nil { change(peer, device, by: -1, -bytes) }
  }

  private mutating func change(_ peer: PeerID?, _ device: UInt32?, by count: Int, _ bytes: Int) {
    total.add(count, bytes)
    Self.change(&amounts[peer], by: count, bytes)
    if let peer { Self.change(&shares[Share(peer: peer, device: Device(mark: device))], by: count, bytes) }
  }

  private static func change(_ amount: inout Amount?, by count: Int, _ bytes: Int) {
    var changed = amount ?? Amount()
    changed.add(count, bytes)
    amount = changed.count > 0 ? changed : nil
  }

  /// A peer may have a quarter of the limit, and the user of this node half.
  private static func parts(for peer: PeerID?) -> Int { peer == nil ? 2 : 4 }

  /// Whether a peer has more than a quarter of the limit, or the user of this node more than half.
  public func isGreedy(_ peer: PeerID?, within limit: Limit) -> Bool {
    amounts[peer]?.isMore(than: limit, dividedBy: Self.parts(for: peer)) ?? false
  }

  /// The senders that have more than their share of the items, or of the bytes.
  private func greedy(within limit: Limit) -> Set<PeerID?> { Set(amounts.keys.filter { isGreedy($0, within: limit) }) }

  /// Returns the senders whose oldest items are evicted first, by the first of these rules that applies:
  ///
  /// 1. Senders with more than a quarter of the limit (the user of this node, nil: more than half).
  /// 2. If untrusted peers together have more than a quarter: on the device that delivered most of it, the peers with
  ///    the most.
  /// 3. All peers.
  /// 4. The user of this node.
  ///
  /// Rule 2 protects the items of favourite and verified peers from many identities with less than a quarter each. It
  /// also protects a stranger from many identities on another device, and from a busy identity behind the same relay.
  public func firstToGo(within limit: Limit, isTrusted: (PeerID) -> Bool = { _ in false }) -> Losers {
    let greedy = greedy(within: limit)
    if !greedy.isEmpty { return Losers(peers: greedy, device: nil) }
    var together = Amount()
    var ofDevice: [Device: Amount] = [:]
    let others = shares.filter { !isTrusted($0.key.peer) }
    for (share, amount) in others {
      together.add(amount.count, amount.bytes)
      ofDevice[share.device, default: Amount()].add(amount.count, amount.bytes)
    }
    if together.isMore(than: limit, dividedBy: 4), let busiest = Self.busiest(ofDevice, limit) {
      let ofBusiest = others.filter { $0.key.device == busiest }
      let most = ofBusiest.values.map { $0.part(of: limit) }.max() ?? 0
      let peers = ofBusiest.filter { $0.value.part(of: limit) >= most }.map(\.key.peer)
      return Losers(peers: Set(peers), device: busiest)
    }
    let peers = amounts.keys.filter { $0 != nil }
    return Losers(peers: peers.isEmpty ? [nil] : Set(peers), device: nil)
  }

  private static func busiest(_ amounts: [Device: Amount], _ limit: Limit) -> Device? {
    amounts.max {
      ($0.value.part(of: limit), $0.key.mark ?? 0) < ($1.value.part(of: limit), $1.key.mark ?? 0)
    }?.key
  }
}
