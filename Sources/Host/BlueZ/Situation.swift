import Journal
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
    case .noBus: "The system bus cannot be reached; it is tried again."
    case .closed: "The connection to the bus is closed."
    case .noDaemon: "bluetoothd is not running: systemctl start bluetooth."
    case .asking: "bluetoothd has not answered yet."
    case .silent: "bluetoothd is running and does not answer: systemctl restart bluetooth."
    case .noAdapter: "There is no Bluetooth adapter."
    case .adapterMissing(let wanted, let others):
      "There is no adapter \(wanted), only \(others.joined(separator: ", ")): plug it in, or name another one."
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

  /// Whether the situation is not reported, because normally another one follows at once, or the program exits.
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
