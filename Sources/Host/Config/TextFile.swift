import Glibc

/// Reads small files with plain system calls.
enum TextFile {
  /// Maximum size of a configuration file, in bytes.
  static let limit = 1 << 20

  enum Failure: Error, Equatable {
    /// The file does not exist.
    case missing
    /// The path is a directory, a pipe or a device.
    case notAFile
    /// The file is larger than ``TextFile/limit``.
    case tooLarge
    /// A different error, as `errno`.
    case system(Int32)

    /// The reason, which completes "The file …".
    var sentence: String {
      switch self {
      case .missing: "does not exist"
      case .notAFile: "is not a regular file"
      case .tooLarge: "is larger than 1M"
      case .system(let code): "cannot be read: \(String(cString: strerror(code)))"
      }
    }
  }

  /// The content of a file of at most ``limit`` bytes. `/dev/null` is an empty file, so that a link to it masks a
  /// drop-in.
  static func read(_ path: String) throws(Failure) -> [UInt8] {
    // Without O_NONBLOCK, opening a pipe in the directory would block the service.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
    guard descriptor >= 0 else { throw errno == ENOENT || errno == ENOTDIR ? .missing : .system(errno) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .system(errno) }
    let isNull = status.st_mode & S_IFMT == S_IFCHR && status.st_rdev == makedev(1, 3)
    guard status.st_mode & S_IFMT == S_IFREG || isNull else { throw .notAFile }
    guard status.st_size <= limit else { throw .tooLarge }

    var content: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count > 0 {
        content += buffer.prefix(count)
        // The file may have grown since fstat.
        guard content.count <= limit else { throw .tooLarge }
      } else if count == 0 {
        return content
      } else if errno != EINTR {
        throw .system(errno)
      }
    }
  }

  /// The names in a directory, sorted by bytes; empty if the directory does not exist.
  static func names(in directory: String) throws(Failure) -> [String] {
    guard let stream = opendir(directory) else {
      if errno == ENOENT || errno == ENOTDIR { return [] }
      throw .system(errno)
    }
    defer { closedir(stream) }
    var names: [[UInt8]] = []
    while let entry = readdir(stream) {
      names.append(withUnsafeBytes(of: entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) })
    }
    return names.sorted { $0.lexicographicallyPrecedes($1) }.compactMap { String(validating: $0, as: UTF8.self) }
  }

  /// The device number of a major and a minor number, as glibc's macro `makedev`, which Swift does not import.
  private static func makedev(_ major: UInt, _ minor: UInt) -> dev_t {
    dev_t(major << 8 | minor)
  }
}
