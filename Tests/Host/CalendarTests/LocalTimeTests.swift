import Calendar
import Glibc
import Testing

@Suite("Local time", .serialized)
struct LocalTimeTests {
  private static let noon: UInt64 = 1_787_313_600_000

  private static func inZone(_ zone: String, _ body: () -> Void) {
    let old = getenv("TZ").map { String(cString: $0) }
    setenv("TZ", zone, 1)
    defer { if let old { setenv("TZ", old, 1) } else { unsetenv("TZ") } }
    body()
  }

  @Test("Local times follow a change of the system's time zone while the program runs")
  func change() {
    Self.inZone("UTC0") { #expect(LocalTime.text(Self.noon) == "2026-08-21 12:00:00") }
    Self.inZone("IST-5:30") { #expect(LocalTime.text(Self.noon) == "2026-08-21 17:30:00") }
    Self.inZone("EST5") { #expect(LocalTime.clock(Self.noon) == "07:00:00") }
  }

  @Test("Local times before 1970, and with years beyond `struct tm`, are formatted without a crash")
  func extremes() {
    Self.inZone("UTC0") {
      #expect(LocalTime.parts(-1).map { LocalTime.clock($0) } == "23:59:59")
      #expect(LocalTime.text(0) == "1970-01-01 00:00:00")
      #expect(!LocalTime.text(.max).isEmpty && !LocalTime.clock(.max).isEmpty)
    }
  }
}
