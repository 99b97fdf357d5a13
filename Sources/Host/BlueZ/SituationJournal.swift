import Common
import Journal
import Loop

/// Writes changes of the radio's situation to the journal. A restart of bluetoothd passes through several situations
/// within seconds. An outage that ends within `settleTime` gets one line, at its end. Any other situation is written
/// only after it has lasted `settleTime`.
@LoopActor
final class SituationJournal {
  /// Longer than bluetoothd takes to restart and to register its adapters, even if the bus has to start it
  /// (`DaemonStarter`).
  static let settleTime = Duration.seconds(10)

  private let log: Log
  private let scheduler: any Scheduler
  /// The last entry that was written.
  private var entered: Situation?
  private var current: Situation?
  /// The first situation in which the radio was not usable, and its time, until a line about it is written.
  private var outage: (cause: Situation, since: Instant)?
  private var timer: Registration?

  init(_ log: Log, scheduler: any Scheduler) {
    self.log = log
    self.scheduler = scheduler
  }

  /// - Parameter situation: a situation whose `isPassing` is false.
  func changed(to situation: Situation) {
    current = situation
    if situation == entered {
      if let outage { enter(outage.cause, over: outage.since) } else { timer = nil }
    } else if case .ready = situation, outage == nil || entered?.isWhole == true {
      enter()
    } else {
      if entered?.isInUse == true, !situation.isInUse, outage == nil { outage = (situation, scheduler.now) }
      timer = timer ?? scheduler.schedule(after: Self.settleTime) { [weak self] in self?.enter() }
    }
  }

  /// Writes the current situation, unless the last entry already has it.
  private func enter() {
    (timer, outage) = (nil, nil)
    guard let current, current != entered else { return }
    current.report(after: entered, to: log)
    entered = current
  }

  /// Writes one line about an outage that ended in the same situation as before.
  private func enter(_ cause: Situation, over since: Instant) {
    (timer, outage) = (nil, nil)
    let tenths = since.duration(to: scheduler.now).wholeNanoseconds / 100_000_000
    let end = entered?.isWhole == true ? "is ready again" : "is back, and works in part as before"
    log.notice(
      "The radio was away for \(tenths / 10).\(tenths % 10) s (\(cause.past)) and \(end)", id: .radioReady,
      .adapter(entered?.adapter ?? ""))
  }
}

extension Situation {
  fileprivate var isWhole: Bool { if case .ready = self { true } else { false } }

  /// The adapter in use.
  fileprivate var adapter: String? {
    switch self {
    case .ready(let adapter), .degraded(let adapter, _): adapter
    default: nil
    }
  }

  /// A summary of the outage, after the radio is ready again.
  fileprivate var past: String {
    switch self {
    case .noBus, .closed: "the connection to the system bus was lost"
    case .noDaemon, .asking: "bluetoothd was restarted"
    case .silent: "bluetoothd did not answer"
    case .noAdapter, .adapterMissing: "the adapter was gone"
    case .switchedOff: "the adapter was switched off"
    case .blocked: "the adapter was blocked"
    case .unfit, .degraded, .ready: "it worked in part"
    }
  }
}
