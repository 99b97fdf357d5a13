import Glibc

/// A child process, which ends with this one.
final class Process {
  let pid: pid_t

  struct NotStarted: Error {
    let path: String
  }

  /// - Parameters:
  ///   - output: the file for its standard output; nil for this program's.
  ///   - environment: variables in addition to this program's.
  init(
    _ path: String, _ arguments: [String], output: String? = nil, environment: [String: String] = [:]
  ) throws(NotStarted) {
    var pid = pid_t()
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
    if let output {
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    }
    defer { posix_spawn_file_actions_destroy(&actions) }
    var words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
    var variables: [UnsafeMutablePointer<CChar>?] = environment.map { strdup("\($0.key)=\($0.value)") }
    var index = 0
    while let entry = environ[index] {
      variables.append(strdup(entry))
      index += 1
    }
    variables.append(nil)
    defer { for pointer in words + variables { free(pointer) } }
    guard posix_spawnp(&pid, path, &actions, nil, &words, &variables) == 0 else { throw NotStarted(path: path) }
    self.pid = pid
  }

  deinit {
    kill(pid, SIGTERM)
    wait()
  }

  /// Waits until the process exits.
  func wait() {
    waitpid(pid, nil, 0)
  }

  /// Processor time of the process's living threads, in seconds.
  var processorTime: Double {
    guard let threads = opendir("/proc/\(pid)/task") else { return 0 }
    defer { closedir(threads) }
    var nanoseconds = 0
    while let entry = readdir(threads) {
      let thread = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      guard let file = fopen("/proc/\(pid)/task/\(thread)/schedstat", "r") else { continue }
      defer { fclose(file) }
      var line = [CChar](repeating: 0, count: 64)
      guard fgets(&line, 64, file) != nil else { continue }
      nanoseconds += Self.text(line).split(separator: " ").first.flatMap { Int($0) } ?? 0
    }
    return Double(nanoseconds) / 1e9
  }

  /// A number of `/proc/PID/status`, for example `VmRSS`, in the unit of that file.
  func status(_ key: String) -> Int { Self.status(key, of: "\(pid)") }

  /// A number of `/proc/self/status`, in the unit of that file.
  static func ownStatus(_ key: String) -> Int { status(key, of: "self") }

  private static func status(_ key: String, of pid: String) -> Int {
    guard let file = fopen("/proc/\(pid)/status", "r") else { return 0 }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while fgets(&line, 256, file) != nil {
      let text = text(line)
      guard text.hasPrefix(key + ":") else { continue }
      return Int(text.dropFirst(key.count + 1).split(whereSeparator: \.isWhitespace).first ?? "") ?? 0
    }
    return 0
  }

  private static func text(_ line: [CChar]) -> String {
    String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
