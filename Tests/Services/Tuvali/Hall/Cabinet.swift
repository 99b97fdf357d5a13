import Air
import Common
import Crypto
import Loop
import Store
import TestSupport
import Tuvali
import Verifier

/// The state that outlives a kiosk's service: its state directory on a simulated disk, and the wall clock of its
/// machine.
@LoopActor
public final class Cabinet: WallClock {
  public static let keepFor = Duration.seconds(7200)

  public let disk = SimulatedDisk()
  public var limits = RecordSpool.Limits()
  /// The disk worker of the service in the last hall.
  public private(set) var worker: HangingDisk?
  private var time: VirtualTime?
  /// Seconds since 1970 at the origin of time, in 2030.
  private var clockAtZero: Int64 = 1_900_000_000
  private var starts: UInt64 = 0
  private var watches: [Int: @LoopActor () -> Void] = [:]
  private var lastWatch = 0

  public init() { disk.placeDirectory("/state") }

  // MARK: The wall clock

  public var milliseconds: Int64 { clockAtZero * 1000 + (time?.now.nanoseconds ?? 0) / 1_000_000 }

  public var isSynchronised: Bool { true }

  public func onSet(_ body: @escaping @LoopActor () -> Void) -> Registration {
    lastWatch += 1
    let number = lastWatch
    watches[number] = body
    return Registration { [weak self] in self?.watches[number] = nil }
  }

  /// Sets the wall clock forward or back.
  public func setClock(by seconds: Int64) {
    clockAtZero += seconds
    for body in watches.values { body() }
  }

  // MARK: The disk

  /// The names of the files in the spool.
  public var files: [String] { disk.names(in: "/state/spool") }

  /// Whether a file of the spool holds a credential without a verdict.
  public nonisolated static func isUnjudged(_ file: String) -> Bool { file.hasSuffix(".00.record") }

  /// Whether a file of the spool holds an accepted credential that no program has fetched.
  public nonisolated static func isAccepted(_ file: String) -> Bool { file.hasSuffix(".01.record") }

  /// Kills the service and cuts the power: unsynced data are lost.
  public func crash() {
    clockAtZero = seconds
    time = nil
    watches = [:]
    disk.restart(.everything)
  }

  /// Starts the service on a simulated radio of its own. Credentials are not judged, unless `decision` judges them.
  public func hall(
    seed: UInt64 = 1, conditions: AirConditions = AirConditions(maximumMTU: 185),
    decision: VerifierService.Settings.Decision = .client, keptTransfers: Int = 16,
    keepFor: Duration = Cabinet.keepFor, check: CheckPolicy = CheckPolicy(),
    checker: @escaping @LoopActor ([UInt8]) -> [StandInChecker.Step] = { _ in [] }
  ) -> Hall {
    starts += 1
    // The names of files are in the journal, and must differ from random bytes of keys.
    let random = SeededRandom(seed: seed << 32 | starts)
    let names = SeededRandom(seed: seed << 32 | starts | 1 << 31)
    let open: CredentialStore.Opening = { [disk, limits] () throws(StoreError) in
      let state = try StateDirectory(path: "/state", on: disk)
      let key = try SpoolKey.load(from: state, on: disk, environment: { _ in nil })
      return try RecordSpool(in: state, key: key, limits: limits, random: random)
    }
    return Hall(
      seed: seed, conditions: conditions, decision: decision, keptTransfers: keptTransfers,
      vault: { time in
        self.time = time
        let worker = HangingDisk(time)
        self.worker = worker
        return CredentialStore(
          .init(keepFor: keepFor, maximumBytes: self.limits.maximumBytes), scheduler: time, disk: worker, clock: self,
          random: names, open: open)
      }, check: check, checker: checker)
  }
}

/// A disk that does not answer while the test holds it.
@LoopActor
public final class HangingDisk: Offloading {
  public var hangs = false {
    didSet {
      guard !hangs else { return }
      let work = waiting
      waiting = []
      for body in work { body() }
    }
  }
  private let time: VirtualTime
  private var waiting: [@LoopActor () -> Void] = []

  init(_ time: VirtualTime) { self.time = time }

  /// Number of disk operations that are being held.
  public var underWay: Int { waiting.count }

  public func offload<Value: Sendable>(
    _ work: @escaping @Sendable () -> Value, then: @escaping @LoopActor (Value) -> Void
  ) {
    guard hangs else { return time.offload(work, then: then) }
    waiting.append { [time] in time.offload(work, then: then) }
  }
}
