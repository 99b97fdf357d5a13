import Common
import Glibc

/// The calls of `fsync` and `fdatasync` by code that is linked into the tests, such as SQLite: the definitions below
/// precede the C library's. A test can check that a file was synced, and can make the sync fail.
public enum SyncCalls {
  private struct Watch: Sendable {
    var paths: [String] = []
    let seesData: Bool
    let refuses: @Sendable (String) -> Int32?
  }

  private static let watches = Locked<[pthread_t: Watch]>([:])

  /// Runs `body`, and returns the files that this thread synced meanwhile: the path of each descriptor at the time of
  /// its call.
  ///
  /// - Parameters:
  ///   - includingData: whether `fdatasync` counts as well, which SQLite calls.
  ///   - refusing: the error number with which a call for this path fails; nil for success.
  public static func during(
    includingData seesData: Bool = false, refusing: @escaping @Sendable (String) -> Int32? = { _ in nil },
    _ body: () throws -> Void
  ) rethrows -> [String] {
    let thread = pthread_self()
    watches.withLock { $0[thread] = Watch(seesData: seesData, refuses: refusing) }
    defer { watches.withLock { $0[thread] = nil } }
    try body()
    return watches.withLock { $0[thread]?.paths ?? [] }
  }

  /// - Returns: the error number with which the call must fail.
  fileprivate static func called(_ descriptor: Int32, isData: Bool = false) -> Int32? {
    let thread = pthread_self()
    guard let watch = watches.withLock({ $0[thread] }), watch.seesData || !isData else { return nil }
    let path = path(of: descriptor)
    watches.withLock { $0[thread]?.paths.append(path) }
    return watch.refuses(path)
  }

  private static func path(of descriptor: Int32) -> String {
    let limit = 4096
    var text = [CChar](repeating: 0, count: limit)
    let count = readlink("/proc/self/fd/\(descriptor)", &text, limit)
    return String(decoding: text.prefix(max(count, 0)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

private typealias Sync = @Sendable @convention(c) (Int32) -> Int32

private func systemCall(_ name: String) -> Sync {
  // RTLD_NEXT: the next definition after this one.
  guard let symbol = dlsym(UnsafeMutableRawPointer(bitPattern: -1), name) else {
    preconditionFailure("the C library has no \(name)")
  }
  return unsafeBitCast(symbol, to: Sync.self)
}

private let systemSync = systemCall("fsync")
private let systemDataSync = systemCall("fdatasync")

@_cdecl("fsync")
public func observedSync(_ descriptor: Int32) -> Int32 {
  guard let number = SyncCalls.called(descriptor) else { return systemSync(descriptor) }
  errno = number
  return -1
}

@_cdecl("fdatasync")
public func observedDataSync(_ descriptor: Int32) -> Int32 {
  guard let number = SyncCalls.called(descriptor, isData: true) else { return systemDataSync(descriptor) }
  errno = number
  return -1
}
