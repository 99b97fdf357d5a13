import Checking
import Common
import DBus
import Loop
import Radio
import Tuvali

/// Observable state of one transfer of a credential: from a wallet to this verifier, or from this wallet to a verifier.
@LoopActor
public final class Transfer {
  public enum Direction: String, Sendable { case incoming, outgoing }

  /// State of a transfer. The last four are final.
  public enum State: String, Sendable, CaseIterable {
    /// Outgoing only: the wallet scans for the verifier.
    case searching
    /// Connected; the keys are derived or being derived.
    case connected
    /// The wallet sends the encrypted credential to the verifier.
    case transferring
    /// The credential is complete at the verifier, and there is no verdict yet.
    case received
    case accepted
    case rejected
    /// The transfer ended after the delivery of the credential and before a verdict.
    case undecided
    case failed

    public var isEnd: Bool {
      switch self {
      case .searching, .connected, .transferring, .received: false
      case .accepted, .rejected, .undecided, .failed: true
      }
    }
  }

  /// Delivery of the verdict to the phone.
  public enum VerdictDelivery: String, Sendable, CaseIterable {
    /// No verdict was given yet.
    case none = ""
    /// The verification status was queued at the radio while the phone was connected.
    case sent
    /// The phone had left before the verdict and was not notified.
    case peerGone
  }

  /// Whether the checker examines the credential, and the checker's verdict.
  public enum Check: Sendable, Equatable {
    /// The credential is not checked.
    case none
    /// The check is in progress or queued.
    case pending
    case done(CheckVerdict)
  }

  /// Progress figures, in bytes of the encrypted frame and in chunks.
  public struct Figures: Hashable, Sendable {
    public var mtu = 0
    public var bytesExpected = 0
    public var bytesTransferred = 0
    public var chunksExpected = 0
    public var chunksMissing = 0
    public var crcFailures = 0

    public init() {}
  }

  /// Identifies the transfer in its object path and in the journal. `TransferNumbers` defines its uniqueness.
  public let number: Int
  public let direction: Direction
  public private(set) var state: State
  public private(set) var figures = Figures()
  /// Address of the peer; nil if unknown.
  public private(set) var peer: BluetoothAddress?
  /// Dialect, such as `0.5`; empty if unknown.
  public private(set) var dialect = ""
  public private(set) var error: (any CodedError)?
  /// Text of the credential, only for an incoming transfer: from `received` until it is rejected, or is accepted and
  /// fetched.
  public private(set) var text: CredentialText?
  /// Size of the credential in bytes; 0 if unknown. It remains after the credential is erased.
  public private(set) var size = 0
  /// Start of the transfer, in milliseconds since 1970-01-01 UTC by the current setting of the clock; 0 if it began in
  /// an earlier run.
  public private(set) var startedAt: Int64 = 0
  /// Whether the credential is stored only while its phone is connected. The phone has not received SUCCESS yet.
  public private(set) var isProvisional = false
  /// Whether a program has fetched the credential.
  public private(set) var wasTaken = false
  /// Whether the verdict was given in an earlier run.
  public private(set) var wasDecidedEarlier = false
  /// Whether the link is up or being established.
  public private(set) var isLive = true
  /// State of the check, only for an incoming transfer. The claims are only in `verdictDocument`.
  public private(set) var check = Check.none
  /// The checker's complete verdict as JSON, with the claims. Nil without a verdict, without capacity for it, and once
  /// the credential is erased.
  public private(set) var verdictDocument: CredentialText?
  /// Delivery of the verdict; set for incoming transfers only.
  public private(set) var verdictDelivery = VerdictDelivery.none
  /// When the service stops waiting for a verdict, in milliseconds since 1970 by the wall clock. 0 while no verdict is
  /// awaited or the phone is not connected.
  public private(set) var verdictDeadline: Int64 = 0
  /// Time from which the credential has waited for a verdict or for fetching, and the time at which it expires; nil
  /// if none waits.
  public private(set) var waiting: Range<Instant>?

  private let scheduler: any Scheduler
  private let clock: any WallClock
  private var began: Instant?
  private var received: Instant?
  private var verdictEnd: Instant?
  private var lastShown = Instant.zero
  /// Result of the last call of `date`, in milliseconds since 1970-01-01 UTC.
  private var lastDate: Int64 = 0
  private let observers = Observers<Transfer>()

  /// Minimum interval between notifications of changed figures.
  private static let showInterval = Duration.milliseconds(100)

  /// - Parameter clock: provides the dates of receptions.
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

  /// Calls `body` after each change; changes of figures at most ten times a second.
  public func onChange(_ body: @escaping @LoopActor (Transfer) -> Void) {
    observers.addForGood(body)
  }

  // MARK: For the owning service

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

  /// Records that the credential is being checked, or the result.
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

  /// Records the size of the credential to send, in bytes.
  public func send(bytes: Int) { size = bytes }

  /// Records that the transfer began in an earlier run of the service, at an unknown time.
  ///
  /// - Parameter isDecided: whether it also had its verdict then.
  func beganEarlier(isDecided: Bool) { (began, startedAt, wasDecidedEarlier) = (nil, 0, isDecided) }

