import Config
import Journal
import Loop

/// The part of a daemon that is its own. `DaemonFrame` calls everything on the loop: `begin` once, then `apply` at each
/// reload, and `stop` once.
@LoopActor
public protocol DaemonBody: AnyObject, Sendable {
  /// The daemon's activity and problems in short sentences, for `systemctl status`; empty if there are none.
  var statusLine: String { get }

  /// Starts the daemon. `frame` is notified of each change of `statusLine`.
  ///
  /// - Parameter then: called once, when the bus name may appear.
  func begin(in frame: DaemonFrame, then: @escaping @LoopActor () -> Void)

  /// Applies settings that a reload changed. Settings that need a restart have their old values.
  func apply(_ configuration: Configuration)

  /// Stops the daemon, and completes pending operations.
  ///
  /// - Parameter then: called once, after a limited time.
  func stop(then: @escaping @LoopActor () -> Void)
}
