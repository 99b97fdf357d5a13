import Common
import DBus
import Loop
import Store

/// Contents of files that programs have open: one memory file per mesh file.
///
/// The memory of open files counts as this service's, so `byteLimit` bounds it. Contents that no program has open are
/// dropped when space is needed, or after a minute.
@LoopActor
final class OpenFiles {
  typealias Content = Result<[UInt8], StoreError>
  typealias Answer = @LoopActor (Result<FileDescriptor, DBusError>) -> Void

  nonisolated static let byteLimit = 32 << 20
  /// Maximum files that are read at the same time.
  nonisolated static let readingLimit = 4
  /// Maximum programs that wait for one file to be read.
  nonisolated static let waitingLimit = 16
  private nonisolated static let time = Duration.seconds(60)

  private struct Held {
    let file: FileDescriptor
    let bytes: Int
  }

  private let byteLimit: Int
  private let scheduler: any Scheduler
  private let read: @LoopActor (_ number: UInt32, _ then: @escaping @LoopActor (Content) -> Void) -> Void
  private var held: [UInt32: Held] = [:]
  /// Contents of deleted files that programs still have open. They are not given to further programs.
  private var gone: [Held] = []
  private var waiting: [UInt32: [Answer]] = [:]
  private var timer: Registration?

  /// - Parameter read: reads a file by its number.
  init(
    byteLimit: Int = OpenFiles.byteLimit, scheduler: any Scheduler,
    read: @escaping @LoopActor (_ number: UInt32, _ then: @escaping @LoopActor (Content) -> Void) -> Void
  ) {
    (self.byteLimit, self.scheduler, self.read) = (byteLimit, scheduler, read)
  }

  /// Open files of a service; deleted files are dropped.
  convenience init(of service: MeshService) {
    self.init(scheduler: service.node.scheduler) { [weak service] number, then in
      guard let service else { return then(Self.missing) }
      service.files.open(number) { [weak service] content in
        // The file may have been deleted meanwhile.
        then(service?.files[number] == nil ? Self.missing : content)
      }
    }
    service.files.changes.addForGood { [weak self, weak service] _ in self?.dropGone(from: service) }
    service.node.changes.addForGood { [weak self, weak service] in self?.dropGone(from: service) }
  }

  private nonisolated static let missing = Content.failure(StoreError(.missing, "The file no longer exists."))

  /// Size of all memory files, in bytes.
  var bytes: Int { (held.values + gone).reduce(0) { $0 + $1.bytes } }

  /// Opens a file for a program.
  func open(_ number: UInt32, then: @escaping Answer) {
    if let held = held[number] { return then(Self.reopened(held.file)) }
    let others = waiting[number] ?? []
    guard others.isEmpty ? waiting.count < Self.readingLimit : others.count < Self.waitingLimit else {
      return then(
        .failure(
          .limitExceeded(
            "Too many files are being read for other programs. Try again in some seconds.")))
    }
    waiting[number] = others + [then]
    if others.isEmpty { read(number) { [weak self] in self?.came(number, $0) } }
  }

  /// Drops deleted files, so that no other program gets them.
  private func dropGone(from service: MeshService?) {
    let lost = held.filter { service?.files[$0.key] == nil }
    for number in lost.keys { held[number] = nil }
    gone += lost.values.filter(\.file.isOpenElsewhere)
  }

  private func came(_ number: UInt32, _ content: Content) {
    let answers = waiting.removeValue(forKey: number) ?? []
    let file = hold(number, content)
    for answer in answers { answer(file.flatMap(Self.reopened)) }
  }

  private func hold(_ number: UInt32, _ content: Content) -> Result<FileDescriptor, DBusError> {
    do throws(DBusError) {
      let bytes = try Self.bytes(content)
      dropUnused()
      guard self.bytes + bytes.count <= byteLimit else {
        throw .limitExceeded(
          "Programs have \(self.bytes) bytes of files open, and this file would exceed the limit. Close some.")
      }
      let file = try FileDescriptor.sealed(bytes, name: "file")
      held[number] = Held(file: file, bytes: bytes.count)
      lookLater()
      return .success(file)
    } catch {
      return .failure(error)
    }
  }

  private func dropUnused() {
    held = held.filter { $0.value.file.isOpenElsewhere }
    gone.removeAll { !$0.file.isOpenElsewhere }
  }

  private func lookLater() {
    guard timer == nil else { return }
    timer = scheduler.schedule(after: Self.time) { [weak self] in
      guard let self else { return }
      timer = nil
      dropUnused()
      if !held.isEmpty || !gone.isEmpty { lookLater() }
    }
  }

  private nonisolated static func reopened(_ file: FileDescriptor) -> Result<FileDescriptor, DBusError> {
    do throws(DBusError) { return .success(try file.reopened()) } catch { return .failure(error) }
  }

  private nonisolated static func bytes(_ content: Content) throws(DBusError) -> [UInt8] {
    do throws(StoreError) {
      return try content.get()
    } catch  where error.reason == .missing {
      throw DBusError(.notFound, error.sentence)
    } catch {
      throw .failed(error.sentence)
    }
  }
}
