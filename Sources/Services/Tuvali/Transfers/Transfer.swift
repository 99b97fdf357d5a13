import Checking
import Common
import Loop
import Radio

/// One transfer of a credential, as those who watch it see it: a visit of a wallet to our verifier, or our wallet's to
/// somebody else's.
@LoopActor
public final class Transfer {
  public enum Direction: String, Sendable { case incoming, outgoing }

  /// Where it stands. The last four are ends.
  public enum State: String, Sendable, CaseIterable {
    /// Outgoing: the verifier is looked for.
    case searching
    /// The two are connected, and the keys derived or being derived.
    case connected
    /// The frame is on its way.
    case transferring
    /// Incoming: the credential is here, and no verdict yet. Outgoing: the verifier has it all, and gave none yet.
    case received
    case accepted
    case rejected
    /// It ended after the credential was delivered and before a verdict.
    case undecided
    case failed

    public var isEnd: Bool {
      switch self {
      case .searching, .connected, .transferring, .received: false
      case .accepted, .rejected, .undecided, .failed: true
      }
    }
  }

  /// The delivery of the verdict to the phone.
  public enum VerdictDelivery: String, Sendable, CaseIterable {
    /// There is no verdict yet.
    case none = ""
    /// The verification status was handed to the radio for a phone that was still connected.
    case sent
    /// The phone had left before the verdict and was not notified.
    case peerGone
  }

  /// What the checker says about the credential.
  public enum Check: Sendable, Equatable {
    /// The credential is not checked.
    case none
    /// The check is under way or waits for others.
    case pending
    case done(CheckVerdict)
  }

  /// The figures, in bytes of the encrypted frame and in chunks.
  public struct Figures: Hashable, Sendable {
    public var mtu = 0
    public var bytesExpected = 0
    public var bytesTransferred = 0
    public var chunksExpected = 0
    public var chunksMissing = 0
    public var crcFailures = 0

    public init() {}
  }

  /// Stands for the transfer in its object's path and in the journal. `TransferNumbers` says who else may have it.
  public let number: Int
  public let direction: Direction
  public private(set) var state: State
  public private(set) var figures = Figures()
  /// The other side's address; nil while it is unknown.
  public private(set) var peer: BluetoothAddress?
  /// The dialect spoken: `0.5`; empty while it is unknown.
  public private(set) var dialect = ""
  public private(set) var error: (any CodedError)?
  /// The credential's text, only of an incoming transfer: from `received` on until it is rejected, or is accepted and was
  /// taken.
  public private(set) var text: CredentialText?
  /// Size of the credential in bytes; 0 while it is unknown. It stays known when the credential is erased.
  public private(set) var size = 0
  /// When the transfer began, in milliseconds since 1970-01-01 UTC by the present setting of the clock; 0 if it began in an earlier
  /// run.
  public private(set) var startedAt: Int64 = 0
  /// Whether the credential is stored only while its phone is connected; the phone has not received SUCCESS yet.
  public private(set) var isProvisional = false
  /// Whether a program was given the credential.
  public private(set) var wasTaken = false
  /// Whether the link is still up or being made.
  public private(set) var isLive = true
  /// What the checker says about the credential; only of an incoming transfer. The claims are in `verdictDocument` alone.
  public private(set) var check = Check.none
  /// The checker's whole verdict as JSON, with the claims; nil without a verdict, without capacity for it, and as soon as the credential
  /// is gone.
  public private(set) var verdictDocument: CredentialText?
  /// The delivery of the verdict; set for incoming transfers only.
  public private(set) var verdictDelivery = VerdictDelivery.none
  /// When the service stops waiting for a verdict, in milliseconds since 1970 by the wall clock; 0 while no verdict is
  /// awaited or the phone is not connected.
  public private(set) var verdictDeadline: Int64 = 0
  /// Since when the credential waits to be judged and fetched, and when it has waited for too long; nil where none does.
  public private(set) var waiting: Range<Instant>?

  private let scheduler: any Scheduler
  private let clock: any WallClock
  private var began: Instant?
  private var received: Instant?
  private var verdictEnd: Instant?
  private var lastShown = Instant.zero
  /// The last result of `date`, in milliseconds since 1970-01-01 UTC.
  private var lastDate: Int64 = 0
  private let observers = Observers<Transfer>()

  /// While the figures run, they are shown this often.
  private static let showInterval = Duration.milliseconds(100)

  /// - Parameter clock: tells the dates of what was received.
  public init(
    number: Int, direction: Direction, state: State, scheduler: any Scheduler,
    clock: any WallClock = SystemWallClock()
  ) {
    self.number = number
    self.direction = direction
    self.state = state
    self.scheduler = scheduler
    self.clock = clock
    began = scheduler.now
    startedAt = clock.milliseconds
  }

