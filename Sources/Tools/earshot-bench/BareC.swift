import Glibc
import Tuvali

/// Measures the same work in C without any of our code: `scripts/bench/unseal.c`, a program beside this one.
struct BareC {
  /// Chunks per second that are read, checked and stored at their positions; CRC-16 by slicing-by-eight.
  var chunks = 0.0
  /// Chunks per second with a bytewise CRC-16.
  var chunksByteByByte = 0.0
  /// Bytes of the frame per second, from the first chunk to the text.
  var bytes = 0.0

  private let file: String

  /// - Parameter frame: `text`, sealed under `key` and `nonce`, in chunks of MTU 517.
  init?(key: [UInt8], nonce: [UInt8], frame: [UInt8], chunks: [[UInt8]], text: [UInt8]) {
    file = "/tmp/earshot-bench.\(getpid()).chunks"
    guard let output = fopen(file, "w") else { return nil }
    defer { fclose(output) }
    func write(_ bytes: [UInt8]) { fwrite(bytes, 1, bytes.count, output) }
    func write(_ number: Int) { withUnsafeBytes(of: UInt32(number)) { write(Array($0)) } }
    write(key)
    write(nonce)
    write(frame.count)
    write(ChunkLayout(mtu: 517).payload)
    write(text.count)
    for chunk in chunks {
      write(chunk.count)
      write(chunk)
    }
  }

  /// Runs the program, and stores results that are better than earlier ones.
  mutating func run(rounds: Int) {
    let own = Swift.CommandLine.arguments.first ?? ""
    let directory = own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
    let said = file + ".figures"
    defer { unlink(said) }
    guard let program = try? Process("\(directory)/unseal", [file, "\(rounds)"], output: said) else { return }
    program.wait()
    guard let output = fopen(said, "r") else { return }
    defer { fclose(output) }
    var line = [CChar](repeating: 0, count: 128)
    guard fgets(&line, 128, output) != nil else { return }
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let numbers = text.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
    guard numbers.count == 3 else { return }
    chunks = max(chunks, numbers[0])
    chunksByteByByte = max(chunksByteByByte, numbers[1])
    bytes = max(bytes, numbers[2])
  }

  func remove() { unlink(file) }
}
