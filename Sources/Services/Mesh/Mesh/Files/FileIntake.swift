import Bitchat
import Common
import Journal
import MeshStore

/// Files that came and that the disk does not have yet, in the order in which they came. A value.
struct FileIntake: Sendable {
  /// The most bytes, and the most files, that wait or are being written.
  static let byteLimit = 8 << 20
  static let limit = 64
  /// Files that are being written at the same time.
  static let writers = 2
  /// The most new files in a minute of one sender; and of strangers' public files, of their private ones, and of those of favourites so
  /// many together. Of public ones of strangers also over one link: who has many names has few links.
  static let perMinuteOfSender = 20
  static let perMinuteOfLink = 30
  static let perMinute = 60
  /// From a refusal of the disk to the next attempt.
  static let pause = Duration.seconds(15)

  /// How often files come of one sender, over one link, and of all.
  private struct Gate: Sendable {
    private var senders = RateLimiter<PeerID>(perMinute: perMinuteOfSender, capacity: 256)
    private var links = RateLimiter<LinkID>(perMinute: perMinuteOfLink, capacity: 32)
    private var all = RateLimiter<Bool>(perMinute: perMinute, capacity: 1)

    /// What is too much of the sender uses up nothing of its link's part, and what is too much of a link nothing of everybody's, nor a
    /// place among the senders, of whom there may be as many as somebody behind the link makes up.
    ///
    /// - Parameter link: nil where links do not count.
    mutating func allow(_ sender: PeerID, over link: LinkID?, at now: Instant) -> Bool {
      guard let link else { return senders.allow(sender, at: now) && all.allow(true, at: now) }
      return links.wouldAllow(link, at: now) && senders.allow(sender, at: now) && links.allow(link, at: now)
        && all.allow(true, at: now)
    }
  }

  private var waiting: [ReceivedFile] = []
  /// Bytes of those that are being written, by what they are known by.
  private var beingWritten: [[MeshFile.Key]: Int] = [:]
  private var keys: Set<[MeshFile.Key]> = []
  private var bytes = 0
  private var pausedUntil: Instant?
  private var strangers = Gate()
  /// Those who send private files are known by their keys alone, of which anybody makes as many as wanted.
  private var privateStrangers = Gate()
  private var favourites = Gate()
  /// Files of senders, or over links, that bring too many.
  private(set) var refused: UInt64 = 0
  /// Files that came whole and found no place, here or on the disk.
  private(set) var lost: UInt64 = 0

  var count: Int { keys.count }

  /// - Parameter isOfFavourite: whether its sender is one.
  /// - Returns: whether the file is a new one that waits now.
  mutating func take(_ file: ReceivedFile, isOfFavourite: Bool = false, at now: Instant) -> Bool {
    let key = file.keys
    guard !keys.contains(key) else { return false }
    guard isAllowed(file, isOfFavourite, at: now) else {
      refused += 1
      return false
    }
    guard keys.count < Self.limit, bytes + file.content.count <= Self.byteLimit else {
      lost += 1
      return false
    }
    keys.insert(key)
    bytes += file.content.count
    waiting.append(file)
    return true
  }

  private mutating func isAllowed(_ file: ReceivedFile, _ isOfFavourite: Bool, at now: Instant) -> Bool {
    if isOfFavourite { return favourites.allow(file.sender, over: nil, at: now) }
    if file.isPrivate { return privateStrangers.allow(file.sender, over: nil, at: now) }
    return strangers.allow(file.sender, over: file.link, at: now)
  }

  /// The file to be written now; nil where enough are, none waits, or the disk has refused one just now.
  mutating func next(at now: Instant) -> ReceivedFile? {
    guard beingWritten.count < Self.writers, !waiting.isEmpty, pausedUntil.map({ $0 <= now }) ?? true else {
      return nil
    }
    pausedUntil = nil
    let file = waiting.removeFirst()
    beingWritten[file.keys] = file.content.count
    return file
  }

  func isBeingWritten(_ file: ReceivedFile) -> Bool { beingWritten[file.keys] != nil }

  /// The disk has it.
  mutating func wrote(_ file: ReceivedFile) {
    guard beingWritten.removeValue(forKey: file.keys) != nil else { return }
    keys.remove(file.keys)
    bytes -= file.content.count
  }

  /// The disk has refused it: it comes first when nothing is refused any more.
  mutating func putBack(_ file: ReceivedFile, until then: Instant) {
    guard beingWritten.removeValue(forKey: file.keys) != nil else { return }
    waiting.insert(file, at: 0)
    pausedUntil = then
  }

  /// There is no place for it.
  mutating func lose(_ file: ReceivedFile) {
    wrote(file)
    lost += 1
  }
}

extension ReceivedFile {
  /// What it is known by: each has a packet, a receipt or both.
  var keys: [MeshFile.Key] { MeshFile.Key.all(packet: packet, receipt: receipt, from: sender) }
}
