import BitchatWire
import CommandLine
import Common
import DBus
import Glibc
import Loop
import Tool

/// Runs `earshot mesh decode`: describes packets without the service.
@LoopActor
struct DecodeCommand {
  private let path: String
  private var cutter = LineCutter(limit: DecodedLine.limit)
  private var lines = 0
  private var packets = 0
  private var others = 0

  init(_ line: ParsedCommand) {
    path = line.argument("FILE") ?? "-"
  }

  /// Describes each line as soon as it is read, so that a pipe shows results immediately.
  mutating func run() throws(Failure) -> ExitCode {
    let descriptor = path == "-" ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw FileOutput.failure(path, "read") }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw FileOutput.failure(path, "read") }
      if count == 0 { break }
      for line in cutter.take(buffer[..<count]) { show(line) }
    }
    if let line = cutter.finish() { show(line) }
    guard others == 0 else {
      throw Failure(.failed, "\(others) of \(packets + others) lines are not packets.")
    }
    return .ok
  }

  private mutating func show(_ line: LineCutter.Line) {
    lines += 1
    guard let decoded = DecodedLine(line, number: lines) else { return }
    if decoded.isPacket { packets += 1 } else { others += 1 }
    Output.json(decoded.json, pretty: false)
  }
}

/// Description of a packet given in hexadecimal digits, or the error.
struct DecodedLine: Equatable {
  /// Line number and fields of the packet as JSON; for a line that cannot be decoded, `error` and `sentence` instead.
  let json: JSONValue
  let isPacket: Bool

  /// Maximum length of a line, in bytes: two digits for each byte of the longest packet, and about as many spaces.
  static let limit = 4 << 20

  /// - Parameter number: line number, from 1.
  /// - Returns: nil for an empty line.
  init?(_ line: LineCutter.Line, number: Int) {
    let fields: [JSONValue.Member]
    switch line {
    case .tooLong:
      fields = [.init("error", "TooLong"), .init("sentence", "the line is longer than any packet")]
    case .text(let text):
      guard text.contains(where: { !$0.isWhitespace }) else { return nil }
      fields = PacketDescription(hex: text).fields.map { .init($0.name, JSONValue($0.value)) }
    }
    json = .object([.init("line", .int(Int64(number)))] + fields)
    isPacket = fields.first?.name != "error"
  }
}

/// Splits a stream into lines, with a maximum length.
struct LineCutter {
  enum Line: Equatable {
    /// A line of input without its line feed.
    case text(String)
    /// A line of input that is longer than any packet, and is reported as an error.
    case tooLong
  }

  private let limit: Int
  private var line: [UInt8] = []
  private var isTooLong = false

  /// - Parameter limit: maximum bytes of a line.
  init(limit: Int) {
    self.limit = limit
  }

  /// Returns the lines that end in these bytes.
  mutating func take(_ bytes: some Sequence<UInt8>) -> [Line] {
    var lines: [Line] = []
    for byte in bytes {
      if byte == UInt8(ascii: "\n") {
        lines.append(cut())
      } else if line.count < limit {
        line.append(byte)
      } else {
        isTooLong = true
      }
    }
    return lines
  }

  /// Returns the unterminated last line; nil if it is empty.
  mutating func finish() -> Line? {
    line.isEmpty ? nil : cut()
  }

  private mutating func cut() -> Line {
    defer {
      line.removeAll(keepingCapacity: true)
      isTooLong = false
    }
    return isTooLong ? .tooLong : .text(String(decoding: line, as: UTF8.self))
  }
}

extension JSONValue {
  /// Converts a description of a packet to JSON.
  init(_ described: Described) {
    switch described {
    case .text(let text): self = .string(text)
    case .number(let number): self = .unsigned(number)
    case .flag(let flag): self = .bool(flag)
    case .list(let elements): self = .array(elements.map { JSONValue($0) })
    case .fields(let fields): self = .object(fields.map { Member($0.name, JSONValue($0.value)) })
    }
  }
}
