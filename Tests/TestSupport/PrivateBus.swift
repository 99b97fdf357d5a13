import Common
import Foundation

/// A private `dbus-daemon` on a socket in a directory of its own. Every user may do everything there, unless
/// the test says otherwise.
public final class PrivateBus: Sendable {
  /// The D-Bus address of the bus, for `BusAddress.address` and `DBUS_SESSION_BUS_ADDRESS`.
  public let address: String
  private let directory: URL
  private let daemon = Locked<Program?>(nil)

  /// Starts the bus and waits until it listens.
  ///
  /// - Parameter configuration: more elements for the end of its configuration file: limits, policies.
  public init(configuration: String = "") throws {
    directory = FileManager.default.temporaryDirectory.appendingPathComponent("bus-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    address = "unix:path=\(directory.path)/socket"
    try configure(configuration)
    try start()
  }

  /// Changes the end of the configuration file; a running bus reads it when its `ReloadConfig` is called.
  public func configure(_ configuration: String) throws {
    try Self.configuration(address, configuration)
      .write(to: directory.appendingPathComponent("bus.conf"), atomically: true, encoding: .utf8)
  }

  deinit {
    stop()
  }

  /// Stops the bus as a service manager would, and removes its directory.
  public func stop() {
    daemon.withLock { $0.take() }?.end()
    try? FileManager.default.removeItem(at: directory)
  }

  /// Kills the bus as in a crash. `start` restarts it.
  public func kill() {
    daemon.withLock { $0.take() }?.end(SIGKILL)
  }

  /// Suspends the bus until `resume`.
  public func pause() { signal(SIGSTOP) }

  public func resume() { signal(SIGCONT) }

  private func signal(_ number: Int32) {
    daemon.withLock { if let program = $0 { _ = Glibc.kill(program.processID, number) } }
  }

  /// Restarts the bus at the same address.
  public func start() throws {
    var ends: [Int32] = [-1, -1]
    // The socket is close-on-exec from its creation, so that no child process of another test keeps it open.
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw Program.NotStarted(description: "no socket pair") }
    defer { close(ends[0]) }
    let log = open("\(directory.path)/log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    defer { close(log) }
    let program = try Program(
      ["dbus-daemon", "--nofork", "--nosyslog", "--config-file=\(directory.path)/bus.conf", "--print-address=9"],
      passing: [9: ends[1], 1: log, 2: log])
    close(ends[1])
    daemon.withLock { $0 = program }
    // The bus prints its address when it listens, and nothing when it fails.
    var byte: UInt8 = 0
    guard read(ends[0], &byte, 1) == 1 else {
      throw Program.NotStarted(description: "dbus-daemon does not listen: " + said)
    }
  }

  /// The error output that the bus has written so far.
  public var said: String {
    (try? String(contentsOf: directory.appendingPathComponent("log"), encoding: .utf8)) ?? ""
  }

  private static func configuration(_ address: String, _ more: String) -> String {
    """
    <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
      "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
    <busconfig>
      <type>session</type>
      <listen>\(address)</listen>
      <auth>EXTERNAL</auth>
      <policy context="default">
        <allow send_destination="*" eavesdrop="true"/>
        <allow eavesdrop="true"/>
        <allow own="*"/>
      </policy>
      \(more)
    </busconfig>
    """
  }
}
