import Charts
import Common

extension FieldResults {
  /// SVG drawing and its file name.
  public struct Drawing: Sendable {
    public let name: String
    public let svg: String
  }

  /// The plots of the results of one simulation, as SVG files.
  public var drawings: [Drawing] {
    Self.comparison([("", self)]) + [
      Drawing(
        name: "airtime",
        svg: BarChart(
          title: "Airtime by type", unit: "seconds of airtime",
          bars: frames.map { BarChart.Bar($0.kind, $0.airtime / 1000) }
        ).svg)
    ] + carrying
  }

  /// Plot of hand-overs; none without envelopes.
  private var carrying: [Drawing] {
    guard !handOvers.isEmpty else { return [] }
    return [
      Drawing(
        name: "carrying",
        svg: BarChart(
          title: "Hand-overs per envelope", unit: "envelopes", bars: Self.histogram(handOvers)
        ).svg)
    ]
  }

  /// Histogram of counts by number of occurrences, grouped so that there are at most 24 bars.
  static func histogram(_ counts: [Int]) -> [BarChart.Bar] {
    let (most, widths) = (24, [1, 2, 5, 10, 20, 50, 100, 200, 500])
    let width = widths.first { counts.count <= $0 * most } ?? (counts.count + most - 1) / most
    return stride(from: 0, to: counts.count, by: width).map { first in
      let part = counts[first..<min(first + width, counts.count)]
      let name = width == 1 ? "\(first + 1)" : "\(first + 1) to \(first + width)"
      return BarChart.Bar(name, Double(part.reduce(0, +)))
    }
  }

  /// Plots that compare simulations, one line each.
  public static func comparison(_ results: [(name: String, results: FieldResults)]) -> [Drawing] {
    let byHops = LineChart(
      title: "Nodes with a public message after 3 s", across: "hops from its sender", up: "share of the nodes", top: 1,
      series: results.map { name, results in
        LineChart.Series(
          name, results.promptByHops.prefix(12).enumerated().map { (x: Double($0.offset + 1), y: $0.element.value) })
      })
    let byTime = LineChart(
      title: "Nodes with a public message", across: "seconds after it was sent", up: "share of the connected field",
      top: 1, isLogarithmic: true,
      series: results.map { name, results in
        LineChart.Series(name, results.byTime.map { (x: Double($0.seconds), y: $0.share.value) })
      })
    return [Drawing(name: "hops", svg: byHops.svg), Drawing(name: "time", svg: byTime.svg)]
  }
}
