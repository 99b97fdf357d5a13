import Calendar
import CommandLine
import DBus
import Loop
import Terminal
import Tool
import Verifier

/// Runs `earshot transfers --history`: the stored results of transfers, the newest first.
@LoopActor
struct HistoryCommand {
  private static let defaultLimit = 100

  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) {
    self.client = client
    self.line = line
  }

  func run() async throws(Failure) -> ExitCode {
    try await client.connect()
    let results = try await read(line.integer("limit") ?? Self.defaultLimit)
    if line.flag("json") {
      Output.json(.array(results.map(\.json)))
    } else {
      let terminal = Output.terminal
      let width = terminal.isTerminal ? terminal.width : nil
      Output.write(HistoryResult.text(results, width: width, colour: terminal.hasColour))
    }
    return .ok
  }

  /// Reads pages until there are enough results, or no more.
  private func read(_ limit: Int) async throws(Failure) -> [HistoryResult] {
    var results: [HistoryResult] = []
    while results.count < limit {
      let page = min(limit - results.count, TransferHistoryStore.pageLimit)
      let values = try await client.call(
        VerifierAdaptor.path, VerifierAdaptor.interfaceName, "ListHistory",
        [.uint64(results.last?.id ?? 0), .uint32(UInt32(page))])
      let found = (values.first?.asArray ?? []).compactMap { HistoryResult($0) }
      results += found
      if found.count < page { break }
    }
    return results
  }
}

/// One result, as `ListHistory` returns it.
struct HistoryResult: Equatable {
  let id: UInt64
  let transfer: UInt64
  /// Time of the result, in milliseconds since 1970-01-01 UTC.
  let time: UInt64
  /// Milliseconds; 0 if it is unknown.
  let duration: UInt64
  let result: String
  let reason: String
  let issuer: String

  /// - Parameter value: `(ttttsss)`; the result is nil for a value of another type.
  init?(_ value: DBusValue) {
    guard let parts = value.asArray, parts.count == 7, let id = parts[0].asUInt64, let transfer = parts[1].asUInt64,
      let time = parts[2].asUInt64, let duration = parts[3].asUInt64, let result = parts[4].asString,
      let reason = parts[5].asString, let issuer = parts[6].asString
    else { return nil }
    (self.id, self.transfer, self.time, self.duration) = (id, transfer, time, duration)
    (self.result, self.reason, self.issuer) = (result, reason, issuer)
  }

  var json: JSONValue {
    .object([
      .init("transfer", .unsigned(transfer)), .init("time", .unsigned(time)), .init("duration", .unsigned(duration)),
      .init("result", .string(result)), .init("reason", .string(reason)), .init("issuer", .string(issuer)),
    ])
  }

  /// `6.3 s`, or `12 min`; empty if it is unknown.
  private var durationText: String {
    if duration == 0 { return "" }
    let tenths = (duration + 50) / 100
    return duration < 60_000 ? "\(tenths / 10).\(tenths % 10) s" : Moment.span(duration)
  }

  /// The results as a table. Columns that are empty in all rows are left out.
  static func text(_ results: [HistoryResult], width: Int?, colour: Bool) -> String {
    guard !results.isEmpty else { return "The history is empty.\n" }
    typealias Column = (head: TextTable.Column, text: (HistoryResult) -> String)
    let columns: [Column] = [
      (.init("TIME"), { LocalTime.text($0.time) }), (.init("TRANSFER"), { "credential\($0.transfer)" }),
      (.init("RESULT"), { $0.result }), (.init("DURATION", .right), { $0.durationText }),
      (.init("ISSUER"), { $0.issuer }), (.init("REASON"), { $0.reason }),
    ]
    let used = columns.filter { column in results.contains { !column.text($0).isEmpty } }
    var table = TextTable(used.map(\.head))
    for result in results { table.append(used.map { $0.text(result) }) }
    return table.text(width: width, colour: colour)
  }
}
