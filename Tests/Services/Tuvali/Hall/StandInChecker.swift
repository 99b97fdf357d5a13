import Air
import Common
import LocalSockets
import Loop

/// The credential checker in virtual time, as seen through its socket. It follows the protocol strictly, except where
/// a test injects invalid behaviour.
@LoopActor
public final class StandInChecker: LocalConnector {
  /// A step of the checker on a connection.
  public enum Step: Sendable {
    case send([UInt8])
    case wait(Duration)
    case end
    case fail(LocalStreamError)

    /// A line of text.
    public static func line(_ text: String) -> Step { .send(Array((text + "\n").utf8)) }
  }

  /// The steps with which it answers a request.
  public var answer: @LoopActor ([UInt8]) -> [Step]
  /// Whether the socket exists.
  public var isThere = true
  /// Delay before the first step.
  public var delay = Duration.milliseconds(300)
  /// All requests, in order.
  public private(set) var requests: [[UInt8]] = []
  /// Open connections, and their maximum until now.
  public private(set) var open = 0, mostOpen = 0
  private let time: VirtualTime

  public init(_ time: VirtualTime, answer: @escaping @LoopActor ([UInt8]) -> [Step]) {
    (self.time, self.answer) = (time, answer)
  }

  /// A verdict in the checker's format.
  public nonisolated static func verdict(
    _ word: String, reasons: [String] = [], issuer: String? = "Residents Office", claims: String = "null"
  ) -> String {
    let reasons = reasons.map { "{\"code\": \"\($0)\", \"sentence\": \"Because of \($0).\"}" }
    let issuer = issuer.map { "\"\($0)\"" } ?? "null"
    return
      "{\"verdict\": \"\(word)\", \"reasons\": [\(reasons.joined(separator: ", "))], \"format\": \"ldp_vc\", \"issuer\": "
      + "\(issuer), \"type\": \"ResidentCredential\", \"validFrom\": null, \"validUntil\": \"2028-01-01T00:00:00Z\", "
      + "\"status\": {\"state\": \"none\"}, \"claims\": \(claims), \"unsigned\": [], \"interchangeable\": [], \"omitted\": [], "
      + "\"holder\": \"notChecked\", \"digest\": \"00\", \"checkedAt\": \"2026-06-01T00:00:00Z\"}"
  }

  public func hasSocket(at path: String) -> Bool { isThere }

  public func connect(
    to path: String, sending request: [UInt8], onEvent: @escaping @LoopActor (LocalStreamEvent) -> Void
  ) -> Registration {
    let connection = Connection(time, onEvent: onEvent)
    guard isThere else {
      connection.run([.fail(.missing)], after: .zero)
      return Registration { connection.close() }
    }
    requests.append(request)
    open += 1
    mostOpen = max(mostOpen, open)
    connection.run(answer(request), after: delay)
    return Registration { [weak self] in
      connection.close()
      self?.open -= 1
    }
  }

  @LoopActor
  private final class Connection {
    private let time: VirtualTime
    private var onEvent: (@LoopActor (LocalStreamEvent) -> Void)?
    private var timer: Registration?

    init(_ time: VirtualTime, onEvent: @escaping @LoopActor (LocalStreamEvent) -> Void) {
      (self.time, self.onEvent) = (time, onEvent)
    }

    func run(_ steps: [Step], after delay: Duration) {
      timer = time.schedule(after: delay) { [weak self] in self?.take(steps[...]) }
    }

    func close() { (onEvent, timer) = (nil, nil) }

    private func take(_ steps: ArraySlice<Step>) {
      guard let step = steps.first else { return }
      var pause = Duration.milliseconds(1)
      switch step {
      case .send(let bytes): onEvent?(.received(bytes))
      case .wait(let duration): pause = duration
      case .end: return end(.ended)
      case .fail(let error): return end(.failed(error))
      }
      guard onEvent != nil else { return }
      timer = time.schedule(after: pause) { [weak self] in self?.take(steps.dropFirst()) }
    }

    private func end(_ event: LocalStreamEvent) {
      let report = onEvent
      close()
      report?(event)
    }
  }
}
