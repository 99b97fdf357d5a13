import Common
import Glibc
import Synchronization
import Testing

@testable import Journal

@Suite struct LogTests {
  /// A log destination that collects the records.
  private final class Collector: Sendable {
    private let records = Locked<[LogRecord]>([])
    var all: [LogRecord] { records.withLock { $0 } }

    func log(level: LogLevel) -> Log {
      Log(destination: .capture { record in self.records.withLock { $0.append(record) } }, level: level)
    }
  }

  @Test("A log record has level, text, message ID, fields and source location")
  func record() throws {
    let collector = Collector()
    let log = collector.log(level: .info)
    log.warning("The radio \("hci0") is gone.", id: .radioLost, .adapter("hci0"), .error("gone"))
    let line = #line - 1
    let record = try #require(collector.all.first)
    #expect(
      record
        == LogRecord(
          level: .warning, text: "The radio hci0 is gone.", id: .radioLost, fields: [.adapter("hci0"), .error("gone")],
          file: "JournalTests/LogTests.swift", function: "record()", line: line))
  }

  @Test("The methods error, warning, notice, info and debug log at the level of their name")
  func methods() {
    let collector = Collector()
    let log = collector.log(level: .debug)
    log.error("e")
    log.warning("w")
    log.notice("n")
    log.info("i")
    log.debug("d")
    #expect(collector.all.map(\.level) == LogLevel.allCases)
    #expect(collector.all.map(\.text) == ["e", "w", "n", "i", "d"])
  }

  @Test("A message below the log level is neither logged nor formatted, and the level can be changed")
  func levels() {
    let collector = Collector()
    let log = collector.log(level: .info)
    var built = 0
    func expensive() -> Int {
      built += 1
      return built
    }
    log.debug("Number \(expensive())")
    #expect(built == 0)
    #expect(collector.all.isEmpty)
    #expect(!log.writes(.debug))
    log.level = .debug
    log.debug("Number \(expensive())")
    #expect(built == 1)
    log.level = .error
    log.warning("Number \(expensive())")
    #expect(collector.all.map(\.text) == ["Number 1"])
    #expect(log.level == .error)
  }

  @Test("A log destination may itself log a message while it handles a record")
  func reentrance() {
    let log = Locked<Log?>(nil)
    let lines = Atomic(0)
    let destination = LogDestination.capture { record in
      lines.wrappingAdd(1, ordering: .relaxed)
      if record.level == .error { log.withLock { $0 }?.info("again") }
    }
    let made = Log(destination: destination, level: .info)
    log.withLock { $0 = made }
    made.error("once")
    #expect(lines.load(ordering: .relaxed) == 2)
  }

  @Test("200 log records from many threads all arrive")
  func threads() async {
    let collector = Collector()
    let log = collector.log(level: .info)
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<200 { group.addTask { log.info("\(number)") } }
    }
    #expect(Set(collector.all.map(\.text)).count == 200)
  }

  @Test("Level names are converted in both directions, in any case, and ordered by importance")
  func levelNames() {
    for level in LogLevel.allCases {
      #expect(LogLevel(name: level.name) == level)
      #expect(LogLevel(name: level.name.uppercased()) == level)
    }
    #expect(LogLevel(name: "loud") == nil)
    #expect(LogLevel.debug < .info && LogLevel.warning < .error)
  }

  @Test("Control characters in a log field are replaced like in other foreign text, and an error shows its code")
  func fields() {
    struct Gone: CodedError {
      let code = "gone"
      let sentence = "It is gone."
    }
    let cases: [(LogField, String, String, String)] = [
      (.transfer("7"), "EARSHOT_TRANSFER", "transfer", "7"),
      (.peer("a\nb"), "EARSHOT_PEER", "peer", "a\u{FFFD}b"),
      (.protocolName("tuvali"), "EARSHOT_PROTOCOL", "protocol", "tuvali"),
      (.dialect("0.5"), "EARSHOT_DIALECT", "dialect", "0.5"),
      (.error(Gone()), "EARSHOT_ERROR", "error", "gone"),
      (.adapter("hci0"), "EARSHOT_ADAPTER", "adapter", "hci0"),
      (.link(LinkID(3)), "EARSHOT_LINK", "link", "3"),
      (.client(":1.42"), "EARSHOT_CLIENT", "client", ":1.42"),
      (.setting("Radio.Adapter"), "EARSHOT_SETTING", "setting", "Radio.Adapter"),
    ]
    for (field, name, shortName, value) in cases {
      #expect(field.name == name)
      #expect(field.shortName == shortName)
      #expect(field.value == value)
    }
  }
}
