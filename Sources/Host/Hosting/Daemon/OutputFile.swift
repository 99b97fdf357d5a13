import Glibc

/// Files that the program writes for the installation.
enum OutputFile {
  /// Writes a file that all users can read.
  ///
  /// - Returns: whether it was written; otherwise the reason is reported on standard error.
  static func write(_ text: String, to path: String) -> Bool {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    let isWritten = descriptor >= 0 && write(Array(text.utf8), to: descriptor)
    let reason = errno
    if descriptor >= 0 { close(descriptor) }
    if !isWritten { DaemonProgram.complain("\(path) cannot be written: \(String(cString: strerror(reason)))") }
    return isWritten
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }
}
