import Glibc

extension BlueZVersion {
  /// Paths of bluetoothd in distributions.
  private static let programs = ["/usr/libexec/bluetooth/bluetoothd", "/usr/lib/bluetooth/bluetoothd"]

  /// The installed release, as `bluetoothd --version` prints it; nil if it is not found or prints nothing. The running
  /// bluetoothd has this release except between an upgrade and its restart.
  public static func installed() -> BlueZVersion? {
    programs.lazy.filter { access($0, X_OK) == 0 }.compactMap(said).first
  }

  /// The output of `PROGRAM --version`. The call takes some milliseconds.
  private static func said(by program: String) -> BlueZVersion? {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return nil }
    defer { close(ends[0]) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    posix_spawn_file_actions_addclose(&actions, ends[0])
    var words = [strdup(program), strdup("--version"), nil]
    defer { for word in words { free(word) } }
    var child = pid_t()
    let failure = posix_spawn(&child, program, &actions, nil, &words, environ)
    close(ends[1])
    guard failure == 0 else { return nil }
    var text = [UInt8](repeating: 0, count: 64)
    let count = read(ends[0], &text, text.count)
    waitpid(child, nil, 0)
    return count > 0 ? BlueZVersion(String(decoding: text.prefix(count), as: UTF8.self)) : nil
  }
}
