import Common
import Crypto

/// A known peer that has announced itself to this machine, with the data that a TLS client needs to reach it.
public struct Recognition: Hashable, Sendable {
  public let peer: PeerID
  public let dialect: Dialect
  /// The TLS identity of the announcement and this machine's beacon in it.
  public let identity: String
  /// The time until which the sender accepts the identity.
  public let expiration: WallTime
}

/// The address that served an announcement.
public enum AnnouncementSource: Hashable, Sendable {
  case device(DeviceAddress)
  case network(NetworkAddress)
}

/// The result of judging a received announcement.
public enum AnnouncementVerdict: Hashable, Sendable {
  case recognized(Recognition)
  case dropped(AnnouncementDrop)
}

/// Judges received announcements: it finds those for this machine, and their senders. Facts: thali.md section 1.
///
/// The order of the checks: form and length of the preamble; whether the ephemeral key is known; curve and point;
/// expiration; number of beacons. Only then one point is multiplied, regardless of the number of beacons.
public struct Recognizer: Sendable {
  /// The dialects of announcements that are read.
  public var dialects: Set<Dialect>
  private var seen = EphemeralKeys(capacity: Limits.ephemeralKeys)
  private var drops = [UInt64](repeating: 0, count: AnnouncementDrop.allCases.count)
  /// Number of received announcements in which a known peer was recognised.
  public private(set) var recognized: UInt64 = 0

  public init(dialects: Set<Dialect> = [.spec]) { self.dialects = dialects }

  /// Number of announcements that were dropped for one reason.
  public subscript(_ drop: AnnouncementDrop) -> UInt64 { drops[drop.rawValue] }

  /// All counters with their names.
  public var tallies: [Tally] {
    [Tally("Recognized", recognized)] + AnnouncementDrop.allCases.map { Tally($0.name, self[$0]) }
  }

  /// Judges one announcement.
  ///
  /// - Parameters:
  ///   - bytes: the body of a response, or any other bytes.
  ///   - source: the address that served it. The first address that served an announcement for this machine may serve
  ///     it again. From any other address it is a replay.
  public mutating func judge(
    _ bytes: [UInt8], from source: AnnouncementSource? = nil, known: KnownPeers, at now: WallTime
  ) -> AnnouncementVerdict {
    let verdict = verdict(on: bytes, from: source, known, at: now)
    switch verdict {
    case .recognized: recognized += 1
    case .dropped(let drop): drops[drop.rawValue] += 1
    }
    return verdict
  }

  /// Judges an announcement again that was dropped because of an unknown sender, after a sender became known. It is
  /// neither a replay nor counted.
  public func judgeAgain(_ bytes: [UInt8], known: KnownPeers, at now: WallTime) -> Recognition? {
    guard let announcement = try? RawAnnouncement(reading: bytes).checked(at: now),
      case .recognized(let recognition) = try? Self.find(announcement, known)
    else { return nil }
    return recognition
  }

  private mutating func verdict(
    on bytes: [UInt8], from source: AnnouncementSource?, _ known: KnownPeers, at now: WallTime
  ) -> AnnouncementVerdict {
    let announcement: Announcement
    let x: EphemeralKeys.X
    do throws(AnnouncementDrop) {
      let raw = try RawAnnouncement(reading: bytes)
      guard dialects.contains(raw.dialect) else { throw .dialectOff }
      x = EphemeralKeys.X(raw.x)
      if seen.contains(x, at: now) {
        // The address that first served the announcement may serve it again, for example after the peer was out of
        // range.
        guard let source, seen.source(of: x) == source else { throw .replayed }
        announcement = try raw.checked(at: now)
      } else {
        announcement = try raw.checked(at: now)
        seen.insert(x, until: raw.expiration, at: now)
      }
    } catch {
      return .dropped(error)
    }
    do throws(CryptoError) {
      let verdict = try Self.find(announcement, known)
      switch verdict {
      case .recognized, .dropped(.unknownSender): if let source { seen.note(source, of: x) }
      case .dropped: break
      }
      return verdict
    } catch {
      return .dropped(.failed)
    }
  }

