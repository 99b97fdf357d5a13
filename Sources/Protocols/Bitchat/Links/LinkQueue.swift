import Common

/// Class of a packet in the queue of a link. It decides which packets are dropped first, and which may overtake.
public enum PacketClass: Int, CaseIterable, Hashable, Sendable, Comparable {
  /// Public messages of other peers, which are evicted first.
  case publicChat
  /// Packets that answer a neighbour's sync request.
  case syncAnswer
  /// Fragments of packets of other peers.
  case fragment
  /// File of this node, or a fragment of one. All other classes overtake it.
  case file
  /// Packets of others that are addressed to one peer.
  case directed
  /// Announces, this node's and relayed ones. A few in a row overtake all else, because nodes reject messages of
  /// unknown peers.
  case announce
  /// Messages of this node, receipts included.
  case own
  case handshake

  public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Queue of packets that wait for a link.
///
/// When it is full, it drops the oldest packet of the class with the most bytes among chat, answers, fragments,
/// directed packets and announces. A flood of one class therefore does not displace the others. If these are empty, the
/// first class with a packet loses its oldest.
///
/// Messages of this node have a capacity of their own and stay in order. When it is used up, new ones are rejected.
public struct LinkQueue: Sendable {
  /// Maximum number of queued packets, own messages excepted.
  static let limit = 256
  /// Maximum bytes of queued packets, own messages excepted.
  static let byteLimit = 64 << 10
  /// Maximum number of queued own messages.
  static let ownLimit = 1024
  /// Maximum bytes of queued own messages.
  static let ownByteLimit = 512 << 10
  /// Maximum announces in a row that overtake other packets.
  static let announcesInARow = 4

  private struct Item: Sendable {
    let number: Int
    let bytes: [UInt8]
  }

  private var items: [Fifo<Item>] = PacketClass.allCases.map { _ in Fifo() }
  /// Bytes that are queued in each class, by the class's raw value.
  private var weights = PacketClass.allCases.map { _ in 0 }
  private var nextNumber = 0
  /// Classes of packets that come in large numbers. They alternate with the classes in `others`.
  private static let bulk = [PacketClass.syncAnswer, .fragment]
  /// Classes of the packets that are sent alternately with those of `bulk`.
  private static let others = PacketClass.allCases.filter { !bulk.contains($0) && $0 != .file && $0 != .announce }
  /// Whether the next packet is taken from `bulk`, and not from `others`.
  private var isTurnOfBulk = false
  /// Number of announces that were sent in a row while other packets waited.
  private var overtaking = 0
  public private(set) var count = 0
  public private(set) var bytes = 0
  /// Whether files are held back because another node or service needs the radio.
  public var holdsFiles = false

  public init() {}

  public var isEmpty: Bool { count == 0 }
  /// Number of queued packets of files.
  public var files: Int { items[PacketClass.file.rawValue].count }

  /// Whether three quarters of the capacity for own messages are used. New messages should then wait; receipts and
  /// answers still fit.
  public var isOwnFull: Bool {
    let own = PacketClass.own.rawValue
    return items[own].count >= Self.ownLimit * 3 / 4 || weights[own] >= Self.ownByteLimit * 3 / 4
  }

  /// Queues a packet.
  ///
  /// - Returns: classes of the packets dropped for it, or the packet's own class if it was rejected.
  public mutating func append(_ packet: [UInt8], as kind: PacketClass) -> [PacketClass] {
    let own = PacketClass.own.rawValue
    guard kind != .own || items[own].count < Self.ownLimit && weights[own] + packet.count <= Self.ownByteLimit else {
      return [.own]
    }
    items[kind.rawValue].append(Item(number: nextNumber, bytes: packet))
    nextNumber += 1
    count += 1
    bytes += packet.count
    weights[kind.rawValue] += packet.count
    var dropped: [PacketClass] = []
    while count - items[own].count > Self.limit || bytes - weights[own] > Self.byteLimit {
      guard let loser else { break }
      _ = pop(loser)
      dropped.append(loser)
    }
    return dropped
  }

  /// Removes queued packets of files, and of sync answers, for which `isUnwanted` holds.
  public mutating func removeFiles(where isUnwanted: ([UInt8]) -> Bool) {
    for kind in [PacketClass.file, .syncAnswer] {
      var kept = Fifo<Item>()
      while let item = pop(kind) { if !isUnwanted(item.bytes) { kept.append(item) } }
      while let item = kept.popFirst() {
        items[kind.rawValue].append(item)
        count += 1
        bytes += item.bytes.count
        weights[kind.rawValue] += item.bytes.count
      }
    }
  }

  /// Next packet to send; nil if there is none. Announces go first, a few in a row. Then `bulk` and other classes
  /// alternate, the oldest packet first. Files go last.
  public var first: [UInt8]? { next.flatMap { items[$0.rawValue].first?.bytes } }

  /// Removes the packet that `first` returned.
  public mutating func removeFirst() {
    guard let next else { return }
    _ = pop(next)
    if next == .announce {
      overtaking = isSomethingOvertaken ? overtaking + 1 : 0
    } else {
      overtaking = 0
      isTurnOfBulk = !Self.bulk.contains(next)
    }
  }

  /// Class of the packet that leaves the queue next; nil if the queue is empty.
  public var next: PacketClass? {
    guard !items[PacketClass.announce.rawValue].isEmpty else { return nextOfOthers }
    return overtaking >= Self.announcesInARow && isSomethingOvertaken ? nextOfOthers : .announce
  }

  /// Whether packets other than files wait behind announces.
  private var isSomethingOvertaken: Bool { nextOfOthers.map { $0 != .file } ?? false }

  private var nextOfOthers: PacketClass? {
    let (bulk, other) = (oldest(of: Self.bulk), oldest(of: Self.others))
    if let bulk, isTurnOfBulk || other == nil { return bulk }
    return other ?? (holdsFiles || files == 0 ? nil : .file)
  }

  /// Returns the class, among `kinds`, whose packet has waited longest.
  private func oldest(of kinds: [PacketClass]) -> PacketClass? {
    var oldest: (kind: PacketClass, number: Int)?
    for kind in kinds {
      guard let number = items[kind.rawValue].first?.number, oldest.map({ number < $0.number }) ?? true else {
        continue
      }
      oldest = (kind, number)
    }
    return oldest?.kind
  }

  /// Class that loses its oldest packet when the queue is full.
  private var loser: PacketClass? {
    var heaviest = PacketClass.publicChat
    for kind in [PacketClass.syncAnswer, .fragment, .directed, .announce]
    where weights[kind.rawValue] > weights[heaviest.rawValue] {
      heaviest = kind
    }
    guard items[heaviest.rawValue].isEmpty else { return heaviest }
    return PacketClass.allCases.first { $0 != .own && !items[$0.rawValue].isEmpty }
  }

  private mutating func pop(_ kind: PacketClass) -> Item? {
    guard let item = items[kind.rawValue].popFirst() else { return nil }
    count -= 1
    bytes -= item.bytes.count
    weights[kind.rawValue] -= item.bytes.count
    return item
  }
}
