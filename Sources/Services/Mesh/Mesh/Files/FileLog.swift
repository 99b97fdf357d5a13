import Bitchat
import BitchatWire
import MeshStore

/// Received files, and those of this node.
struct FileLog: Sendable {
  /// A file as D-Bus programs see it: one that arrives, was received, or is sent by this node.
  struct Entry: Sendable {
    enum Direction: String, Sendable {
      case incoming, outgoing
    }

    let number: UInt32
    let direction: Direction
    let name: String
    let mime: String
    let size: Int
    /// Sender or recipient; nil for everybody.
    let peer: PeerID?
    /// Nickname of the sender at arrival; empty for a file of this node.
    let nickname: String
    let isPrivate: Bool
    /// Time at which the file arrived or was sent, in milliseconds since 1970.
    let time: UInt64
    /// The stored file, if it was received; nil while it is arriving.
    var kept: MeshFile?
    /// State of a file of this node.
    var state = FileState.waiting
    var percent = 0

    var isUnderWay: Bool { direction == .outgoing && !state.isEnd }
    /// Name of the state on D-Bus.
    var stateName: String {
      direction == .outgoing ? state.name : kept == nil ? "receiving" : "received"
    }
  }

  /// Maximum entries of this node's files that were delivered, failed or cancelled.
  static let endedLimit = 100

  private(set) var entries: [UInt32: Entry] = [:]
  private var known: [MeshFile.Key: UInt32] = [:]
  /// Times at which files were deleted, in milliseconds since 1970.
  private var deleted: [MeshFile.Key: UInt64] = [:]

  subscript(number: UInt32) -> Entry? { entries[number] }
  var numbers: [UInt32] { entries.keys.sorted() }

  /// Packets of public files, including recently deleted ones.
  var packets: [PacketID] { (Array(known.keys) + Array(deleted.keys)).compactMap(\.packet) }

  /// Whether a file is listed, or was deleted recently.
  ///
  /// - Parameter time: milliseconds since 1970.
  func knows(_ keys: [MeshFile.Key], at time: UInt64) -> Bool {
    keys.contains { known[$0] != nil || deleted[$0].map { Self.isNear($0, time) } ?? false }
  }

  /// Records a deleted file, so that it is not accepted again when neighbours send it.
  mutating func note(_ file: DeletedFile) {
    let keys = file.keys
    // Avoids quadratic time at the start, when many are added.
    if deleted.count >= DeletedFile.limit { deleted = deleted.filter { Self.isNear($0.value, file.time) } }
    while deleted.count + keys.count > DeletedFile.limit, let oldest = deleted.min(by: { $0.value < $1.value }) {
      deleted[oldest.key] = nil
    }
    for key in keys { deleted[key] = file.time }
  }

  /// Whether two times differ by less than `DeletedFile.lifetime`, in either order, because the clock may have been
  /// set back.
  private static func isNear(_ one: UInt64, _ other: UInt64) -> Bool {
    max(one, other) - min(one, other) < DeletedFile.lifetime
  }

  mutating func add(_ file: MeshFile) {
    entries[file.number] = Entry(
      number: file.number, direction: .incoming, name: file.name, mime: file.mime, size: file.size, peer: file.sender,
      nickname: file.nickname, isPrivate: file.packet == nil, time: file.time, kept: file, percent: 100)
    for key in file.keys { known[key] = file.number }
  }

  /// Adds a file.
  ///
  /// - Returns: number of an older entry that exceeds the limit.
  @discardableResult
  mutating func add(_ entry: Entry) -> UInt32? {
    entries[entry.number] = entry
    let ended = entries.values.filter { $0.direction == .outgoing && $0.state.isEnd }
    return ended.count > Self.endedLimit ? ended.map(\.number).min() : nil
  }

  /// Sets the state of a file.
  ///
  /// - Returns: whether the state has changed.
  mutating func note(_ state: FileState, of number: UInt32) -> Bool {
    guard let entry = entries[number], entry.state != state else { return false }
    entries[number]?.state = state
    if state == .sent || state == .delivered { entries[number]?.percent = 100 }
    return true
  }

  mutating func note(percent: Int, of number: UInt32) { entries[number]?.percent = percent }

  mutating func remove(_ number: UInt32) {
    for key in entries.removeValue(forKey: number)?.kept?.keys ?? [] { known[key] = nil }
  }
}

extension FileState {
  /// Name of the state on D-Bus.
  var name: String {
    switch self {
    case .waiting: "waiting"
    case .sending: "sending"
    case .sent: "sent"
    case .delivered: "delivered"
    case .failed: "failed"
    case .cancelled: "cancelled"
    }
  }

  /// Reason of a failure, for people; otherwise empty.
  var reason: String {
    guard case .failed(let failure) = self else { return "" }
    return switch failure {
    case .noPrivateFiles: "The peer has not announced that it accepts private files, and they are not sent unencrypted."
    case .unanswered: "The peer did not acknowledge the file."
    case .away: "For a day, no peer was in range to receive the file."
    case .unsendable: "The links to the neighbours cannot carry the file."
    }
  }
}