  /// Records that a program has fetched the credential.
  public func take() {
    guard !wasTaken else { return }
    wasTaken = true
    show()
  }

  /// Sets since when the credential waits, and until when; nil when it no longer waits.
  public func wait(_ waiting: Range<Instant>?) {
    guard self.waiting != waiting else { return }
    self.waiting = waiting
    received = waiting?.lowerBound ?? received
    show()
  }

  /// Sets until when the connected phone waits for a verdict; nil when it no longer waits.
  public func awaitVerdict(until end: Instant?) {
    verdictEnd = end
    let deadline = end.map { clock.milliseconds + Int64(scheduler.now.duration(to: $0) / .milliseconds(1)) } ?? 0
    guard deadline != verdictDeadline else { return }
    verdictDeadline = deadline
    show()
  }

  /// Records the verdict, and whether the phone was notified of it.
  public func decide(accepted: Bool, _ delivery: VerdictDelivery) {
    guard !state.isEnd else { return }
    isProvisional = false
    (verdictDelivery, verdictEnd, verdictDeadline) = (delivery, nil, 0)
    enter(accepted ? .accepted : .rejected)
  }

  /// Recomputes the dates after the wall clock was set.
  public func clockWasSet() {
    if verdictEnd != nil { awaitVerdict(until: verdictEnd) }
    if let began { startedAt = clock.milliseconds - Int64(began.duration(to: scheduler.now) / .milliseconds(1)) }
    if began != nil || received != nil { show() }
  }

  /// Releases the credential's memory, because no program needs it any more.
  public func drop() {
    text = nil
    forgetClaims()
  }

  /// Drops the claims with the credential, and cancels a pending check.
  private func forgetClaims() {
    verdictDocument = nil
    if check == .pending { check = .none }
  }

  /// Erases a credential that was not judged or fetched in time.
  public func forget() {
    text = nil
    forgetClaims()
    if state.isEnd { show() } else { enter(.undecided) }
  }

  /// Records the end of the link. An incoming transfer without a verdict continues to wait for one.
  public func end() {
    guard isLive else { return }
    isLive = false
    (verdictEnd, verdictDeadline) = (nil, 0)
    show()
  }

  /// Time since the begin of the transfer; nil if it began in an earlier run.
  public var age: Duration? { began.map { $0.duration(to: scheduler.now) } }

  /// Time of reception, in milliseconds since 1970-01-01 UTC by the current setting of the clock; 0 if nothing was
  /// received.
  public var receivedAt: Int64 { received.map(date) ?? 0 }

  /// Time at which the credential expires, in milliseconds since 1970-01-01 UTC; 0 if none waits.
  public var expiresAt: Int64 {
    waiting.map { receivedAt + $0.lowerBound.duration(to: $0.upperBound).wholeMilliseconds } ?? 0
  }

  private func date(of instant: Instant) -> Int64 {
    let date = clock.milliseconds - instant.duration(to: scheduler.now).wholeMilliseconds
    // Time services slew the wall clock continuously: differences of up to a second are ignored.
    if abs(date - lastDate) > 1000 { lastDate = date }
    return lastDate
  }

  private func show() {
    lastShown = scheduler.now
    observers.call(self)
  }
}

/// Text of a received credential, in UTF-8. It is in a sealed memory file outside of this process's memory, made once
/// and shared with all programs that request a file. If the kernel gives no file, because too many are open, it is in
/// ordinary memory.
public struct CredentialText: Sendable {
  private enum Place {
    case file(FileDescriptor)
    case memory([UInt8])
  }

  /// Length of the text, in bytes.
  public let count: Int
  private let place: Place

  init(_ bytes: [UInt8]) {
    count = bytes.count
    let file = try? FileDescriptor.sealed(bytes, name: Self.fileName)
    place = file.map { .file($0) } ?? .memory(bytes)
  }

  private static let fileName = "credential"

  /// Returns a copy of the text.
  public func bytes() throws(DBusError) -> [UInt8] {
    switch place {
    case .file(let file): try file.contents()
    case .memory(let bytes): bytes
    }
  }

  /// Returns the text as a sealed memory file with its own position, for one program.
  func file() throws(DBusError) -> FileDescriptor {
    switch place {
    case .file(let file): try file.reopened()
    case .memory(let bytes): try FileDescriptor.sealed(bytes, name: Self.fileName)
    }
  }
}

extension CredentialText: CustomStringConvertible, CustomReflectable {
  public var description: String { "<credential of \(count) bytes>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension DBusError {
  /// D-Bus error for the end of a transfer: its name depends on the reason, its message contains the protocol's code.
  public init(_ error: TuvaliError) {
    let sentence = "\(error.code): \(error.sentence)"
    self =
      switch error.reason {
      case .protocolViolation, .wrongCode: .protocolError(sentence)
      case .limitExceeded, .noCapacity: .limitExceeded(sentence)
      case .invalidArgument: .invalidArgs(sentence)
      case .timeout: .timeout(sentence)
      case .peerLost, .peerEnded: .peerLost(sentence)
      case .busy: .busy(sentence)
      case .stopped: .failed(sentence)
      case .radioRefused: .notReady(sentence)
      }
  }
}
