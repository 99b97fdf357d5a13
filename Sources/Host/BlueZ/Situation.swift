import Common
import Journal
import Loop
import Radio

/// The state of the radio, with details for a person.
enum Situation: Equatable {
  case noBus
  /// This program closed the connection to the bus.
  case closed
  case noDaemon
  /// bluetoothd runs, and its objects have been requested.
  case asking
  case silent
  case noAdapter
  case adapterMissing(String, others: [String])
  case switchedOff(AdapterCommands)
  case blocked(AdapterCommands, RadioBlock)
  case unfit(String)
  case ready(String)
  /// Degraded, with a sentence for each function that does not work.
  case degraded(String, reasons: [String])

  var state: RadioStatus.State {
    switch self {
    case .noBus, .closed, .noDaemon, .asking, .silent, .noAdapter, .adapterMissing, .switchedOff, .blocked: .waiting
    case .ready: .ready
    case .unfit, .degraded: .degraded
    }
  }

  var reason: String {
    switch self {
    case .noBus: "The system bus cannot be reached; the service tries again."
    case .closed: "The connection to the bus is closed."
    case .noDaemon: "bluetoothd is not running: systemctl start bluetooth."
    case .asking: "bluetoothd has not answered yet."
    case .silent: "bluetoothd is running and does not answer: systemctl restart bluetooth."
    case .noAdapter: "There is no Bluetooth adapter."
    case .adapterMissing(let wanted, let others):
      "The configured adapter \(wanted) does not exist, only \(others.joined(separator: ", ")): plug it in, or configure another."
    case .switchedOff(let adapter): "The adapter \(adapter.name) is switched off: \(adapter.switchOn)."
    case .blocked(let adapter, .soft):
      "The adapter \(adapter.name) is blocked by rfkill: rfkill unblock bluetooth."
        + " If it stays off: \(adapter.switchOn)."
    case .blocked(let adapter, .hard):
      "The adapter \(adapter.name) is blocked by a switch of this machine (rfkill list: hard blocked): set the switch."
        + " If it stays off: \(adapter.switchOn)."
    case .unfit(let adapter):
      "The adapter \(adapter) can neither advertise nor serve (Bluetooth Low Energy as a peripheral): use another one."
    case .ready: ""
    case .degraded(_, let reasons): reasons.joined(separator: " ")
    }
  }

  /// Whether the situation is not written to the journal, because another one normally follows at once, or the
  /// program exits.
  var isPassing: Bool { self == .asking || self == .closed }

  /// Writes the situation to the journal.
  func report(after last: Situation?, to log: Log) {
    switch self {
    case .asking, .closed: break
    case .ready(let adapter): log.notice("The radio is ready", id: .radioReady, .adapter(adapter))
    case .degraded(let adapter, let reasons):
      var known: [String] = []
      if case .degraded(adapter, let before)? = last { known = before }
      for reason in reasons where !known.contains(reason) {
        log.warning("\(reason)", id: .radioDegraded, .adapter(adapter))
      }
    case .unfit(let adapter): log.warning("\(reason)", id: .radioDegraded, .adapter(adapter))
    case .adapterMissing(let wanted, _): log.warning("\(reason)", id: .adapterMissing, .adapter(wanted))
    case .noBus, .noDaemon, .silent, .noAdapter, .switchedOff, .blocked:
      log.warning("\(reason)", id: last?.isInUse == true ? .radioLost : .radioWaiting)
    }
  }

  var isInUse: Bool {
    switch self {
    case .ready, .degraded: true
    default: false
    }
  }
}

/// Writes changes of the radio's situation to the journal. A restart of bluetoothd passes through several situations
/// within seconds. An outage that ends within `settleTime` gets one line, at its end. Any other situation is written
/// only after it has lasted `settleTime`.
@LoopActor
final class SituationJournal {
  /// Minimum duration of a situation before it is written. It is longer than bluetoothd takes to restart and to
  /// register its adapters, even if the bus has to start it (`DaemonStarter`).
  static let settleTime = Duration.seconds(10)

  private let log: Log
  private let scheduler: any Scheduler
  /// The situation about which the last journal entry was written.
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
    let end = entered?.isWhole == true ? "is ready again" : "is available again, with the same limitations as before"
    log.notice(
      "The radio was unavailable for \(tenths / 10).\(tenths % 10) s (\(cause.past)) and \(end)", id: .radioReady,
      .adapter(entered?.adapter ?? ""))
  }
}

extension Situation {
  fileprivate var isWhole: Bool { if case .ready = self { true } else { false } }

  /// The name of the adapter in use; nil if none can be used.
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
    case .unfit, .degraded, .ready: "the adapter could neither advertise nor serve"
    }
  }
}
