/// Lines in a coordinate system, each with its own name and colour.
public struct LineChart: Sendable {
  public struct Series: Sendable {
    public let name: String
    /// Points, sorted by x.
    public let points: [(x: Double, y: Double)]

    public init(_ name: String, _ points: [(x: Double, y: Double)]) { (self.name, self.points) = (name, points) }
  }

  public let title: String
  /// The quantities and units of the axes.
  public let across: String
  public let up: String
  /// The upper end of the vertical axis; nil for the largest value. The lower end is 0.
  public let top: Double?
  /// Whether the horizontal axis is logarithmic. Values must then be above 0.
  public let isLogarithmic: Bool
  public let series: [Series]

  public init(
    title: String, across: String, up: String, top: Double? = nil, isLogarithmic: Bool = false, series: [Series]
  ) {
    (self.title, self.across, self.up, self.top) = (title, across, up, top)
    (self.isLogarithmic, self.series) = (isLogarithmic, series)
  }

  static let colours = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"]
  private static let (width, height) = (720.0, 420.0)
  private static let (left, right, above, below) = (64.0, 700.0, 40.0, 360.0)

  /// The chart as an SVG file.
  public var svg: String {
    var drawing = SVG(width: Self.width, height: Self.height)
    drawing.text(title, at: (Self.left, 22), isBold: true)
    let points = series.flatMap(\.points)
    let (first, last) = (points.map(\.x).min() ?? 0, points.map(\.x).max() ?? 1)
    let top = top ?? Self.ceiling(points.map(\.y).max() ?? 1)
    func x(_ value: Double) -> Double {
      let (from, to) = isLogarithmic ? (Ruler.logarithm(first), Ruler.logarithm(last)) : (first, last)
      let at = isLogarithmic ? Ruler.logarithm(value) : value
      return Self.left + (to > from ? (at - from) / (to - from) : 0.5) * (Self.right - Self.left)
    }
    func y(_ value: Double) -> Double { Self.below - min(1, max(0, value / top)) * (Self.below - Self.above) }
    for step in 0...5 {
      let value = top * Double(step) / 5
      drawing.line(from: (Self.left, y(value)), to: (Self.right, y(value)))
      drawing.text(SVG.number(value), at: (Self.left - 6, y(value) + 4), .end)
    }
    for value in Ruler.marks(points.map(\.x)) {
      drawing.line(from: (x(value), Self.below), to: (x(value), Self.below + 5), colour: "#000000")
      drawing.text(SVG.number(value), at: (x(value), Self.below + 19), .middle)
    }
    drawing.text(across, at: ((Self.left + Self.right) / 2, Self.below + 42), .middle)
    drawing.text(up, at: (Self.right, 22), .end)
    for (index, line) in series.enumerated() {
      let colour = Self.colours[index % Self.colours.count]
      let places = line.points.map { (x($0.x), y($0.y)) }
      drawing.path(places, colour: colour)
      for place in places { drawing.dot(place, colour: colour) }
      let row = Self.below - 14 * Double(series.count - index)
      drawing.bar(x: Self.right - 150, y: row - 9, width: 10, height: 10, colour: colour)
      drawing.text(line.name, at: (Self.right - 134, row))
    }
    return drawing.text(title: title)
  }

  /// Rounds up to 1, 2 or 5 times a power of ten.
  private static func ceiling(_ value: Double) -> Double {
    guard value > 0, value.isFinite else { return 1 }
    var power = 1.0
    while power * 10 <= value { power *= 10 }
    while power > value { power /= 10 }
    return [1, 2, 5, 10].map { $0 * power }.first { $0 >= value } ?? 10 * power
  }
}

/// The marks of an axis.
enum Ruler {
  /// At most twelve of the values, evenly spaced, including the first and the last.
  static func marks(_ values: [Double]) -> [Double] {
    let all = Set(values).sorted()
    guard all.count > 12 else { return all }
    return (0..<12).map { all[$0 * (all.count - 1) / 11] }
  }

  /// The natural logarithm, by halving and a series: equal bits on every machine.
  static func logarithm(_ value: Double) -> Double {
    guard value > 0, value.isFinite else { return 0 }
    let part = value.significand
    let ratio = (part - 1) / (part + 1)
    var (sum, power) = (0.0, ratio)
    for odd in stride(from: 1.0, through: 41, by: 2) {
      sum += power / odd
      power *= ratio * ratio
    }
    return 2 * sum + Double(value.exponent) * 0.693147180559945309
  }
}

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
