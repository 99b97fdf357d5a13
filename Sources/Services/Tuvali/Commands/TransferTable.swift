import Calendar
import Common
import DBus
import Loop
import Terminal
import Tool

/// Formats the table that `earshot transfers` prints.
enum TransferTable {
  /// Transfers below an object, sorted by number.
  static func transfers(_ objects: ToolPart.Objects, below root: ObjectPath) -> [TransferView] {
    objects.filter { $0.key.hasPrefix(root.string + "/") }
      .sorted { ($0.key.utf8.count, $0.key) < ($1.key.utf8.count, $1.key) }
      .compactMap { path, interfaces in
        guard let properties = interfaces[TransferView.interface] else { return nil }
        return ObjectPath(path).map { TransferView($0, properties) }
      }
  }

  /// Name of a transfer in commands: `credential7` for the verifier's, `wallet/credential7` for the wallet's.
  static func name(_ path: ObjectPath) -> String {
    let name = path.string.dropFirst(Client.manager.string.count + 1)
    return String(name.hasPrefix(verifier) ? name.dropFirst(verifier.count) : name)
  }

  private static let verifier = "verifier/"

  /// Table for `earshot status`, after an empty line; empty if the service has no transfers.
  ///
  /// - Parameter root: parent object of the transfers.
  @LoopActor
  static func text(_ objects: ToolPart.Objects, below root: ObjectPath) -> String {
    let transfers = transfers(objects, below: root)
    return transfers.isEmpty ? "" : "\n" + text(transfers)
  }

  @LoopActor
  static func text(_ transfers: [TransferView]) -> String {
    let terminal = Output.terminal
    return text(
      transfers, now: UInt64(clamping: SystemWallClock().milliseconds),
      width: terminal.isTerminal ? terminal.width : nil, colour: terminal.hasColour)
  }

  /// - Parameters:
  ///   - now: milliseconds since 1970-01-01 UTC.
  ///   - width: if the table is wider, the column of peers is omitted; nil for output to a file.
  static func text(_ transfers: [TransferView], now: UInt64, width: Int?, colour: Bool) -> String {
    var columns = columns(now)
    if transfers.allSatisfy(\.errorCode.isEmpty) { columns.removeAll { $0.head.title == "ERROR" } }
    if transfers.allSatisfy(\.verdict.isEmpty) { columns.removeAll { $0.head.title == "VERDICT" } }
    let whole = table(transfers, columns)
    guard let width else { return whole.text(colour: colour) }
    let isTooWide = whole.text().split(separator: "\n").contains { DisplayText.width(String($0)) > width }
    if isTooWide { columns.removeAll { $0.head.title == "PEER" } }
    return table(transfers, columns).text(width: width, colour: colour)
  }

  private struct Column {
    let head: TextTable.Column
    let text: (TransferView) -> String
  }

  private static func columns(_ now: UInt64) -> [Column] {
    [
      Column(head: .init("TRANSFER")) { name($0.path) },
      Column(head: .init("STATE")) { $0.state + ($0.verdictDelivery == "peerGone" ? ", verdict unsent" : "") },
      Column(head: .init("TIME")) { Moment.short($0.receivedAt > 0 ? $0.receivedAt : $0.startedAt, now: now) },
      Column(head: .init("EXPIRES")) { Moment.left(until: $0.expiresAt, now: now) },
      Column(head: .init("FETCHED")) { $0.isIncoming && $0.receivedAt > 0 ? ($0.isFetched ? "yes" : "no") : "" },
      Column(head: .init("SIZE", .right)) { $0.sizeText },
      Column(head: .init("VERDICT")) { $0.verdict },
      Column(head: .init("ERROR")) { $0.errorCode },
      Column(head: .init("PEER")) { $0.peer },
    ]
  }

  private static func table(_ transfers: [TransferView], _ columns: [Column]) -> TextTable {
    var table = TextTable(columns.map(\.head))
    for transfer in transfers { table.append(columns.map { $0.text(transfer) }) }
    return table
  }
}

/// Formats times for people. Times are milliseconds since 1970-01-01 UTC; 0 means no time.
enum Moment {
  /// Formats as `14:02:11` on the current day, otherwise as `11-28 14:02`; empty for 0.
  static func short(_ time: UInt64, now: UInt64) -> String {
    guard time > 0 else { return "" }
    let text = LocalTime.text(time)
    if text.prefix(dateLength) == LocalTime.text(now).prefix(dateLength) { return LocalTime.clock(time) }
    return text.count == fullLength ? String(text.dropFirst(yearLength).dropLast(secondsLength)) : text
  }

  /// Formats as `2026-11-28 14:02:11 (23 h ago)`; `-` for 0.
  static func full(_ time: UInt64, now: UInt64) -> String {
    guard time > 0 else { return "-" }
    let distance = time > now ? "in \(span(time - now))" : "\(span(now - time)) ago"
    return "\(LocalTime.text(time)) (\(distance))"
  }

  /// Formats as `in 23 h`, or `now` for a past time; empty for 0.
  static func left(until time: UInt64, now: UInt64) -> String {
    time == 0 ? "" : time > now ? "in \(span(time - now))" : "now"
  }

  /// Formats a duration as `45 s`, `12 min`, `23 h` or `6 days`: the largest unit with a value of at least two, rounded
  /// up.
  static func span(_ milliseconds: UInt64) -> String {
    func up(_ unit: UInt64) -> UInt64 { milliseconds / unit + (milliseconds % unit > 0 ? 1 : 0) }
    if milliseconds <= 120_000 { return "\(up(1000)) s" }
    if milliseconds <= 7_200_000 { return "\(up(60_000)) min" }
    return milliseconds <= 172_800_000 ? "\(up(3_600_000)) h" : "\(up(86_400_000)) days"
  }

  /// Lengths of parts of `2026-11-28 14:02:11`.
  private static let fullLength = 19
  private static let dateLength = 10
  private static let yearLength = 5
  private static let secondsLength = 3
}
