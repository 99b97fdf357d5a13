/// Adjacent bars, each with a name and a value.
public struct BarChart: Sendable {
  public struct Bar: Sendable {
    public let name: String
    public let value: Double

    public init(_ name: String, _ value: Double) { (self.name, self.value) = (name, value) }
  }

  public let title: String
  /// The quantity and the unit of the values.
  public let unit: String
  public let bars: [Bar]

  public init(title: String, unit: String, bars: [Bar]) { (self.title, self.unit, self.bars) = (title, unit, bars) }

  /// The chart as an SVG file.
  public var svg: String {
    var drawing = SVG(width: 720, height: 60 + 26 * Double(bars.count))
    drawing.text(title, at: (16, 22), isBold: true)
    drawing.text(unit, at: (700, 22), .end)
    let most = bars.map(\.value).max() ?? 0
    for (index, bar) in bars.enumerated() {
      let y = 40 + 26 * Double(index)
      let width = most > 0 ? 480 * max(0, bar.value) / most : 0
      drawing.text(bar.name, at: (110, y + 14), .end)
      drawing.bar(x: 120, y: y, width: width, height: 18, colour: LineChart.colours[0])
      drawing.text(SVG.number(bar.value), at: (126 + width, y + 14))
    }
    return drawing.text(title: title)
  }
}
