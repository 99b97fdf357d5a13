import CommandLine
import Glibc
import Loop

/// Defers SIGINT (Ctrl-C), SIGTERM and SIGHUP while a command has started something in the service that would continue
/// without the command.
///
/// On the first signal the command cancels what it started, or reports that it continues. The program then ends by that
/// signal, as shells expect. A second signal ends the program at once. A signal that the parent process ignores
/// (`nohup`) stays ignored.
@LoopActor
public final class Interruption {
  /// The first signal that arrived; nil if none has arrived.
  public private(set) var signal: Int32?

  private let patience: Duration
  private let unanswered: String
  private var onSignal: @LoopActor () -> Void = {}
  private var registrations: [Registration] = []
  private var timer: Registration?

  private static let signals = [SIGINT, SIGTERM, SIGHUP]

  /// - Parameter unanswered: the sentence for standard error if the command has not ended `patience` after the signal.
  public init(unanswered: String, patience: Duration = .seconds(5)) {
    self.unanswered = unanswered
    self.patience = patience
    registrations = Self.signals.filter { !Self.isIgnored($0) }.map { signal in
      EventLoop.shared.on(signal: signal) { [weak self] in self?.came(signal) }
    }
  }

  /// Runs the part of a command that a signal must not interrupt. If a signal arrived meanwhile, the program ends by it
  /// after the command's last output.
  ///
  /// - Parameters:
  ///   - unanswered: as for `init`.
  ///   - body: the part to run; after a signal it may return normally or throw.
  public static func hold<Value: Sendable>(
    unanswered: String, patience: Duration = .seconds(5),
    _ body: @LoopActor (Interruption) async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    let interruption = Interruption(unanswered: unanswered, patience: patience)
    do throws(Failure) {
      let value = try await body(interruption)
      interruption.end()
      return value
    } catch {
      if interruption.signal != nil { Output.complain(error.text) }
      interruption.end()
      throw error
    }
  }

  /// Calls `body` once: on the first signal, or now if one has already arrived.
  public func onSignal(_ body: @escaping @LoopActor () -> Void) {
    if signal != nil { body() } else { onSignal = body }
  }

  /// Ends the program by the signal that arrived; without one, restores the default action of the signals.
  public func end() {
    registrations = []
    timer = nil
    if let signal { Self.die(of: signal) }
    Self.release(Self.signals)
  }

  private func came(_ signal: Int32) {
    guard self.signal == nil else { Self.die(of: signal) }
    self.signal = signal
    timer = EventLoop.shared.schedule(after: patience) { [unanswered] in
      Output.complain(unanswered)
      Self.die(of: signal)
    }
    onSignal()
  }

  // MARK: Signals of the process

  /// Whether the program ignores the signal, as one started by `nohup` does. Swift does not compare C functions, so
  /// their addresses are compared.
  private static func isIgnored(_ signal: Int32) -> Bool {
    var action = sigaction()
    return sigaction(signal, nil, &action) == 0
      && unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
  }

  private static func release(_ signals: [Int32]) {
    var set = sigset_t()
    sigemptyset(&set)
    for signal in signals { sigaddset(&set, signal) }
    pthread_sigmask(SIG_UNBLOCK, &set, nil)
  }

  private static func die(of signal: Int32) -> Never {
    Glibc.signal(signal, SIG_DFL)
    release([signal])
    kill(getpid(), signal)
    exit(128 + signal)
  }
}
