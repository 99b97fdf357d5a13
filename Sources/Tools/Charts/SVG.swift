import Common

/// A drawing in SVG 1.1: a list of elements, with numbers of at most two decimals and escaped texts. Equal calls give
/// equal bytes.
struct SVG {
  private var elements: [String] = []
  let width: Double
  let height: Double

  init(width: Double, height: Double) { (self.width, self.height) = (width, height) }

  /// The complete file.
  func text(title: String) -> String {
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <svg xmlns="http://www.w3.org/2000/svg" width="\(Self.number(width))" height="\(Self.number(height))" \
    viewBox="0 0 \(Self.number(width)) \(Self.number(height))" font-family="sans-serif" font-size="12">
    <title>\(Self.escaped(title))</title>
    <rect width="100%" height="100%" fill="white"/>

    """ + elements.map { $0 + "\n" }.joined() + "</svg>\n"
  }

  mutating func line(from: (Double, Double), to: (Double, Double), colour: String = "#cccccc") {
    elements.append(
      "<line x1=\"\(Self.number(from.0))\" y1=\"\(Self.number(from.1))\" x2=\"\(Self.number(to.0))\" "
        + "y2=\"\(Self.number(to.1))\" stroke=\"\(colour)\"/>")
  }

  mutating func path(_ points: [(Double, Double)], colour: String) {
    guard !points.isEmpty else { return }
    let list = points.map { "\(Self.number($0.0)),\(Self.number($0.1))" }.joined(separator: " ")
    elements.append("<polyline points=\"\(list)\" fill=\"none\" stroke=\"\(colour)\" stroke-width=\"2\"/>")
  }

  mutating func dot(_ place: (Double, Double), colour: String) {
    elements.append(
      "<circle cx=\"\(Self.number(place.0))\" cy=\"\(Self.number(place.1))\" r=\"3\" fill=\"\(colour)\"/>")
  }

  mutating func bar(x: Double, y: Double, width: Double, height: Double, colour: String) {
    elements.append(
      "<rect x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" width=\"\(Self.number(width))\" "
        + "height=\"\(Self.number(height))\" fill=\"\(colour)\"/>")
  }

  enum Anchor: String { case start, middle, end }

  mutating func text(_ text: String, at place: (Double, Double), _ anchor: Anchor = .start, isBold: Bool = false) {
    let weight = isBold ? " font-weight=\"bold\"" : ""
    elements.append(
      "<text x=\"\(Self.number(place.0))\" y=\"\(Self.number(place.1))\" text-anchor=\"\(anchor.rawValue)\"\(weight)>"
        + Self.escaped(text) + "</text>")
  }

  /// At most two decimals, without trailing zeros.
  static func number(_ value: Double) -> String {
    guard value.isFinite else { return "0" }
    let hundredths = Int64((max(-1e12, min(1e12, value)) * 100).rounded())
    let (whole, rest) = (hundredths.magnitude / 100, hundredths.magnitude % 100)
    let sign = hundredths < 0 ? "-" : ""
    if rest == 0 { return "\(sign)\(whole)" }
    return rest % 10 == 0 ? "\(sign)\(whole).\(rest / 10)" : "\(sign)\(whole).\(rest < 10 ? "0" : "")\(rest)"
  }

  /// Escapes XML's special characters, and removes characters that XML does not allow.
  static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in PrintableText.clean(text) {
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      default: escaped.append(character)
      }
    }
    return escaped
  }
}
