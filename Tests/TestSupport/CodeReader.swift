import Foundation

/// Reads QR codes as a camera does, with zbar (Debian: zbar-tools).
public enum CodeReader {
  /// The texts of all codes in a picture.
  ///
  /// - Parameter picture: a PGM file.
  public static func read(_ picture: [UInt8]) throws -> [String] {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("screen-\(UUID().uuidString).pgm")
    try Data(picture).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let words = file.appendingPathExtension("txt")
    defer { try? FileManager.default.removeItem(at: words) }
    let output = open(words.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(output) }
    // It is waited for on a thread that other tests need.
    let limited = ["timeout", "--signal=KILL", "\(Patience.limit.components.seconds)"]
    let arguments = limited + ["zbarimg", "--quiet", "--raw", "-Sdisable", "-Sqrcode.enable", file.path]
    let status = try Program(arguments, passing: [1: output]).wait()
    // 4 says that the picture has no code.
    guard status == 0 || status == 4 else {
      throw Program.NotStarted(description: "zbarimg ended with \(status ?? -1); Debian has it in zbar-tools")
    }
    let text = try String(contentsOf: words, encoding: .utf8)
    return text.split(separator: "\n").map(String.init)
  }
}
