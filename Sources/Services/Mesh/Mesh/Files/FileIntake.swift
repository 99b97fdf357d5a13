import Bitchat
import BitchatWire
import Common
import Journal
import MeshStore

/// Received files that are not stored yet, in order of arrival.
struct FileIntake: Sendable {
  /// Maximum bytes of files that wait or are being written.
  static let byteLimit = 8 << 20
  /// Maximum number of files that wait or are being written.
  static let limit = 64
  /// Maximum files that are written at the same time.
  static let writers = 2
  /// Maximum new files per minute of one sender.
  ///
  /// Three separate counts apply: public files of strangers, their private files, and files of favourites. Links count
  /// only for public files of strangers, because a peer with many names has few links.
  static let perMinuteOfSender = 20
  /// Maximum new files per minute of strangers over one link.
  static let perMinuteOfLink = 30
  /// Maximum new files per minute of all senders.
  static let perMinute = 60
  /// Time from a storage error to the next attempt.
  static let pause = Duration.seconds(15)

  /// Rate limits per sender, per link and in all.
  private struct Gate: Sendable {
    private var senders = RateLimiter<PeerID>(perMinute: perMinuteOfSender, capacity: 256)
    private var links = RateLimiter<LinkID>(perMinute: perMinuteOfLink, capacity: 32)
    private var all = RateLimiter<Bool>(perMinute: perMinute, capacity: 1)

    /// Counts a file. A file beyond the sender's limit does not use the limit of its link. A file beyond the link's
    /// limit uses neither the common limit nor an entry of the senders, which an attacker could otherwise fill.
    ///
    /// - Parameter link: nil if links do not count.
    mutating func allow(_ sender: PeerID, over link: LinkID?, at now: Instant) -> Bool {
      guard let link else { return senders.allow(sender, at: now) && all.allow(true, at: now) }
      return links.wouldAllow(link, at: now) && senders.allow(sender, at: now) && links.allow(link, at: now)
        && all.allow(true, at: now)
    }
  }

  private var waiting: [ReceivedFile] = []
  /// Sizes in bytes of the files that are being written, by their keys.
  private var beingWritten: [[MeshFile.Key]: Int] = [:]
  private var keys: Set<[MeshFile.Key]> = []
  private var bytes = 0
  private var pausedUntil: Instant?
  private var strangers = Gate()
  /// Senders of private files are identified by keys, which anybody can generate.
  private var privateStrangers = Gate()
  private var favourites = Gate()
  /// Number of files that were refused because they arrived faster than the limits per minute.
  private(set) var refused: UInt64 = 0
  /// Number of complete files that were dropped because memory or store had no capacity for them.
  private(set) var lost: UInt64 = 0

  var count: Int { keys.count }

  /// Adds a received file.
  ///
  /// - Parameter isOfFavourite: whether the sender is a favourite.
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

  /// Next file to write; nil if enough are being written, none waits, or the store has just failed.
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

  /// Records that a file was stored.
  mutating func wrote(_ file: ReceivedFile) {
    guard beingWritten.removeValue(forKey: file.keys) != nil else { return }
    keys.remove(file.keys)
    bytes -= file.content.count
  }

  /// Queues a file first again after a storage error. No file is written until `then`.
  mutating func putBack(_ file: ReceivedFile, until then: Instant) {
    guard beingWritten.removeValue(forKey: file.keys) != nil else { return }
    waiting.insert(file, at: 0)
    pausedUntil = then
  }

  /// Drops a file for which there is no capacity.
  mutating func lose(_ file: ReceivedFile) {
    wrote(file)
    lost += 1
  }
}

extension ReceivedFile {
  /// Keys by which the file is recognised when it arrives again: its packet, its receipt, or both.
  var keys: [MeshFile.Key] { MeshFile.Key.all(packet: packet, receipt: receipt, from: sender) }
}
