import Testing

@testable import Terminal

@Suite struct ProgressBarTests {
  @Test(
    "A progress bar shows bytes in the largest unit, with one decimal below 10",
    arguments: [
      (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (10_239, "9.9 KiB"),
      (10_240, "10 KiB"), (1_048_575, "1023 KiB"), (1 << 20, "1.0 MiB"), (4 << 30, "4.0 GiB"), (Int.max, "7.9 EiB"),
      (-1, "0 B"),
    ])
  func bytes(count: Int, expected: String) {
    #expect(humanBytes(count) == expected)
  }

  @Test("The largest possible byte count does not overflow the progress bar")
  func largest() {
    #expect(humanBytes(UInt64.max) == "15 EiB")
    #expect(humanBytes(UInt8.max) == "255 B")
  }

  @Test(
    "A progress line has label, bar, percentage, amounts and rate; a narrow line omits the last ones first",
    arguments: [
      (80, "Receiving  █████████████████████▌░░░░░░░░░░░░   63%  1.2 KiB of 2.0 KiB  512 B/s"),
      (60, "Receiving  ████████▉░░░░░   63%  1.2 KiB of 2.0 KiB  512 B/s"),
      (50, "Receiving  ████████▎░░░░   63%  1.2 KiB of 2.0 KiB"),
      (40, "Receiving  ██████████████▌░░░░░░░░   63%"),
      (20, "Receiving  63%"),
      (10, "Rece…  63%"),
      (6, "Re…  …"),
      (1, "…"),
      (0, ""),
    ])
  func narrowing(width: Int, expected: String) {
    let bar = ProgressBar(label: "Receiving", done: 1_300, total: 2_048, rate: 512)
    #expect(bar.line(width: width) == expected)
  }

  @Test("Without a known total a progress line has neither bar nor percentage")
  func unknownTotal() {
    #expect(
      ProgressBar(label: "Receiving", done: 2_048, rate: 1_024).line(width: 80) == "Receiving  2.0 KiB  1.0 KiB/s")
  }

  @Test(
    "A progress line shows 100% only when everything is done, and never more",
    arguments: [
      (0, 100, "  0%"), (999, 1_000, " 99%"), (1_000, 1_000, "100%"), (2_000, 1_000, "100%"), (0, 0, "100%"),
      (-5, 10, "  0%"),
    ])
  func percent(done: Int, total: Int, expected: String) {
    let line = ProgressBar(label: "x", done: done, total: total).line(width: 70)
    #expect(line.contains("  \(expected)  "))
  }

  @Test("No progress line is wider than requested")
  func neverWider() {
    for width in 0...120 {
      for done in stride(from: 0, through: 4_096, by: 611) {
        let bar = ProgressBar(label: "受信 Receiving\n", done: done, total: 4_096, rate: done)
        #expect(DisplayText.width(bar.line(width: width)) <= width)
      }
    }
  }
}
