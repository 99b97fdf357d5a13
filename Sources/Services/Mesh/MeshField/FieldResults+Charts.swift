import Charts
import Common

extension FieldResults {
  /// A drawing, and what its file is called.
  public struct Drawing: Sendable {
    public let name: String
    public let svg: String
  }

  /// The plots of one simulation.
  public var drawings: [Drawing] {
    Self.comparison([("", self)]) + [
      Drawing(
        name: "airtime",
        svg: BarChart(
          title: "Airtime by type", unit: "seconds on the air",
          bars: frames.map { BarChart.Bar($0.kind, $0.airtime / 1000) }
        ).svg)
    ] + carrying
  }

  /// Without envelopes there is no such plot.
  private var carrying: [Drawing] {
    guard !handOvers.isEmpty else { return [] }
    return [
      Drawing(
        name: "carrying",
        svg: BarChart(
          title: "How often an envelope was handed on", unit: "envelopes", bars: Self.histogram(handOvers)
        ).svg)
    ]
  }

  /// Bars for counts of things that happened once, twice and so on: so many numbers of times to a bar that one looks at them all.
  static func histogram(_ counts: [Int]) -> [BarChart.Bar] {
    let (most, widths) = (24, [1, 2, 5, 10, 20, 50, 100, 200, 500])
    let width = widths.first { counts.count <= $0 * most } ?? (counts.count + most - 1) / most
    return stride(from: 0, to: counts.count, by: width).map { first in
      let part = counts[first..<min(first + width, counts.count)]
      let name = width == 1 ? "\(first + 1)" : "\(first + 1) to \(first + width)"
      return BarChart.Bar(name, Double(part.reduce(0, +)))
    }
  }

  /// The plots of several simulations, a line for each.
  public static func comparison(_ results: [(name: String, results: FieldResults)]) -> [Drawing] {
    let byHops = LineChart(
      title: "Who has a public message after 3 s", across: "hops from its sender", up: "share of the nodes", top: 1,
      series: results.map { name, results in
        LineChart.Series(
          name, results.promptByHops.prefix(12).enumerated().map { (x: Double($0.offset + 1), y: $0.element.value) })
      })
    let byTime = LineChart(
      title: "Who has a public message", across: "seconds after it was said", up: "share of the connected field",
      top: 1, isLogarithmic: true,
      series: results.map { name, results in
        LineChart.Series(name, results.byTime.map { (x: Double($0.seconds), y: $0.share.value) })
      })
    return [Drawing(name: "hops", svg: byHops.svg), Drawing(name: "time", svg: byTime.svg)]
  }
}
