import Common
import Journal
import Loop

/// Reads files that callers pass, on separate threads: a file may be on a slow disk, or in a file system of the caller
/// that never answers. `BusLimits` limits the files that are read and that wait, in total and for each user, and the
/// time for each. A file beyond a limit results in a named error and is counted. The thread of a file that does not
/// answer is blocked until it does.
@LoopActor
final class FileReader {
  typealias Completion = @LoopActor (Result<[UInt8], DBusError>) -> Void

  /// The owner of files: a user, or a program whose user is unknown.
  enum Owner: Hashable, Sendable {
    case user(UInt32)
    case program(String)
  }

  @LoopActor
  private final class Job {
    let owner: Owner
    let file: FileDescriptor
    let limit: Int
    let isGivenUp = Locked(false)
    var then: Completion?
    var timer: Registration?

    init(_ owner: Owner, _ file: FileDescriptor, _ limit: Int, _ then: @escaping Completion) {
      self.owner = owner
      self.file = file
      self.limit = limit
      self.then = then
    }

    func finish(_ result: Result<[UInt8], DBusError>) {
      timer = nil
      let then = then
      self.then = nil
      then?(result)
    }
  }

  private let scheduler: any Scheduler
  private let limits: BusLimits
  private let makeWorker: @LoopActor () -> any Offloading
  private var idle: [any Offloading] = []
  private var workers = 0
  private var waiting: [Job] = []
  /// Number of files of each owner that are being read, including abandoned ones.
  private var reading: [Owner: Int] = [:]
  /// Number of files that were refused because of a limit.
  private(set) var refused: UInt64 = 0
  /// Number of files that timed out.
  private(set) var late: UInt64 = 0

  init(
    _ scheduler: any Scheduler, limits: BusLimits,
    makeWorker: @escaping @LoopActor () -> any Offloading = { SerialWorker("callers' files") }
  ) {
    self.scheduler = scheduler
    self.limits = limits
    self.makeWorker = makeWorker
  }

  /// Reads a file to its end, as `FileDescriptor.readFile` does.
  ///
  /// - Parameter then: called once, later: with the bytes, or with `LimitExceeded` if the file is larger than `limit`,
  ///   `Busy` if too many files are being read, `Timeout`, or an error of `readFile`.
  func read(_ file: FileDescriptor, of owner: Owner, limit: Int, then: @escaping Completion) {
    guard hasPlace(for: owner) else {
      refused += 1
      return scheduler.soon { then(.failure(.busy("Too many files are being read already."))) }
    }
    let job = Job(owner, file, limit, then)
    job.timer = scheduler.schedule(after: limits.fileTime) { [weak self] in self?.giveUp(job) }
    waiting.append(job)
    next()
  }

  private func hasPlace(for owner: Owner) -> Bool {
    if mayBegin(owner), !idle.isEmpty || workers < limits.filesAtOnce { return true }
    return waiting.count < limits.waitingFiles && waiting.count { $0.owner == owner } < limits.waitingFilesOfUser
  }

  private func mayBegin(_ owner: Owner) -> Bool { reading[owner, default: 0] < limits.filesOfUser }

  private func next() {
    while let place = waiting.firstIndex(where: { mayBegin($0.owner) }) {
      if idle.isEmpty, workers < limits.filesAtOnce {
        workers += 1
        idle.append(makeWorker())
      }
      guard let worker = idle.popLast() else { return }
      run(waiting.remove(at: place), on: worker)
    }
  }

  private func run(_ job: Job, on worker: any Offloading) {
    reading[job.owner, default: 0] += 1
    let (file, limit, isGivenUp) = (job.file, job.limit, job.isGivenUp)
    let work: @Sendable () -> Result<[UInt8], DBusError> = {
      Result { () throws(DBusError) in
        try file.readFile(limit: limit, isGivenUp: { isGivenUp.withLock { $0 } })
      }
    }
    worker.offload(work) { [weak self] result in
      job.finish(result)
      guard let self else { return }
      let others = reading[job.owner, default: 0] - 1
      reading[job.owner] = others > 0 ? others : nil
      idle.append(worker)
      next()
    }
  }

  private func giveUp(_ job: Job) {
    late += 1
    job.isGivenUp.withLock { $0 = true }
    waiting.removeAll { $0 === job }
    Log.shared.warning("A caller's file could not be read within \(limits.fileTime)")
    job.finish(.failure(.timeout("The file could not be read within \(limits.fileTime).")))
  }
}
