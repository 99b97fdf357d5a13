import Foundation

/// Reads QR codes as a camera does, with zbar (Debian: zbar-tools).
public enum CodeReader {
  /// The texts of all codes in a picture.
  ///
  /// - Parameters:
  ///   - picture: a PGM file.
  ///   - program: the reader, found by `$PATH`.
  /// - Throws: `Program.NotStarted` where the reader is not installed. A test that waits for a code passes the error
  ///   on.
  public static func read(_ picture: [UInt8], with program: String = "zbarimg") throws -> [String] {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("screen-\(UUID().uuidString).pgm")
    try Data(picture).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let words = file.appendingPathExtension("txt")
    defer { try? FileManager.default.removeItem(at: words) }
    let output = open(words.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(output) }
    // The wait blocks a thread that other tests need.
    let limited = ["timeout", "--signal=KILL", "\(Patience.limit.components.seconds)"]
    let arguments = limited + [program, "--quiet", "--raw", "-Sdisable", "-Sqrcode.enable", file.path]
    let status = try Program(arguments, passing: [1: output]).wait()
    // 4: the picture has no code. 127: `timeout` did not find the program.
    guard status != 127 else {
      throw Program.NotStarted(
        description: "\(program) is not installed. This test reads QR codes with it: apt install zbar-tools")
    }
    guard status == 0 || status == 4 else {
      throw Program.NotStarted(description: "\(program) failed with exit status \(status ?? -1)")
    }
    let text = try String(contentsOf: words, encoding: .utf8)
    return text.split(separator: "\n").map(String.init)
  }
}