  /// Finds a beacon for this machine from a known peer.
  private static func find(
    _ announcement: Announcement, _ known: KnownPeers
  ) throws(CryptoError) -> AnnouncementVerdict {
    let preamble = announcement.preamble
    let key = try FlagKey(
      secret: try known.own.sharedX(with: preamble.ephemeral), expiration: preamble.expiration,
      dialect: preamble.dialect)
    var drop = AnnouncementDrop.notForUs
    for beacon in announcement.beacons {
      guard let keyID = try key.open(beacon.flag) else { continue }
      guard let id = known.peer(with: keyID, in: preamble.dialect), let peer = known[id] else {
        switch preamble.dialect {
        case .spec: return .dropped(.unknownSender)
        // In this dialect one of 256 flags for other machines is decrypted by accident, so the search continues.
        case .node:
          if drop == .notForUs { drop = .unknownSender }
          continue
        }
      }
      let code = try peer.secret.code(expiration: preamble.expiration, dialect: preamble.dialect)
      guard ConstantTime.equal(code, beacon.code) else {
        drop = .wrongCode
        continue
      }
      return .recognized(
        Recognition(
          peer: id, dialect: preamble.dialect, identity: TLSIdentity.text(of: preamble, beacon),
          expiration: preamble.expiration))
    }
    return .dropped(drop)
  }
}

/// The ephemeral keys of judged announcements, until these expire. A full cache evicts the key received longest ago.
///
/// A key is identified by its X coordinate alone. The point with the other Y coordinate has the same secrets, so with
/// both coordinates an observer could replay an announcement once.
struct EphemeralKeys: Sendable {
  /// An X coordinate, as four numbers.
  struct X: Hashable, Sendable {
    private var first: UInt64 = 0
    private var second: UInt64 = 0
    private var third: UInt64 = 0
    private var fourth: UInt64 = 0

    /// Takes 32 bytes. Missing bytes count as 0, and further ones are ignored.
    init(_ bytes: ArraySlice<UInt8>) {
      withUnsafeMutableBytes(of: &self) { $0.copyBytes(from: bytes.prefix($0.count)) }
    }
  }

  private struct Entry: Sendable {
    let expiration: WallTime
    /// The number of the key's last reception.
    var reception: UInt64
    /// The first address that served the announcement, if it was for this machine.
    var source: AnnouncementSource?
  }

  private let capacity: Int
  private var entries: [X: Entry] = [:]
  /// Receptions in order. A reception that a later one of the same key replaced stays until it is the first.
  private var order = Fifo<(x: X, reception: UInt64)>()
  private var receptions: UInt64 = 0

  init(capacity: Int) { self.capacity = capacity }

  var count: Int { entries.count }

  /// Whether the key is stored and its announcement has not expired. Records a reception of the key.
  mutating func contains(_ x: X, at now: WallTime) -> Bool {
    guard let entry = entries[x] else { return false }
    guard now < entry.expiration else {
      entries[x] = nil
      return false
    }
    touch(x)
    return true
  }

  mutating func insert(_ x: X, until expiration: WallTime, at now: WallTime) {
    entries[x] = Entry(expiration: expiration, reception: 0)
    touch(x)
    while entries.count > capacity, let first = order.popFirst() { forget(first) }
    while let first = order.first, isOver(first, at: now) { forget(first, popping: true) }
  }

  /// The address that may serve the announcement of a key again; nil if there is none.
  func source(of x: X) -> AnnouncementSource? { entries[x]?.source }

  /// Stores the address that served an announcement for this machine, unless an earlier one is stored.
  mutating func note(_ source: AnnouncementSource, of x: X) {
    if entries[x]?.source == nil { entries[x]?.source = source }
  }

  private mutating func touch(_ x: X) {
    receptions += 1
    entries[x]?.reception = receptions
    order.append((x, receptions))
    guard order.count > 2 * capacity else { return }
    // Replays of a few keys would fill the queue, so replaced receptions are removed from it.
    var rest = Fifo<(x: X, reception: UInt64)>()
    while let next = order.popFirst() {
      if entries[next.x]?.reception == next.reception { rest.append(next) }
    }
    order = rest
  }

  /// Whether a reception was replaced, or its announcement has expired.
  private func isOver(_ reception: (x: X, reception: UInt64), at now: WallTime) -> Bool {
    guard let entry = entries[reception.x], entry.reception == reception.reception else { return true }
    return entry.expiration <= now
  }

  private mutating func forget(_ reception: (x: X, reception: UInt64), popping: Bool = false) {
    if popping { order.popFirst() }
    if entries[reception.x]?.reception == reception.reception { entries[reception.x] = nil }
  }
}
