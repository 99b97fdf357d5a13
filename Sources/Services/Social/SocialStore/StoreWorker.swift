import ASN
import Common
import Loop

/// Executes the requests of a server on the thread of its store.
///
/// One group of requests is executed at a time, with one commit. Requests that arrive meanwhile form the next group, so
/// the number of commits does not grow with the number of sessions.
@LoopActor
public final class StoreWorker<Store: BlobStore> {
  /// Maximum number of requests in one group.
  private static var groupLimit: Int { 512 }

  /// Holds the engine, for the worker's thread only.
  ///
  /// `@unchecked Sendable`: only work of `worker` uses the engine, and the worker executes one piece of work at a time.
  private final class Holder: @unchecked Sendable {
    var engine: CommandEngine<Store>

    init(_ engine: CommandEngine<Store>) { self.engine = engine }
  }

  private struct Job {
    let request: StoreRequest
    let number: UInt64
  }

  private let worker: any Offloading
  private let holder: Holder
  private let epoch: @LoopActor () -> UInt64
  private var waiting = Fifo<Job>()
  private var isBusy = false
  /// Called with the outcomes of a group, in the order of the requests.
  public var onOutcomes: @LoopActor ([(job: UInt64, outcome: StoreOutcome)]) -> Void = { _ in }
  /// Number of groups of requests that were executed, each with one commit.
  public private(set) var groups: UInt64 = 0

  /// - Parameters:
  ///   - worker: executes one piece of work at a time, in order.
  ///   - epoch: the time in nanoseconds since 1970.
  public init(
    _ engine: CommandEngine<Store>, worker: any Offloading, epoch: @escaping @LoopActor () -> UInt64
  ) {
    (holder, self.worker, self.epoch) = (Holder(engine), worker, epoch)
  }

  /// Whether no request waits or is being executed.
  public var isIdle: Bool { !isBusy && waiting.isEmpty }

  /// Executes a request after the earlier ones.
  public func perform(_ request: StoreRequest, job: UInt64) {
    waiting.append(Job(request: request, number: job))
    begin()
  }

  /// Runs other work with the engine, between two groups.
  public func run<Value: Sendable>(
    _ work: @escaping @Sendable (inout CommandEngine<Store>, UInt64) -> Value,
    then: @escaping @LoopActor (Value) -> Void
  ) {
    let time = epoch()
    worker.offload({ [holder] in work(&holder.engine, time) }, then: then)
  }

  private func begin() {
    guard !isBusy, !waiting.isEmpty else { return }
    isBusy = true
    groups += 1
    var group: [Job] = []
    while group.count < Self.groupLimit, let job = waiting.popFirst() { group.append(job) }
    let (requests, numbers, time) = (group.map(\.request), group.map(\.number), epoch())
    let work: @Sendable () -> [StoreOutcome] = { [holder] in holder.engine.perform(requests, epoch: time) }
    worker.offload(work) { [weak self] outcomes in
      guard let self else { return }
      self.isBusy = false
      self.onOutcomes(zip(numbers, outcomes).map { (job: $0, outcome: $1) })
      self.begin()
    }
  }
}
