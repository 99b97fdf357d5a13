import Common
import Glibc
import Testing

@testable import Journal

@Suite struct LogDestinationTests {
  private static let record = LogRecord(
    level: .error, text: "The radio is gone.", id: .radioLost, fields: [.adapter("hci0"), .error("gone")],
    file: "Verifier/Verifier.swift", function: "start()", line: 12)

  private static func name(_ destination: LogDestination) -> String {
    switch destination {
    case .journal(let identifier, _): "journal \(identifier)"
    case .terminal(let colour): colour ? "colour" : "plain"
    case .capture: "capture"
    }
  }

  @Test(
    "The log goes to the journal only if standard error is its stream, and has colour only on a terminal",
    arguments: [
      ("8:1", nil, "8:1", false, "journal earshotd"), ("8:1", nil, "8:2", false, "plain"),
      (nil, nil, nil, true, "colour"),
      ("8:1", nil, nil, true, "colour"), (nil, "1", "8:1", true, "plain"), (nil, "", "8:1", true, "colour"),
      (nil, nil, "8:1", false, "plain"),
    ] as [(String?, String?, String?, Bool, String)])
  func choice(stream: String?, noColor: String?, standardError: String?, isTerminal: Bool, expected: String) {
    let destination = LogDestination.choose(
      identifier: "earshotd", journalStream: stream, noColor: noColor, standardError: standardError,
      isTerminal: isTerminal)
    #expect(Self.name(destination) == expected)
  }

  @Test("The journal gets the text, priority, message ID, source location and all fields")
  func entry() {
    let entry = JournalEntry(Self.record, identifier: "earshotd")
    #expect(
      String(decoding: entry.bytes, as: UTF8.self) == """
        MESSAGE=The radio is gone.
        PRIORITY=3
        SYSLOG_IDENTIFIER=earshotd
        CODE_FILE=Verifier/Verifier.swift
        CODE_FUNC=start()
        CODE_LINE=12
        MESSAGE_ID=\(MessageID.radioLost.hex)
        EARSHOT_ADAPTER=hci0
        EARSHOT_ERROR=gone

        """)
  }

  @Test("A log line on a terminal has time, level, text and fields, and colours only on request")
  func plainLine() {
    let line = TerminalLine(Self.record, time: timespec(tv_sec: 0, tv_nsec: 7_000_000), colour: false).text
    #expect(line.hasSuffix(".007 error    The radio is gone.  adapter=hci0 error=gone\n"))
    #expect(!line.contains("\u{1B}"))
    #expect(line.firstIndex(of: ".") == line.index(line.startIndex, offsetBy: 8))
  }

  @Test("A coloured log line ends each colour that it begins")
  func colouredLine() {
    for level in LogLevel.allCases {
      let record = LogRecord(
        level: level, text: "Sentence.", id: nil, fields: [.adapter("hci0")], file: "", function: "", line: 0)
      let line = TerminalLine(record, time: timespec(), colour: true).text
      #expect(line.contains("  Sentence.  \u{1B}[2madapter=hci0\u{1B}[0m\n"))
      let codes = line.split(separator: "\u{1B}").map { $0.prefix { $0 != "m" } }
      #expect(codes.filter { $0 == "[0" }.count * 2 == codes.count)
    }
  }

  @Test("A log line is written to its file descriptor completely, even after partial writes")
  func writing() throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    defer {
      close(ends[0])
      close(ends[1])
    }
    let line = TerminalLine(Self.record, time: timespec(), colour: false)
    line.write(to: ends[1])
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = read(ends[0], &buffer, buffer.count)
    #expect(String(decoding: buffer.prefix(max(0, count)), as: UTF8.self) == line.text)
  }
}
