internal import CDBus
import Journal
import Loop

/// One connection of libdbus, from opening to its end: a socket on the event loop that gives and takes messages.
///
/// All calls into libdbus, and all of libdbus's calls back, are on the loop's thread.
@LoopActor
final class Transport {
  private let connection: OpaquePointer
  private let limits: BusLimits
  private let watches = SocketWatches()
  private let timeouts: SocketTimeouts
  private let scheduler: any Scheduler
  private var isPumpScheduled = false
  private(set) var isOpen = true
  /// Messages with something private in them that the bus does not have yet.
  private var privates: [RawMessage] = []

  /// A message came. Not called after `close()`.
  var onMessage: @LoopActor (Message) -> Void = { _ in }
  /// The other side is gone. Called once, after the last message.
  var onLost: @LoopActor () -> Void = {}

  /// Connects the socket; authentication goes on by itself, and what is sent meanwhile waits for it.
  init(_ address: String, scheduler: any Scheduler, limits: BusLimits) throws(DBusError) {
    guard Validity.isText(address) else { throw .invalidArgs("A bus address cannot contain a NUL.") }
    var error = CDBus.DBusError()
    dbus_error_init(&error)
    guard let connection = dbus_connection_open_private(address, &error) else {
      defer { dbus_error_free(&error) }
      let message = error.message.map { String(cString: $0) } ?? "no reason given"
      throw .disconnected("The bus at \(address) cannot be reached: \(message).")
    }
    self.connection = connection
    self.limits = limits
    self.scheduler = scheduler
    timeouts = SocketTimeouts(scheduler)
    dbus_connection_set_exit_on_disconnect(connection, 0)
    dbus_connection_set_max_message_size(connection, limits.received)
    dbus_connection_set_max_received_size(connection, limits.received)
    watches.onProgress = { [weak self] in self?.pump() }
    timeouts.onProgress = { [weak self] in self?.pump() }
    attach()
  }

  private func attach() {
    // The connection holds the transport until `close()`.
    let box = Unmanaged.passRetained(self).toOpaque()
    let added =
      dbus_connection_set_watch_functions(connection, addWatch, removeWatch, toggleWatch, box, nil) != 0
      && dbus_connection_set_timeout_functions(connection, addTimeout, removeTimeout, toggleTimeout, box, nil) != 0
    dbus_connection_set_dispatch_status_function(connection, dispatchStatusChanged, box, nil)
    if !added { Log.shared.error("There is no memory to watch the connection to the bus") }
    schedulePump()
  }

  /// Ends the connection; what the kernel took so far is still delivered.
  func close() {
    guard isOpen else { return }
    isOpen = false
    dbus_connection_close(connection)
    dbus_connection_set_watch_functions(connection, nil, nil, nil, nil, nil)
    dbus_connection_set_timeout_functions(connection, nil, nil, nil, nil, nil)
    dbus_connection_set_dispatch_status_function(connection, nil, nil, nil)
    watches.removeAll()
    timeouts.removeAll()
    dbus_connection_unref(connection)
    onMessage = { _ in }
    onLost = {}
    privates = []
    Unmanaged.passUnretained(self).release()
  }

  /// Gives libdbus the name that the bus gave.
  func setUniqueName(_ name: String) {
    guard isOpen, Validity.isBusName(name) else { return }
    _ = dbus_bus_set_unique_name(connection, name)
  }

  /// Queues a message.
  ///
  /// - Returns: the serial that it got, and the bytes of its body.
  func send(_ message: Message) throws(DBusError) -> (serial: UInt32, size: Int) {
    let (raw, serial) = try queue(message)
    return (serial, raw.size)
  }

  /// Queues a message with something private in it. When the bus has the whole of it, or the connection ends, its texts are
  /// overwritten here.
  ///
  /// - Returns: as `send`.
  func sendPrivate(_ message: Message) throws(DBusError) -> (serial: UInt32, size: Int) {
    let (raw, serial) = try queue(message)
    raw.isPrivate = true
    privates.append(raw)
    dropPrivates()
    return (serial, raw.size)
  }

