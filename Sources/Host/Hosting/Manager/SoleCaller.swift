import DBus
import Glibc
import Loop

/// The one program that uses an object of this service: the first program of a permitted user that attaches, until it
/// leaves the bus. Its calls to the charged interfaces of ``ServiceAccess`` cost nothing meanwhile.
@LoopActor
public final class SoleCaller<Sink: AnyObject & Sendable> {
  private let bus: BusConnection
  private let users: @LoopActor () -> Set<UInt32>
  private let refusals: (denied: String, busy: String)
  private var program: (name: String, sink: Sink, watch: Registration, exemption: Registration)?
  /// Calls by programs of other users, or by programs that had to attach first.
  public private(set) var deniedCalls: UInt64 = 0
  /// Called after the program has left the bus.
  public var onLeave: @LoopActor () -> Void = {}

  /// - Parameters:
  ///   - user: the name of the program's user.
  ///   - users: returns the users that may attach; nil: `user`, and the user of this service, so that a developer can
  ///     run both programs. It is called for each check, because the package with the user may be installed while this
  ///     service runs.
  ///   - denied: the sentence for a caller that is not permitted.
  ///   - busy: the sentence for a permitted caller while another program is attached.
  public init(
    _ user: String, on bus: BusConnection, users: (@LoopActor () -> Set<UInt32>)? = nil, denied: String, busy: String
  ) {
    self.bus = bus
    refusals = (denied, busy)
    if let users {
      self.users = users
    } else {
      self.users = { Set([ServiceAccess.number(ofUser: user), getuid()].compactMap { $0 }) }
    }
  }

  /// The sink of the attached program if that program is the caller; nil otherwise. The caller is identified by its
  /// unique bus name.
  public func sink(of call: MethodCall) -> Sink? { program?.name == call.sender ? program?.sink : nil }

  /// Runs `body`, maybe later, if the caller's user is permitted and no other program is attached. Otherwise the call
  /// fails with Denied or Busy.
  public func admit(_ call: MethodCall, _ body: @escaping @LoopActor (MethodCall) -> Void) {
    bus.credentials(of: call.sender) { [weak self] result in
      guard let self else { return call.fail(.notReady("The service stops.")) }
      guard case .success(let caller) = result, users().contains(caller.uid) else { return deny(call) }
      if let program, program.name != call.sender { return call.fail(.busy(refusals.busy)) }
      body(call)
    }
  }

  /// Makes an admitted program the sole caller, until it leaves the bus. Has no effect if a program is attached.
  ///
  /// - Parameter name: the unique name of the program.
  public func attach(_ sink: Sink, as name: String) {
    guard program == nil else { return }
    let watch = bus.watchName(name) { [weak self] owner in
      guard let self, owner == nil, program?.sink === sink else { return }
      program = nil
      onLeave()
    }
    program = (name, sink, watch, bus.objects.exempt(name))
  }

  /// Answers a call with the error `Denied`, and counts it.
  public func deny(_ call: MethodCall) {
    deniedCalls += 1
    call.fail(.denied(refusals.denied))
  }
}
