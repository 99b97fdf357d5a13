import Common

/// What a packet is to the queue of a link: what goes first where there is no room, and what may overtake.
public enum PacketClass: Int, CaseIterable, Hashable, Sendable, Comparable {
  /// Public chat of others.
  case publicChat
  /// What a neighbour asked for.
  case syncAnswer
  /// Fragments of others.
  case fragment
  /// A file of this node's, or a fragment of one. Everything else overtakes it.
  case file
  /// Packets of others for one peer.
  case directed
  /// Announces, also those of others. A few at a time overtake all else, for nobody takes a line from a peer that it does not know.
  case announce
  /// What this node says, receipts included.
  case own
  case handshake

  public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Packets that wait until a link takes them.
///
/// Where there is no room, of chat, answers, fragments, announces and what others send to one peer the class that takes the most loses
/// its oldest, so that whoever sends very much of one pushes out nothing of the others; where there are none of these, the first class
/// that has one. What this node says has capacity of its own: it waits there in its order, and where that is full, nothing more is taken.
public struct LinkQueue: Sendable {
  /// The most packets that wait, and the most bytes.
  static let limit = 256
  static let byteLimit = 64 << 10
  /// The most packets of this node that wait beside those, and the most bytes.
  static let ownLimit = 1024
  static let ownByteLimit = 512 << 10
  /// So many announces in a row overtake what else waits; then one packet of that goes.
  static let announcesInARow = 4

  private struct Item: Sendable {
    let number: Int
    let bytes: [UInt8]
  }

  private var items: [Fifo<Item>] = PacketClass.allCases.map { _ in Fifo() }
  /// Bytes by class.
  private var weights = PacketClass.allCases.map { _ in 0 }
  private var nextNumber = 0
  /// What comes by the hundred, and takes turns with what else waits.
  private static let bulk = [PacketClass.syncAnswer, .fragment]
  /// What takes turns with it.
  private static let others = PacketClass.allCases.filter { !bulk.contains($0) && $0 != .file && $0 != .announce }
  /// Whether the next one of those goes before what else waits.
  private var isTurnOfBulk = false
  /// How many announces have overtaken what waits, since something of that went.
  private var overtaking = 0
  public private(set) var count = 0
  public private(set) var bytes = 0
  /// Whether files wait, however long: somebody else needs the radio.
  public var holdsFiles = false

  public init() {}

  public var isEmpty: Bool { count == 0 }
  /// How many packets of files wait.
  public var files: Int { items[PacketClass.file.rawValue].count }

  /// Whether so much of this node waits that it should say nothing more for now. Receipts and answers have room all the same.
  public var isOwnFull: Bool {
    let own = PacketClass.own.rawValue
    return items[own].count >= Self.ownLimit * 3 / 4 || weights[own] >= Self.ownByteLimit * 3 / 4
  }

  /// Takes a packet in.
  ///
  /// - Returns: the classes of packets that went for it; the packet's own if it is the one.
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

  /// Takes packets of files out that are not wanted any more, also those that a neighbour asked for.
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

  /// The packet that goes next: an announce, a few times in a row; or else, in turn, the fragment or answer and the other packet that
  /// wait longest; or else one of a file; nil without packets.
  public var first: [UInt8]? { next.flatMap { items[$0.rawValue].first?.bytes } }

  /// Takes `first` away.
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

  /// The class of the packet that goes next.
  public var next: PacketClass? {
    guard !items[PacketClass.announce.rawValue].isEmpty else { return nextOfOthers }
    return overtaking >= Self.announcesInARow && isSomethingOvertaken ? nextOfOthers : .announce
  }

  /// Whether something but files waits for announces to go.
  private var isSomethingOvertaken: Bool { nextOfOthers.map { $0 != .file } ?? false }

  private var nextOfOthers: PacketClass? {
    let (bulk, other) = (oldest(of: Self.bulk), oldest(of: Self.others))
    if let bulk, isTurnOfBulk || other == nil { return bulk }
    return other ?? (holdsFiles || files == 0 ? nil : .file)
  }

  /// Of some classes, that of the packet that waits longest.
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

  /// The class that loses its oldest packet.
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