  private func queue(_ message: Message) throws(DBusError) -> (raw: RawMessage, serial: UInt32) {
    guard isOpen else { throw .disconnected("There is no connection to the bus.") }
    let raw = try MessageWriter.write(message, limits: limits)
    guard dbus_connection_get_outgoing_size(connection) <= limits.outgoing else {
      throw .limitExceeded("The bus does not take our messages: over \(limits.outgoing) bytes wait.")
    }
    if dbus_message_contains_unix_fds(raw.pointer) != 0,
      dbus_connection_can_send_type(connection, TypeCode.descriptor) == 0
    {
      throw .failed("The bus does not pass descriptors.")
    }
    var serial: UInt32 = 0
    guard dbus_connection_send(connection, raw.pointer, &serial) != 0 else {
      throw .failed("There is no memory to send a message.")
    }
    return (raw, serial)
  }

  /// Lets go of private messages that the bus has.
  private func dropPrivates() {
    if !privates.isEmpty, dbus_connection_has_messages_to_send(connection) == 0 { privates = [] }
  }

  fileprivate func schedulePump() {
    guard isOpen, !isPumpScheduled else { return }
    isPumpScheduled = true
    EventLoop.shared.soon { [weak self] in
      self?.isPumpScheduled = false
      self?.pump()
    }
  }

  /// Hands on the messages that have come; after some of them the loop's other work gets its turn.
  private func pump() {
    dropPrivates()
    let end = scheduler.now.advanced(by: limits.turn)
    for count in 0..<limits.messagesPerTurn {
      guard count == 0 || scheduler.now < end else { break }
      guard isOpen, let pointer = dbus_connection_pop_message(connection) else { break }
      if let message = MessageReader.read(RawMessage(owning: pointer), limits: limits) { onMessage(message) }
    }
    guard isOpen else { return }
    if dbus_connection_get_dispatch_status(connection) == DBUS_DISPATCH_DATA_REMAINS {
      schedulePump()
    } else if dbus_connection_get_is_connected(connection) == 0 {
      let onLost = onLost
      close()
      onLost()
    }
  }

  // MARK: Called by libdbus

  fileprivate func add(watch: OpaquePointer) { watches.add(watch) }
  fileprivate func remove(watch: OpaquePointer) { watches.remove(watch) }
  fileprivate func toggled(watch: OpaquePointer) { watches.toggled(watch) }
  fileprivate func update(timeout: OpaquePointer) { timeouts.update(timeout) }
  fileprivate func remove(timeout: OpaquePointer) { timeouts.remove(timeout) }
}

// libdbus calls these from within the calls above, on the loop's thread.

private func onLoop(
  _ box: UnsafeMutableRawPointer?, _ object: OpaquePointer?, _ body: @LoopActor (Transport, OpaquePointer) -> Void
) {
  guard let box, let object else { return }
  let transport = Unmanaged<Transport>.fromOpaque(box).takeUnretainedValue()
  // The loop's thread has it from libdbus and keeps it; as a number it may pass into the loop's isolation.
  let address = UInt(bitPattern: object)
  LoopActor.assumeIsolated {
    if let object = OpaquePointer(bitPattern: address) { body(transport, object) }
  }
}

private func addWatch(_ watch: OpaquePointer?, _ box: UnsafeMutableRawPointer?) -> dbus_bool_t {
  onLoop(box, watch) { $0.add(watch: $1) }
  return 1
}

private func removeWatch(_ watch: OpaquePointer?, _ box: UnsafeMutableRawPointer?) {
  onLoop(box, watch) { $0.remove(watch: $1) }
}

private func toggleWatch(_ watch: OpaquePointer?, _ box: UnsafeMutableRawPointer?) {
  onLoop(box, watch) { $0.toggled(watch: $1) }
}

private func addTimeout(_ timeout: OpaquePointer?, _ box: UnsafeMutableRawPointer?) -> dbus_bool_t {
  onLoop(box, timeout) { $0.update(timeout: $1) }
  return 1
}

private func removeTimeout(_ timeout: OpaquePointer?, _ box: UnsafeMutableRawPointer?) {
  onLoop(box, timeout) { $0.remove(timeout: $1) }
}

private func toggleTimeout(_ timeout: OpaquePointer?, _ box: UnsafeMutableRawPointer?) {
  onLoop(box, timeout) { $0.update(timeout: $1) }
}

private func dispatchStatusChanged(
  _ connection: OpaquePointer?, _: DBusDispatchStatus, _ box: UnsafeMutableRawPointer?
) {
  onLoop(box, connection) { transport, _ in transport.schedulePump() }
}
