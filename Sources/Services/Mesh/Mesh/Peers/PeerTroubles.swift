import Bitchat
import BitchatWire
import Common

/// Reasons why packets or files of peers are rejected, for people.
struct PeerTroubles: Sendable {
  /// Reason why packets or files of a peer are rejected.
  enum Trouble: Hashable, Sendable {
    case engine(MeshEngine.PeerTrouble)
    /// The link was cut because the peer did not announce itself.
    case notAnnounced

    /// A sentence about the problem for the group, which may see who is near.
    var sentence: String {
      switch self {
      case .engine(.refusedFile(let mime)):
        // The peer chose this text. A quotation mark in it must not end the quotation.
        let kind = PrintableText.clean(mime, limit: 60).replacing("\"", with: "'")
        return kind.isEmpty
          ? "It sent a malformed file."
          : "It sent a file that was refused: its type \"\(kind)\" is not accepted, or is not that of its content."
      case .engine(.clock(let seconds)):
        let direction = seconds < 0 ? "behind" : "ahead of"
        return
          "Its clock is \(Self.text(abs(seconds))) \(direction) this machine's, so its packets are dropped. Set the "
          + "clock that is wrong."
      case .notAnnounced: return "It did not announce itself within 15 s, so its link was closed."
      }
    }

    /// A sentence about the problem that names no peer, for programs that may not see who is near.
    var publicSentence: String {
      switch self {
      case .engine(.refusedFile): "A file of a peer was refused. To see why: earshot mesh peers."
      case .engine(.clock):
        "The clock of a neighbour differs from this machine's by more than two minutes. To see which: earshot mesh "
          + "peers."
      case .notAnnounced: "A neighbour did not announce itself, so its link was closed."
      }
    }

    private static func text(_ seconds: Int64) -> String {
      switch seconds {
      case ..<120: "\(seconds) s"
      case ..<7200: "\(seconds / 60) min"
      case ..<172_800: "\(seconds / 3600) h"
      default: "\(seconds / 86_400) days"
      }
    }
  }

  struct Entry: Sendable {
    let nickname: String
    let trouble: Trouble
    var notedAt: Instant
  }

  /// Maximum number of peers; the oldest entry is dropped.
  static let limit = 64
  /// Time for which a trouble is shown after its last occurrence.
  static let time = Duration.seconds(600)

  private var entries: [PeerID: Entry] = [:]
  /// Time at which a link was last cut because an unknown peer did not announce itself.
  private var unknownCutAt: Instant?

  /// Records a trouble.
  ///
  /// - Returns: the peers whose shown trouble changed: this one, and one that was dropped.
  mutating func note(_ trouble: Trouble, of peer: PeerID, nickname: String, at now: Instant) -> [PeerID] {
    let shown = entry(of: peer, at: now)?.trouble.sentence
    entries[peer] = Entry(nickname: nickname, trouble: trouble, notedAt: now)
    var changed = shown == trouble.sentence ? [] : [peer]
    if entries.count > Self.limit, let oldest = entries.min(by: { $0.value.notedAt < $1.value.notedAt }) {
      entries[oldest.key] = nil
      changed.append(oldest.key)
    }
    return changed
  }

  /// Removes expired entries, and returns their peers.
  mutating func takeExpired(at now: Instant) -> [PeerID] {
    let expired = entries.keys.filter { entry(of: $0, at: now) == nil }
    for peer in expired { entries[peer] = nil }
    return expired
  }

  /// When the next entry expires; nil without entries.
  var deadline: Instant? {
    entries.values.map(\.notedAt).min()?.advanced(by: Self.time + .milliseconds(1))
  }

  mutating func noteUnknownCut(at now: Instant) { unknownCutAt = now }

  /// Ends a trouble about the clock or a missing announce after a valid announce of the peer.
  ///
  /// - Returns: whether a trouble has ended.
  mutating func heard(_ peer: PeerID) -> Bool {
    guard let entry = entries[peer] else { return false }
    if case .engine(.refusedFile) = entry.trouble { return false }
    entries[peer] = nil
    return true
  }

  mutating func forget(_ peer: PeerID) { entries[peer] = nil }

  func entry(of peer: PeerID, at now: Instant) -> Entry? {
    entries[peer].flatMap { $0.notedAt.duration(to: now) <= Self.time ? $0 : nil }
  }

  func peers(at now: Instant) -> [PeerID] { entries.keys.filter { entry(of: $0, at: now) != nil } }

  /// Summary in sentences that name no peer; nil without troubles.
  func summary(at now: Instant) -> String? {
    var sentences = Set(entries.keys.compactMap { entry(of: $0, at: now)?.trouble.publicSentence })
    if let unknownCutAt, unknownCutAt.duration(to: now) <= Self.time {
      sentences.insert(Trouble.notAnnounced.publicSentence)
    }
    return sentences.isEmpty ? nil : sentences.sorted().joined(separator: " ")
  }
}
