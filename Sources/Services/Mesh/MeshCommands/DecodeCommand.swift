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
