import DBus
import Testing

@testable import Commands

@Suite("The table of `earshot transfers --history`")
struct HistoryResultTests {
  private func value(_ transfer: UInt64, _ duration: UInt64, _ texts: [String]) -> DBusValue {
    .structure(
      [.uint64(9), .uint64(transfer), .uint64(1_900_000_000_000), .uint64(duration)] + texts.map { .string($0) })
  }

  @Test("A history entry whose D-Bus type is wrong is ignored")
  func malformed() {
    #expect(HistoryResult(.string("x")) == nil)
    #expect(HistoryResult(value(1, 2, ["accepted"])) == nil)
  }

  @Test("The history table has durations, omits empty columns, and shows no control characters")
  func table() throws {
    let accepted = try #require(HistoryResult(value(7, 6_340, ["accepted", "", "City\u{1B}[2J"])))
    let failed = try #require(HistoryResult(value(8, 240_000, ["failed", "TVV_TRA_002", ""])))
    let text = HistoryResult.text([accepted, failed], width: nil, colour: false)
    #expect(text.contains("credential7") && text.contains("6.3 s") && text.contains("4 min"))
    #expect(text.contains("TVV_TRA_002") && !text.contains("\u{1B}"))
    #expect(HistoryResult.text([accepted], width: nil, colour: false).contains("REASON") == false)
    #expect(HistoryResult.text([], width: nil, colour: false) == "The history is empty.\n")
  }
}
