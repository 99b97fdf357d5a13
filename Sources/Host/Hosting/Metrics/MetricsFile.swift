import Common
import Glibc
import Journal
import Loop

/// A file with the metrics, written at an interval and replaced as a whole, so that a reader never sees a part.
///
/// The file is on a file system in memory (`/run`), so it is not synchronised. It is written off the loop all the same.
@LoopActor
public final class MetricsFile {
  private let path: String
  private let scheduler: any Scheduler
  private let disk: any Offloading
  private let text: @LoopActor () -> String
  private var timer: Registration?
  private var isWriting = false
  private var isFailing = false

  /// Time between two writes; zero writes nothing more.
  public var interval: Duration {
    didSet { if interval != oldValue { begin() } }
  }

  /// - Parameters:
  ///   - disk: runs the writes, one at a time.
  ///   - text: returns the text to write.
  public init(
    path: String, interval: Duration, scheduler: any Scheduler, disk: any Offloading,
    text: @escaping @LoopActor () -> String
  ) {
    (self.path, self.interval, self.scheduler, self.disk, self.text) = (path, interval, scheduler, disk, text)
  }

  /// Writes the file now, and then at the interval.
  public func begin() {
    timer = nil
    guard interval > .zero else { return }
    write()
    timer = scheduler.schedule(after: interval) { [weak self] in self?.begin() }
  }

  private func write() {
    // A write that takes longer than the interval is not repeated meanwhile.
    guard !isWriting else { return }
    isWriting = true
    let bytes = Array(text().utf8)
    disk.offload({ [path] in Self.replace(path, with: bytes) }, then: { [weak self] in self?.written($0) })
  }

  /// - Parameter error: `errno`; 0 on success.
  private func written(_ error: Int32) {
    isWriting = false
    guard (error != 0) != isFailing else { return }
    isFailing = error != 0
    if isFailing {
      Log.shared.warning("The metrics cannot be written to \(path): \(String(cString: strerror(error)))")
    } else {
      Log.shared.notice("The metrics are written again")
    }
  }

  /// Every user may read the file: it has nothing that the bus does not show to everybody.
  private nonisolated static func replace(_ path: String, with bytes: [UInt8]) -> Int32 {
    // The collector reads names that end in `.prom` only.
    let temporary = path + ".new"
    // A temporary file of an earlier run may exist. In a folder where others may write, it may be a pipe, which would
    // block the write, or a link to another file.
    unlink(temporary)
    let file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
    guard file >= 0 else { return errno }
    defer { close(file) }
    let error = fill(file, with: bytes)
    guard error == 0 else {
      unlink(temporary)
      return error
    }
    return rename(temporary, path) == 0 ? 0 : errno
  }

  /// - Returns: `errno`; 0 on success.
  private nonisolated static func fill(_ file: Int32, with bytes: [UInt8]) -> Int32 {
    // The umask of the unit would remove the read permission of other users.
    guard fchmod(file, 0o644) == 0 else { return errno }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return errno }
      rest = rest.dropFirst(count)
    }
    return 0
  }
}
