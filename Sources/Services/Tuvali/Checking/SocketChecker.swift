import Common
import LocalSockets
import Loop

/// Checks credentials: their issuers, signatures, dates and revocation.
@LoopActor
public protocol CredentialChecker: AnyObject {
  /// Checks one credential.
  ///
  /// - Parameter then: called once on the loop, never from within this call.
  /// - Returns: the check, which is cancelled when the registration is released.
  func check(_ credential: [UInt8], then: @escaping @LoopActor (CheckVerdict) -> Void) -> Registration

  /// Problem that prevents all checks, and what to do; nil if there is none.
  var absence: String? { get }
}

/// Checks credentials with the program that listens on a socket, with one connection per credential (`docs/check.md`,
/// "The service").
@LoopActor
public final class SocketChecker: CredentialChecker {
  public nonisolated static let defaultPath = "/run/earshot-check/socket"
  /// Default time limit of a check. The checker's own limits are shorter.
  public nonisolated static let defaultTimeout = Duration.seconds(12)
  /// Maximum bytes of a credential that are sent: one more than a checker accepts.
  nonisolated static let sendLimit = (4 << 20) + 1
  /// Time within which a connection that ends without data means that the checker is busy, or could not start.
  nonisolated static let busyTime = Duration.seconds(1)
  /// Number of retries after such a connection, with a delay of `pause` each.
  nonisolated static let repetitions = 3
  nonisolated static let pause = Duration.milliseconds(500)

  private let path: String
  private let connector: any LocalConnector
  private let scheduler: any Scheduler
  private let timeout: Duration

  /// - Parameter timeout: time limit of a check, from the first connection to the complete verdict.
  public init(
    path: String, connector: any LocalConnector, scheduler: any Scheduler,
    timeout: Duration = SocketChecker.defaultTimeout
  ) {
    (self.path, self.connector, self.scheduler, self.timeout) = (path, connector, scheduler, timeout)
  }

  public func check(_ credential: [UInt8], then: @escaping @LoopActor (CheckVerdict) -> Void) -> Registration {
    let attempt = Attempt(credential, path, connector, scheduler, timeout, then)
    attempt.begin()
    return Registration { attempt.cancel() }
  }

  public var absence: String? {
    connector.hasSocket(at: path) ? nil : Self.absence(at: path)
  }

  /// Sentence for a checker that is not installed or not running.
  public nonisolated static func absence(at path: String) -> String {
    "The credential checker is not running: nothing listens at \(path). Install earshot-check and run "
      + "systemctl start earshot-check.socket, or set Check=no."
  }

  static func denial(at path: String) -> String {
    "The credential checker's socket \(path) refuses this user. Its users are root and the members of the group earshot."
  }
}

/// One check, with retried connections to the checker.
@LoopActor
private final class Attempt {
  private let credential: [UInt8]
  private let path: String
  private let connector: any LocalConnector
  private let scheduler: any Scheduler
  private let timeout: Duration
  private var then: (@LoopActor (CheckVerdict) -> Void)?
  private var connection: Registration?
  private var connected = Instant.zero
  private var timer: Registration?
  private var pause: Registration?
  private var received: [UInt8] = []
  private var repetitions = 0

  init(
    _ credential: [UInt8], _ path: String, _ connector: any LocalConnector, _ scheduler: any Scheduler,
    _ timeout: Duration, _ then: @escaping @LoopActor (CheckVerdict) -> Void
  ) {
    self.credential = Array(credential.prefix(SocketChecker.sendLimit))
    (self.path, self.connector, self.scheduler) = (path, connector, scheduler)
    (self.timeout, self.then) = (timeout, then)
  }

  func begin() {
    timer = scheduler.schedule(after: timeout) { [weak self] in
      guard let self else { return }
      end(.failure(.timedOut(after: timeout)))
    }
    connect()
  }

  func cancel() {
    then = nil
    (connection, timer, pause) = (nil, nil, nil)
    received = []
  }

  private func connect() {
    connected = scheduler.now
    // Only this line replaces the connection, so no event of an earlier one arrives.
    connection = connector.connect(to: path, sending: credential) { [weak self] in self?.handle($0) }
  }

  private func handle(_ event: LocalStreamEvent) {
    switch event {
    case .received(let bytes):
      received += bytes
      if received.count > CheckReply.limit + 1 { end(reply) }
    case .ended:
      if received.isEmpty, connected.duration(to: scheduler.now) < SocketChecker.busyTime, tryAgain() { return }
      end(reply)
    case .failed(.busy): if !tryAgain() { end(.failure(.failed)) }
    case .failed(.missing): end(.failure(.missing(SocketChecker.absence(at: path))))
    case .failed(.denied): end(.failure(.missing(SocketChecker.denial(at: path))))
    case .failed(.other(let reason)):
      end(.failure(.missing("The credential checker cannot be reached at \(path): \(reason).")))
    }
  }

  /// Retries the connection after `pause`.
  ///
  /// - Returns: false if the number of retries is used up.
  private func tryAgain() -> Bool {
    guard repetitions < SocketChecker.repetitions else { return false }
    repetitions += 1
    connection = nil
    pause = scheduler.schedule(after: SocketChecker.pause) { [weak self] in self?.connect() }
    return true
  }

  private var reply: Result<CheckVerdict, CheckVerdict.Failure> {
    do throws(CheckVerdict.Failure) { return .success(try CheckReply.verdict(received)) } catch {
      return .failure(error)
    }
  }

  private func end(_ result: Result<CheckVerdict, CheckVerdict.Failure>) {
    guard let then else { return }
    cancel()
    switch result {
    case .success(let verdict): then(verdict)
    case .failure(let failure): then(CheckVerdict(failure))
    }
  }
}
