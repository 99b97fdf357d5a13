import Journal
import Loop

/// The connection on which a call arrived, as far as its answer needs it.
@LoopActor
protocol AnswerSender: AnyObject {
  /// Whether the connection on which the call arrived still exists, so that the caller can be answered.
  var isOpen: Bool { get }
  /// Sends a return or an error. A return is charged to the caller.
  func send(_ message: Message) throws(DBusError)
  /// Sends a return with private content, which is charged to the caller.
  ///
  /// - Parameter taken: called when the bus has delivered the message to the caller's connection.
  func deliver(_ message: Message, taken: @escaping @LoopActor () -> Void) throws(DBusError)
}

/// The answer to one call, on the connection that received the call.
@LoopActor
final class Answer {
  private weak var sender: (any AnswerSender)?
  private let destination: String?
  private let serial: UInt32
  /// Whether the caller expects an answer.
  let isExpected: Bool
  private(set) var isGiven = false

  init(to call: Message, over sender: any AnswerSender) {
    self.sender = sender
    destination = call.sender
    serial = call.serial
    isExpected = call.expectsReply
  }

  /// Sends the answer if one is expected and the connection is still the one that received the call.
  ///
  /// - Returns: false if the call was already answered.
  func give(_ result: Result<[DBusValue], DBusError>) -> Bool {
    guard !isGiven else { return false }
    isGiven = true
    guard isExpected, let sender, sender.isOpen else { return true }
    do throws(DBusError) {
      switch result {
      case .success(let values): try sender.send(.reply(to: serial, at: destination, values))
      case .failure(let error): try sender.send(.error(error, to: serial, at: destination))
      }
    } catch {
      Log.shared.warning("An answer could not be sent: \(error)")
      _ = try? sender.send(
        .error(.failed("The answer could not be sent: \(error.message)"), to: serial, at: destination))
    }
    return true
  }

  /// Sends `values`, and calls `taken` when the bus has delivered all of them to the caller's connection. `taken` is
  /// never called if no answer is expected, or if the caller's or this connection ends before that.
  ///
  /// - Throws: the reason why the values cannot be sent; the call is then not answered.
  func handOver(_ values: [DBusValue], taken: @escaping @LoopActor () -> Void) throws(DBusError) {
    guard isExpected, let sender, sender.isOpen else {
      isGiven = true
      return
    }
    try sender.deliver(.reply(to: serial, at: destination, values), taken: taken)
    isGiven = true
  }
}
