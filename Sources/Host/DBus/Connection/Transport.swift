internal import CDBus
import Glibc
import Journal
import Loop

/// One connection of libdbus, from opening to its end: a socket on the event loop that sends and receives messages.
///
/// All calls into libdbus, and all of its callbacks, run on the loop's thread.
@LoopActor
final class Transport {
  private let connection: OpaquePointer
  private let limits: BusLimits
  private let watches = SocketWatches()
  private let timeouts: SocketTimeouts
  private let scheduler: any Scheduler
  private var isPumpScheduled = false
  private(set) var isOpen = true
  /// Messages with private content that are not completely sent.
  private var privates: [RawMessage] = []

  /// Called with each received message, but not after `close()`.
  var onMessage: @LoopActor (Message) -> Void = { _ in }
  /// Called once, after the last message, when the other side has disconnected.
  var onLost: @LoopActor () -> Void = {}

  /// Connects the socket. Authentication continues asynchronously, and messages wait for it.
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
    // The connection retains the transport until `close()`.
    let box = Unmanaged.passRetained(self).toOpaque()
    let added =
      dbus_connection_set_watch_functions(connection, addWatch, removeWatch, toggleWatch, box, nil) != 0
      && dbus_connection_set_timeout_functions(connection, addTimeout, removeTimeout, toggleTimeout, box, nil) != 0
    dbus_connection_set_dispatch_status_function(connection, dispatchStatusChanged, box, nil)
    if !added { Log.shared.error("Out of memory while adding the watches of the D-Bus connection") }
    schedulePump()
  }

  /// Ends the connection; data that the kernel has already accepted is still delivered.
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

  /// Passes the unique name to libdbus.
  func setUniqueName(_ name: String) {
    guard isOpen, Validity.isBusName(name) else { return }
    _ = dbus_bus_set_unique_name(connection, name)
  }

  /// Queues a message.
  ///
  /// - Returns: its serial, and the size of its body in bytes.
  func send(_ message: Message) throws(DBusError) -> (serial: UInt32, size: Int) {
    let (raw, serial) = try queue(message)
    return (serial, raw.size)
  }

  /// Queues a message with private content. Its texts are overwritten in memory when the bus has received all of it, or
  /// when the connection ends.
  ///
  /// - Returns: like `send`.
  func sendPrivate(_ message: Message) throws(DBusError) -> (serial: UInt32, size: Int) {
    let (raw, serial) = try queue(message)
    raw.isPrivate = true
    privates.append(raw)
    dropPrivates()
    return (serial, raw.size)
  }

  private func queue(_ message: Message) throws(DBusError) -> (raw: RawMessage, serial: UInt32) {
    guard isOpen else { throw .disconnected("This program is not connected to the bus.") }
    let raw = try MessageWriter.write(message, limits: limits)
    guard dbus_connection_get_outgoing_size(connection) <= limits.outgoing else {
      throw .limitExceeded("The bus does not read this program's messages: more than \(limits.outgoing) bytes wait.")
    }
    if dbus_message_contains_unix_fds(raw.pointer) != 0,
      dbus_connection_can_send_type(connection, TypeCode.descriptor) == 0
    {
      throw .failed("The connection to the bus cannot pass file descriptors.")
    }
    var serial: UInt32 = 0
    guard dbus_connection_send(connection, raw.pointer, &serial) != 0 else {
      throw .failed("Out of memory while sending a message.")
    }
    return (raw, serial)
  }

  /// Releases private messages that are completely sent.
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

  /// Delivers received messages; after some of them the loop handles other work.
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

// libdbus calls these functions from within the calls above, on the loop's thread.

private func onLoop(
  _ box: UnsafeMutableRawPointer?, _ object: OpaquePointer?, _ body: @LoopActor (Transport, OpaquePointer) -> Void
) {
  guard let box, let object else { return }
  let transport = Unmanaged<Transport>.fromOpaque(box).takeUnretainedValue()
  // The loop's thread received the pointer from libdbus, and does not pass it on; as a number it can enter the actor's
  // isolation.
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

/// The address of a bus: the system bus, the session bus, or any D-Bus address.
public enum BusAddress: Hashable, Sendable {
  case system
  case session
  /// A D-Bus address: `unix:path=/run/earshot/bus`.
  case address(String)

  /// Parses `system`, `session`, or a D-Bus address.
  public init(words: String) {
    switch words {
    case "system": self = .system
    case "session": self = .session
    default: self = .address(words)
    }
  }

  /// The D-Bus address. That of the system or session bus comes from the environment, or else is the standard address.
  var string: String {
    switch self {
    case .system: environment("DBUS_SYSTEM_BUS_ADDRESS") ?? "unix:path=/run/dbus/system_bus_socket"
    case .session: environment("DBUS_SESSION_BUS_ADDRESS") ?? "unix:path=/run/user/\(getuid())/bus"
    case .address(let address): address
    }
  }
}

private func environment(_ name: String) -> String? {
  guard let value = getenv(name) else { return nil }
  let text = String(cString: value)
  return text.isEmpty ? nil : text
}
