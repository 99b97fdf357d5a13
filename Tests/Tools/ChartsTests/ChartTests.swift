import Testing

@testable import Charts

@Suite("SVG charts")
struct ChartTests {
  private let chart = LineChart(
    title: "a < b & \"c\"", across: "x", up: "y", top: 1, isLogarithmic: true,
    series: [LineChart.Series("one & two", [(x: 1, y: 0), (x: 10, y: 0.5), (x: 100, y: 1)])])

  @Test("In an SVG chart every element is closed, and texts are escaped")
  func isWellFormed() {
    #expect(faults(in: chart.svg) == [])
    #expect(chart.svg.contains("a &lt; b &amp; &quot;c&quot;"))
    let bars = BarChart(title: "<bars>", unit: "s", bars: [BarChart.Bar("a<b", 1), BarChart.Bar("none", 0)])
    #expect(faults(in: bars.svg) == [])
  }

  @Test("An SVG chart contains no control characters")
  func cleansText() {
    let chart = LineChart(title: "a\u{0}b\u{1B}[1m", across: "", up: "", series: [])
    #expect(!chart.svg.unicodeScalars.contains { $0.value < 0x20 && $0 != "\n" })
    #expect(faults(in: chart.svg) == [])
  }

  @Test("On a logarithmic chart axis a factor of 10 always has the same length")
  func isLogarithmic() throws {
    let line = try #require(chart.svg.split(separator: "\n").first { $0.hasPrefix("<polyline") })
    let points = try #require(line.split(separator: "\"").dropFirst().first).split(separator: " ")
    let x = points.compactMap { $0.split(separator: ",").first.flatMap { Double($0) } }
    #expect(x.count == 3)
    #expect(abs((x[1] - x[0]) - (x[2] - x[1])) < 0.05)
    #expect(x[2] > x[1])
  }

  @Test("Numbers in an SVG chart have at most two decimals and no trailing zeros")
  func numbers() {
    let cases: [(Double, String)] = [
      (0, "0"), (1, "1"), (1.5, "1.5"), (0.05, "0.05"), (2.345, "2.35"), (-1.25, "-1.25"), (.infinity, "0"),
    ]
    for (value, text) in cases { #expect(SVG.number(value) == text) }
  }

  @Test("The charts' function `logarithm` is the natural logarithm")
  func logarithm() {
    #expect(abs(Ruler.logarithm(2.718281828459045) - 1) < 1e-12)
    #expect(abs(Ruler.logarithm(1000) - 6.907755278982137) < 1e-9)
    #expect(Ruler.logarithm(1) == 0)
  }

  /// Unbalanced brackets, quotes and entities in an XML text.
  private func faults(in text: String) -> [String] {
    var faults: [String] = []
    var open: [Substring] = []
    for part in text.split(separator: "<").dropFirst(text.hasPrefix("<") ? 0 : 1) {
      guard let end = part.firstIndex(of: ">") else {
        faults.append("no end: \(part)")
        continue
      }
      let tag = part[..<end]
      let rest = part[part.index(after: end)...]
      if rest.contains(">") { faults.append("a bare >: \(rest)") }
      if tag.hasPrefix("?") { continue }
      if tag.filter({ $0 == "\"" }).count % 2 != 0 { faults.append("an odd quote: \(tag)") }
      let name = tag.drop { $0 == "/" }.prefix { $0 != " " && $0 != "/" }
      if tag.hasPrefix("/") {
        if open.popLast() != name { faults.append("closed, and not open: \(tag)") }
      } else if !tag.hasSuffix("/") {
        open.append(name)
      }
    }
    for piece in text.split(separator: "&").dropFirst()
    where !["amp;", "lt;", "gt;", "quot;"].contains(where: piece.hasPrefix) {
      faults.append("a bare &: \(piece.prefix(10))")
    }
    return faults + open.map { "never closed: \($0)" }
  }
}
