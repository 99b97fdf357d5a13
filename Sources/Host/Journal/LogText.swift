import Common

/// The sentence of a log line.
///
/// It is written as a string literal. Only harmless values can be interpolated: numbers, Booleans, durations, strings
/// (made printable by ``PrintableText``), coded errors and ``Loggable`` types. There is deliberately no generic
/// overload: bytes, keys and other values that may contain secrets or payloads do not compile.
public struct LogText: ExpressibleByStringInterpolation, Sendable, Equatable {
  /// The complete sentence: one line without control characters.
  public let text: String

  public init(stringLiteral value: StaticString) {
    text = value.description
  }

  public init(stringInterpolation: StringInterpolation) {
    text = stringInterpolation.text
  }

  public struct StringInterpolation: StringInterpolationProtocol {
    fileprivate(set) var text = ""

    public init(literalCapacity: Int, interpolationCount: Int) {
      text.reserveCapacity(literalCapacity + interpolationCount * 8)
    }

    public mutating func appendLiteral(_ literal: StaticString) {
      text += literal.description
    }

    public mutating func appendInterpolation(_ value: some BinaryInteger) {
      text += String(value)
    }

    public mutating func appendInterpolation(_ value: Bool) {
      text += value ? "true" : "false"
    }

    public mutating func appendInterpolation(_ value: String) {
      text += PrintableText.clean(value)
    }

    /// Adds the duration, formatted like `1.5 s`, `40 ms` or `250 µs`.
    public mutating func appendInterpolation(_ value: Duration) {
      text += value.logText
    }

    /// Adds the error's sentence, followed by its code in brackets.
    public mutating func appendInterpolation(_ error: any CodedError) {
      text += "\(PrintableText.clean(error.sentence)) [\(PrintableText.clean(error.code))]"
    }

    public mutating func appendInterpolation(_ value: some Loggable) {
      text += PrintableText.clean(value.logText)
    }
  }
}

extension Duration {
  /// The duration with a suitable unit, and at most one decimal.
  var logText: String {
    let nanoseconds = wholeNanoseconds
    let size = nanoseconds.magnitude
    let (unit, scale): (String, UInt64) =
      switch size {
      case ..<1_000: ("ns", 1)
      case ..<1_000_000: ("µs", 1_000)
      case ..<1_000_000_000: ("ms", 1_000_000)
      case ..<120_000_000_000: ("s", 1_000_000_000)
      default: ("min", 60_000_000_000)
      }
    let tenth = size % scale * 10 / scale
    return "\(nanoseconds < 0 ? "-" : "")\(size / scale)\(tenth == 0 ? "" : ".\(tenth)") \(unit)"
  }
}

/// A type that may appear in a log line. A conforming type guarantees that `logText` contains no secret and no payload.
public protocol Loggable {
  /// The text in the log; it is made printable and limited in length like any untrusted string.
  var logText: String { get }
}

extension LinkID: Loggable {
  public var logText: String { description }
}
