import Loop

/// The pending calls, by serial.
@LoopActor
final class PendingCalls {
  typealias Completion = @LoopActor (Result<[DBusValue], DBusError>) -> Void

  private struct Call {
    let destination: String?
    let then: Completion
    let timer: Registration
  }

  private let scheduler: any Scheduler
  private var calls: [UInt32: Call] = [:]
  /// Serials of sent answers that the bus may refuse, each with whether it was refused.
  private var answers: [UInt32: Bool] = [:]

  init(_ scheduler: any Scheduler) {
    self.scheduler = scheduler
  }

  var count: Int { calls.count }

  func add(_ call: Message, serial: UInt32, timeout: Duration, then: @escaping Completion) {
    let label = "\(call.interface.map { $0 + "." } ?? "")\(call.member ?? "") of \(call.destination ?? "the peer")"
    let timer = scheduler.schedule(after: timeout) { [weak self] in
      self?.finish(serial, .failure(.timeout("\(label) did not answer within \(timeout).")))
    }
    calls[serial] = Call(destination: call.destination, then: then, timer: timer)
  }

  /// Registers a sent answer: an error of the bus about it is recorded until `settle`.
  func sent(answer serial: UInt32) { answers[serial] = false }

  /// Ends the recording for an answer.
  ///
  /// - Returns: whether the bus has refused the answer.
  func settle(answer serial: UInt32) -> Bool { answers.removeValue(forKey: serial) ?? false }

  /// Handles a return or an error from the bus.
  func complete(_ message: Message) {
    if let serial = message.replySerial, answers[serial] != nil, message.kind == .error, message.sender == Bus.name {
      answers[serial] = true
      return
    }
    guard let serial = message.replySerial, let call = calls[serial], Self.mayAnswer(message, call.destination)
    else { return }
    if let fault = message.fault {
      finish(serial, .failure(fault))
    } else if message.kind == .error {
      finish(serial, .failure(message.error))
    } else {
      finish(serial, .success(message.arguments))
    }
  }

  /// Fails all pending calls.
  func failAll(_ error: DBusError) {
    for serial in calls.keys.sorted() { finish(serial, .failure(error)) }
  }

  private func finish(_ serial: UInt32, _ result: Result<[DBusValue], DBusError>) {
    guard let call = calls.removeValue(forKey: serial) else { return }
    call.timer.cancel()
    call.then(result)
  }

  /// Whether the message is a valid answer to a call. A program that guesses a serial must not answer for another: if
  /// the destination is a unique name, that connection must be the sender. The bus itself answers for missing programs.
  private static func mayAnswer(_ message: Message, _ destination: String?) -> Bool {
    guard let destination, let sender = message.sender, sender != Bus.name else { return true }
    return destination.hasPrefix(":") ? sender == destination : destination != Bus.name
  }
}