  /// Calls `body` after each change; running figures come ten times a second at most.
  public func onChange(_ body: @escaping @LoopActor (Transfer) -> Void) {
    observers.addForGood(body)
  }

  // MARK: For the service that runs it

  public func enter(_ state: State, error: (any CodedError)? = nil) {
    guard !self.state.isEnd else { return }
    self.state = state
    if let error { self.error = error }
    show()
  }

  public func met(_ peer: BluetoothAddress?, dialect: String) {
    self.peer = peer
    self.dialect = dialect
  }

  public func update(_ figures: Figures) {
    guard figures != self.figures else { return }
    self.figures = figures
    if lastShown.duration(to: scheduler.now) >= Self.showInterval { show() }
  }

  public func receive(_ credential: [UInt8], isProvisional: Bool = false) {
    text = CredentialText(credential)
    size = credential.count
    self.isProvisional = isProvisional
  }

  /// Notes that the credential is checked, or what the checker says about it.
  public func note(_ check: Check) {
    var check = check
    verdictDocument = nil
    if case .done(var verdict) = check {
      if text != nil, !verdict.document.isEmpty { verdictDocument = CredentialText(verdict.document) }
      verdict.forgetClaims()
      check = .done(verdict)
    }
    guard self.check != check else { return }
    self.check = check
    show()
  }

  /// Notes the size of the credential that is sent, in bytes.
  public func send(bytes: Int) { size = bytes }

  /// Notes that the transfer began in an earlier run of the service, at an unknown time.
  func beganEarlier() { (began, startedAt) = (nil, 0) }

  /// A program was given the credential.
  public func take() {
    guard !wasTaken else { return }
    wasTaken = true
    show()
  }

  /// Since when the credential waits, and until when; nil when it waits no longer.
  public func wait(_ waiting: Range<Instant>?) {
    guard self.waiting != waiting else { return }
    self.waiting = waiting
    received = waiting?.lowerBound ?? received
    show()
  }

  /// Notes until when the connected phone waits for a verdict; nil when it no longer waits.
  public func awaitVerdict(until end: Instant?) {
    verdictEnd = end
    let deadline = end.map { clock.milliseconds + Int64(scheduler.now.duration(to: $0) / .milliseconds(1)) } ?? 0
    guard deadline != verdictDeadline else { return }
    verdictDeadline = deadline
    show()
  }

  /// Notes the verdict, and whether the phone was notified of it.
  public func decide(accepted: Bool, _ delivery: VerdictDelivery) {
    guard !state.isEnd else { return }
    isProvisional = false
    (verdictDelivery, verdictEnd, verdictDeadline) = (delivery, nil, 0)
    enter(accepted ? .accepted : .rejected)
  }

  /// The wall clock was set: the dates are others now.
  public func clockWasSet() {
    if verdictEnd != nil { awaitVerdict(until: verdictEnd) }
    if let began { startedAt = clock.milliseconds - Int64(began.duration(to: scheduler.now) / .milliseconds(1)) }
    if began != nil || received != nil { show() }
  }

  /// The credential is no longer wanted.
  public func drop() {
    text = nil
    forgetClaims()
  }

  /// Claims go with the credential, and a credential that is gone is not checked any more.
  private func forgetClaims() {
    verdictDocument = nil
    if check == .pending { check = .none }
  }

  /// The credential is erased: nobody judged it, or nobody took it, in time.
  public func forget() {
    text = nil
    forgetClaims()
    if state.isEnd { show() } else { enter(.undecided) }
  }

  /// The link is gone; an incoming transfer without a verdict keeps waiting for one.
  public func end() {
    guard isLive else { return }
    isLive = false
    (verdictEnd, verdictDeadline) = (nil, 0)
    show()
  }

  /// When the credential was received, in milliseconds since 1970-01-01 UTC by the wall clock as it goes now; 0 if none was.
  public var receivedAt: Int64 { received.map(date) ?? 0 }

  /// When the credential has waited for too long, likewise; 0 if none waits.
  public var expiresAt: Int64 {
    waiting.map { receivedAt + $0.lowerBound.duration(to: $0.upperBound).wholeMilliseconds } ?? 0
  }

  private func date(of instant: Instant) -> Int64 {
    let date = clock.milliseconds - instant.duration(to: scheduler.now).wholeMilliseconds
    // A time service slews the wall clock a little all the time: a difference of up to a second is not a new date.
    if abs(date - lastDate) > 1000 { lastDate = date }
    return lastDate
  }

  private func show() {
    lastShown = scheduler.now
    observers.call(self)
  }
}
