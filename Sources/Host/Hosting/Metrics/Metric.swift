/// A metric of the service, with one sample for each set of labels.
public struct Metric: Sendable, Equatable {
  public enum Kind: String, Sendable {
    /// A value that begins at 0 and only increases while the service runs. Its name ends in `_total`.
    case counter
    case gauge
  }

  /// One value of the metric, with its labels.
  public struct Sample: Sendable, Equatable {
    public let labels: [Label]
    public let value: UInt64

    public init(_ value: UInt64, _ labels: Label...) { (self.value, self.labels) = (value, labels) }
  }

  public struct Label: Sendable, Equatable {
    public let name: String
    public let value: String

    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
  }

  public let name: String
  public let kind: Kind
  /// The meaning, one sentence.
  public let help: String
  public let samples: [Sample]

  public init(_ name: String, _ kind: Kind, help: String, _ samples: [Sample]) {
    (self.name, self.kind, self.help, self.samples) = (name, kind, help, samples)
  }
}

/// The exposition of metrics as text, in the Prometheus format 0.0.4, which the textfile collector of node_exporter and
/// `promtool check metrics` read.
///
/// Neither reads OpenMetrics, which names a counter without `_total` in the lines `# HELP` and `# TYPE`: the counter
/// would then have neither help nor type. No text is valid in both formats, unless it has no types. docs/metrics.md
/// lists the differences.
public enum MetricsText {
  /// The text of the metrics, in their order. A metric without samples is left out.
  public static func text(_ metrics: [Metric]) -> String {
    metrics.filter { !$0.samples.isEmpty }.map { metric in
      let head = "# HELP \(metric.name) \(escaped(metric.help))\n# TYPE \(metric.name) \(metric.kind.rawValue)\n"
      return head + metric.samples.map { "\(metric.name)\(labels($0.labels)) \($0.value)\n" }.joined()
    }.joined()
  }

  /// The name of a metric for a name on D-Bus: `CrcFailures` is `crc_failures`.
  public static func snake(_ name: String) -> String {
    let characters = Array(name)
    var snake = ""
    for (index, character) in characters.enumerated() {
      let isUpper = character.isUppercase
      let follows = index > 0 && !characters[index - 1].isUppercase
      // The last capital of several begins a word: `RFCOMMLinks` is `rfcomm_links`.
      let begins = index > 0 && index + 1 < characters.count && characters[index + 1].isLowercase
      if isUpper, follows || begins { snake += "_" }
      snake += character.lowercased()
    }
    return snake
  }

  private static func labels(_ labels: [Metric.Label]) -> String {
    guard !labels.isEmpty else { return "" }
    return "{" + labels.map { "\($0.name)=\"\(escaped($0.value, isQuoted: true))\"" }.joined(separator: ",") + "}"
  }

  private static func escaped(_ text: String, isQuoted: Bool = false) -> String {
    text.reduce(into: "") { result, character in
      switch character {
      case "\\": result += "\\\\"
      case "\n", "\r\n": result += "\\n"
      case "\"" where isQuoted: result += "\\\""
      default: result.append(character)
      }
    }
  }
}
