import Journal
import Loop

/// The answer to one call, on the connection that received the call.
@LoopActor
final class Answer {
  private weak var connection: BusConnection?
  private weak var transport: Transport?
  private let destination: String?
  private let serial: UInt32
  /// Whether the caller expects an answer.
  let isExpected: Bool
  private(set) var isGiven = false

  init(to call: Message, over transport: Transport, of connection: BusConnection) {
    self.connection = connection
    self.transport = transport
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
    guard isExpected, let transport, transport.isOpen else { return true }
    do throws(DBusError) {
      switch result {
      case .success(let values):
        let sent = try transport.send(.reply(to: serial, at: destination, values))
        connection?.objects.charge(destination, forBytes: sent.size)
      case .failure(let error): _ = try transport.send(.error(error, to: serial, at: destination))
      }
    } catch {
      Log.shared.warning("An answer could not be sent: \(error)")
      _ = try? transport.send(
        .error(.failed("The answer could not be sent: \(error.message)"), to: serial, at: destination))
    }
    return true
  }

  /// Sends `values`, and calls `taken` when the bus has delivered all of them to the caller's connection. `taken` is never called if no
  /// answer is expected, or if the caller's or this connection ends before that.
  ///
  /// The bus handles the messages of a connection in order. If it reports, after the answer, that the caller is still connected, then it
  /// has written the answer to the caller's socket or has refused it. A refusal arrives as an error before that report: the caller accepts
  /// no descriptors, or does not read its messages.
  ///
  /// - Throws: the reason why the values cannot be sent; the call is then not answered.
  func handOver(_ values: [DBusValue], taken: @escaping @LoopActor () -> Void) throws(DBusError) {
    guard isExpected, let connection, let transport, transport.isOpen else {
      isGiven = true
      return
    }
    let (sent, size) = try transport.sendPrivate(.reply(to: serial, at: destination, values))
    isGiven = true
    connection.objects.charge(destination, forBytes: size)
    connection.pending.sent(answer: sent)
    connection.callBus("NameHasOwner", [.string(destination ?? "")]) { [pending = connection.pending] result in
      let isRefused = pending.settle(answer: sent)
      if isRefused { Log.shared.warning("The bus did not take an answer for the caller, who can ask again") }
      if case .success(let values) = result, values.first?.asBool == true, !isRefused { taken() }
    }
  }
}
