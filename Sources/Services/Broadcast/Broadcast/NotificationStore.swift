import Bytes
import Common
import Loop
import PBLEC
import Store

/// Store of the record of notifications: a file in the state directory, written by a `WriteBehind`.
@LoopActor
public final class NotificationStore {
  /// Result of loading the record of an earlier run.
  enum Found {
    case nothing
    case kept(StoredNotificationRecord)
    /// The last record cannot be read. The second value is an earlier readable one, if any.
    case damaged(StoreError, StoredNotificationRecord?)
    /// There is no state directory. Nothing is persisted.
    case noDirectory
  }

  private let path: String?
  private let scheduler: any Scheduler
  private let file: Locked<AtomicFile?>
  private let queue: WriteBehind<StoredNotificationRecord, StoreError>

  /// - Parameters:
  ///   - directory: the state directory; nil means `$STATE_DIRECTORY`. Without a state directory, the record is in
  ///     memory only.
  ///   - disk: runs disk operations one at a time, in order.
  public init(directory: String?, scheduler: any Scheduler, disk: any Offloading) {
    let path = StateDirectory.path(directory) ?? ""
    let file = Locked<AtomicFile?>(nil)
    self.path = path.isEmpty ? nil : path
    self.scheduler = scheduler
    self.file = file
    queue = WriteBehind(disk) { NotificationStore.write($0, path, file) }
  }

  /// Loads the record of an earlier run.
  func open(then: @escaping @LoopActor (Found) -> Void) {
    guard let path else { return then(.noDirectory) }
    queue.run({ [file] in Self.read(path, file) }, then: then)
  }

  /// - Parameter then: called when the record is durable, or with the error.
  func write(_ kept: StoredNotificationRecord, then: @escaping @LoopActor (StoreError?) -> Void = { _ in }) {
    guard path != nil else { return then(nil) }
    queue.write(kept, then: then)
  }

  /// Calls `then` once, when no write is in progress, or after `limit`.
  func whenIdle(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    queue.whenIdle(within: limit, on: scheduler, then: then)
  }

  // MARK: On the disk

  private nonisolated static func read(_ path: String, _ file: Locked<AtomicFile?>) -> Found {
    do throws(StoreError) {
      let reading = try opened(path, file).read { (_, content) throws(StoreError) in
        do throws(WireError) {
          var reader = ByteReader(content)
          return try StoredNotificationRecord(reading: &reader)
        } catch {
          throw StoreError(.damaged, "\(path) is damaged: \(error).")
        }
      }
      guard let reading else { return .nothing }
      return reading.damage.map { .damaged($0, reading.value) } ?? .kept(reading.value)
    } catch {
      return .damaged(error, nil)
    }
  }

  private nonisolated static func write(
    _ kept: StoredNotificationRecord, _ path: String, _ file: Locked<AtomicFile?>
  ) -> StoreError? {
    do throws(StoreError) {
      try opened(path, file).write(kept.bytes)
      return nil
    } catch {
      return error
    }
  }

  /// Opens the file, in a folder that is locked while the service runs.
  private nonisolated static func opened(_ path: String, _ file: Locked<AtomicFile?>) throws(StoreError) -> AtomicFile {
    if let file = file.withLock({ $0 }) { return file }
    let directory = try StateDirectory(path: path, folder: "broadcast").directory
    let opened = AtomicFile("notified", in: directory, version: 1, limit: 1024)
    file.withLock { $0 = opened }
    return opened
  }
}

/// Content of the state file: the record of notifications, and whether a program has set their maximum.
///
///     chosen  1  0 or 1
///     ledger     as `NotificationRecord` writes it
struct StoredNotificationRecord: Hashable, Sendable, WireValue {
  var isLimitChosen = false
  var ledger: NotificationRecord

  init(_ ledger: NotificationRecord, isLimitChosen: Bool = false) {
    (self.ledger, self.isLimitChosen) = (ledger, isLimitChosen)
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    let chosen = try reader.u8()
    guard chosen <= 1 else { throw .badValue("chosen") }
    isLimitChosen = chosen == 1
    ledger = try NotificationRecord(reading: &reader)
    try reader.finish()
  }

  func write(to writer: inout ByteWriter) {
    writer.u8(isLimitChosen ? 1 : 0)
    ledger.write(to: &writer)
  }
}
