import Common
import Glibc

/// The calls of `fsync` by what is linked into the tests: the definition below stands before the C library's. So a test sees
/// that a file was handed to the disk, and can let the disk refuse it.
public enum SyncCalls {
  private struct Watch: Sendable {
    var paths: [String] = []
    let refuses: @Sendable (String) -> Int32?
  }

  private static let watches = Locked<[pthread_t: Watch]>([:])

  /// Runs `body`, and returns what this thread synced meanwhile: the path of each descriptor at the time of its call.
  ///
  /// - Parameter refusing: the error number with which a call for this path fails; nil lets the call through.
  public static func during(
    refusing: @escaping @Sendable (String) -> Int32? = { _ in nil }, _ body: () throws -> Void
  ) rethrows -> [String] {
    let thread = pthread_self()
    watches.withLock { $0[thread] = Watch(refuses: refusing) }
    defer { watches.withLock { $0[thread] = nil } }
    try body()
    return watches.withLock { $0[thread]?.paths ?? [] }
  }

  /// - Returns: the error number with which the call is to fail.
  fileprivate static func called(_ descriptor: Int32) -> Int32? {
    let thread = pthread_self()
    guard let refuses = watches.withLock({ $0[thread]?.refuses }) else { return nil }
    let path = path(of: descriptor)
    watches.withLock { $0[thread]?.paths.append(path) }
    return refuses(path)
  }

  private static func path(of descriptor: Int32) -> String {
    let limit = 4096
    var text = [CChar](repeating: 0, count: limit)
    let count = readlink("/proc/self/fd/\(descriptor)", &text, limit)
    return String(decoding: text.prefix(max(count, 0)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

private let systemSync: @Sendable @convention(c) (Int32) -> Int32 = {
  // RTLD_NEXT: the definition behind this one.
  guard let symbol = dlsym(UnsafeMutableRawPointer(bitPattern: -1), "fsync") else {
    preconditionFailure("the C library has no fsync")
  }
  return unsafeBitCast(symbol, to: (@Sendable @convention(c) (Int32) -> Int32).self)
}()

@_cdecl("fsync")
public func observedSync(_ descriptor: Int32) -> Int32 {
  guard let number = SyncCalls.called(descriptor) else { return systemSync(descriptor) }
  errno = number
  return -1
}
