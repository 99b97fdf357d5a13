import Journal
import Loop

extension BusConnection {
  /// Calls a method of another program.
  ///
  /// - Parameters:
  ///   - timeout: time limit for the answer; the error is then `Timeout`.
  ///   - then: called once, later, on the loop: with the returned values, or with the error that was received or that
  ///     prevented the call.
  public func call(
    _ destination: String, _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = [],
    timeout: Duration = .seconds(25), then: @escaping @LoopActor (Result<[DBusValue], DBusError>) -> Void
  ) {
    guard pending.count < limits.pendingCalls else {
      return fail(.limitExceeded("\(limits.pendingCalls) calls wait for an answer already."), then)
    }
    guard uniqueName != nil else { return fail(.disconnected("There is no connection to the bus."), then) }
    send(.call(destination, path, interface, method, arguments), timeout, then)
  }

  /// Calls a method of another program and waits for the result.
  public func call(
    _ destination: String, _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = [],
    timeout: Duration = .seconds(25)
  ) async throws(DBusError) -> [DBusValue] {
    let result = await withCheckedContinuation { continuation in
      call(destination, path, interface, method, arguments, timeout: timeout) { continuation.resume(returning: $0) }
    }
    switch result {
    case .success(let values): return values
    case .failure(let error): throw error
    }
  }

  /// Sends a signal. Without a connection to the bus the signal is dropped: a program that connects later reads the
  /// properties.
  ///
  /// - Parameter destination: the name of the only connection that receives the signal, preferably a unique one, which
  ///   never changes its owner. Nil for every program that has subscribed to such signals.
  public func emit(
    _ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue] = [],
    to destination: String? = nil
  ) {
    guard uniqueName != nil, let transport else { return }
    do throws(DBusError) {
      _ = try transport.send(.signal(path, interface, signal, arguments, to: destination))
    } catch {
      Log.shared.warning("Signal \(signal) was not sent: \(error)")
    }
  }

  /// Calls `handler` with each matching signal, for the lifetime of the registration, including reconnections.
  ///
  /// For a well-known sender name only signals of its present owner match.
  public func subscribe(_ match: SignalMatch, _ handler: @escaping @LoopActor (Message) -> Void) -> Registration {
    signals.subscribe(match, handler)
  }

  /// Calls `handler` with the owner of `name` (a unique name, nil without an owner): once when it is known, then each time it changes.
  /// Without a bus no name has an owner.
  ///
  /// - Parameter hearsEachBus: whether the first result on each new bus is reported, even if the name again has no owner.
  public func watchName(
    _ name: String, hearsEachBus: Bool = false, _ handler: @escaping @LoopActor (_ owner: String?) -> Void
  ) -> Registration {
    guard Validity.isBusName(name) else {
      Log.shared.error("\(name) is not a bus name and cannot be watched")
      return Registration {}
    }
    return names.watch(name, hearsEachBus: hearsEachBus, handler)
  }

  /// Asks the bus for the user, process and groups of a connection. The answer is cached until the name disappears.
  ///
  /// - Parameter sender: a message's sender, a unique name.
  public func credentials(
    of sender: String, then: @escaping @LoopActor (Result<Credentials, DBusError>) -> Void
  ) {
    credentials.get(sender, then: then)
  }

  /// Waits until the connection is established and owns its name.
  ///
  /// - Throws: the reason why it is not established, as soon as it is known; the connection continues to retry.
  public func ready() async throws(DBusError) {
    if case .connecting = state { await nextState() }
    switch state {
    case .connected: return
    case .connecting: throw .disconnected("There is no connection to the bus yet.")
    case .nameUnavailable(let error), .lost(let error): throw error
    case .closed: throw .disconnected("The connection to the bus is closed.")
    }
  }

  private func nextState() async {
    var registration: Registration?
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      registration = onState { _ in
        registration?.cancel()
        continuation.resume()
      }
    }
  }

  // MARK: Internal

  /// Calls the bus itself; possible before the bus has answered `Hello`.
  func callBus(
    _ method: String, _ arguments: [DBusValue] = [], timeout: Duration = .seconds(25),
    then: @escaping PendingCalls.Completion
  ) {
    send(.call(Bus.name, Bus.path, Bus.interface, method, arguments), timeout, then)
  }

  private func send(_ message: Message, _ timeout: Duration, _ then: @escaping PendingCalls.Completion) {
    guard let transport else { return fail(.disconnected("There is no connection to the bus."), then) }
    do throws(DBusError) {
      let serial = try transport.send(message).serial
      pending.add(message, serial: serial, timeout: timeout, then: then)
    } catch {
      fail(error, then)
    }
  }

  private func fail(_ error: DBusError, _ then: @escaping PendingCalls.Completion) {
    EventLoop.shared.soon { then(.failure(error)) }
  }
}
