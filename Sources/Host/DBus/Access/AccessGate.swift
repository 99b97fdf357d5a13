import Loop

/// The connection to the bus, as far as exported objects and access checks need it.
@LoopActor
protocol ObjectBus: AnyObject {
  var limits: BusLimits { get }
  var scheduler: any Scheduler { get }
  /// The credentials of a connection if they are cached.
  func knownCredentials(of sender: String) -> Credentials?
  /// Asks the bus for the credentials of a connection.
  func credentials(of sender: String, then: @escaping @LoopActor (Result<Credentials, DBusError>) -> Void)
  /// Calls `handler` with the owner of a bus name, and after each change; nil without an owner.
  func watchOwner(of name: String, _ handler: @escaping @LoopActor (String?) -> Void) -> Registration
  /// Sends a signal; nothing is sent without a connection to the bus.
  func emit(
    _ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue], to destination: String?)
}

/// Delays a program's calls until its credentials are known, then permits or refuses them, in order.
@LoopActor
final class AccessGate {
  private typealias Call = (message: Message, answer: Answer)

  private let rule: AccessRule
  private unowned let bus: any ObjectBus
  private let limits: BusLimits
  private let enter: @LoopActor (Message, Answer, Audience) -> Void
  private var waiting: [String: [Call]] = [:]
  /// Number of calls by programs without permission.
  var denied: UInt64 = 0
  /// Number of calls that were refused because too many waited.
  private(set) var refused: UInt64 = 0

  /// - Parameter enter: handles each permitted call, with its caller's audience.
  init(_ rule: AccessRule, _ bus: any ObjectBus, enter: @escaping @LoopActor (Message, Answer, Audience) -> Void) {
    self.rule = rule
    self.bus = bus
    limits = bus.limits
    self.enter = enter
  }

  func receive(_ message: Message, _ answer: Answer) {
    let sender = message.sender ?? ""
    if waiting[sender] != nil {
      _ = wait((message, answer), sender)
      return
    }
    if let audience = audience(whoeverMakes: message) { return enter(message, answer, audience) }
    if let known = bus.knownCredentials(of: sender) { return decide((message, answer), rule.audience(of: known)) }
    guard wait((message, answer), sender) else { return }
    bus.credentials(of: sender) { [weak self] in self?.learned(sender, try? $0.get()) }
  }

  /// The audience of a call that is permitted before its caller is known; nil if the caller must be known. Any path
  /// answers a ping, which reveals nothing about objects.
  private func audience(whoeverMakes message: Message) -> Audience? {
    if rule.isOpen(message) { return .group }
    return message.interface == StandardName.peer ? .everybody : nil
  }

  /// Lets a call wait for the caller's credentials.
  ///
  /// - Returns: false if too many calls already wait; the call is then answered with an error.
  private func wait(_ call: Call, _ sender: String) -> Bool {
    let calls = waiting[sender]?.count ?? 0
    guard calls < limits.waitingCalls, calls > 0 || waiting.count < limits.waitingCallers else {
      refused += 1
      _ = call.answer.give(.failure(.limitExceeded("Too many calls wait for the check of their callers.")))
      return false
    }
    waiting[sender, default: []].append(call)
    return true
  }

  /// Handles the credentials of a program: its waiting calls are permitted or refused.
  ///
  /// - Parameter credentials: nil if the bus could not provide them; the program then belongs to no group.
  private func learned(_ sender: String, _ credentials: Credentials?) {
    let audience = credentials.map(rule.audience) ?? .everybody
    for call in waiting.removeValue(forKey: sender) ?? [] { decide(call, audience) }
  }

  private func decide(_ call: Call, _ audience: Audience) {
    if audience == .group { return enter(call.message, call.answer, .group) }
    if let open = self.audience(whoeverMakes: call.message) { return enter(call.message, call.answer, open) }
    // Of the methods, a viewer may call only those that the object tree finds to be for viewers.
    if audience == .viewers || AccessRule.looks(call.message.interface, call.message.member) {
      return enter(call.message, call.answer, audience)
    }
    denied += 1
    _ = call.answer.give(.failure(.denied(rule.refusal)))
  }
}

/// Decides which programs may call, and which may only read. The service checks again what the bus's policy has
/// decided, because the policy may be missing or wrong. The policy also cannot distinguish properties.
public struct AccessRule: Sendable {
  /// Whether a call is passed to its method without a check of the caller, because the method checks the caller itself.
  public let isOpen: @Sendable (Message) -> Bool
  /// Whether a call that `isOpen` permits costs points of its caller's budget, unless the caller is exempt:
  /// ``ObjectTree/exempt(_:)``. Other open calls cost nothing.
  public let isCharged: @Sendable (Message) -> Bool
  /// Whether a program with these credentials belongs to the group: it may call methods, set properties and read
  /// everything.
  public let allows: @Sendable (Credentials) -> Bool
  /// Whether a program with these credentials, outside the group, is a viewer: it may read items for viewers, and call
  /// the methods that are for viewers.
  public let views: @Sendable (Credentials) -> Bool
  /// The error message for other programs.
  public let refusal: String

  public init(
    refusal: String, isOpen: @escaping @Sendable (Message) -> Bool = { _ in false },
    isCharged: @escaping @Sendable (Message) -> Bool = { _ in false },
    views: @escaping @Sendable (Credentials) -> Bool = { _ in false },
    allows: @escaping @Sendable (Credentials) -> Bool
  ) {
    self.refusal = refusal
    self.isOpen = isOpen
    self.isCharged = isCharged
    self.views = views
    self.allows = allows
  }

  /// The audience to which a program with these credentials belongs.
  func audience(of caller: Credentials) -> Audience {
    allows(caller) ? .group : views(caller) ? .viewers : .everybody
  }

  /// Whether a call only reads: introspection, properties, or the list of objects. Every program may read, and receives
  /// the data for its audience.
  static func looks(_ interface: String?, _ member: String?) -> Bool {
    switch interface {
    case StandardName.introspectable, StandardName.objectManager: true
    case StandardName.properties: member != "Set"
    default: false
    }
  }
}

/// The programs that may read an item on the bus. A method has an audience of its own, usually the group, regardless of
/// that of its interface.
public enum Audience: String, Hashable, Sendable {
  /// Every program that the bus permits.
  case everybody
  /// Programs that may observe the service but read no content: with the service's rule, the group `earshot-view`.
  case viewers = "view"
  /// Programs that the access rule permits: with the service's rule, root, the service's own user and its group.
  case group

  /// Whether a program of this audience may read items whose audience is `other`.
  func maySee(_ other: Audience) -> Bool {
    switch self {
    case .group: true
    case .viewers: other != .group
    case .everybody: other == .everybody
    }
  }
}

/// The user, process and groups of a connection, which the bus received from the kernel.
public struct Credentials: Hashable, Sendable {
  public let uid: UInt32
  /// The process ID; nil if the bus does not report it.
  public let pid: UInt32?
  /// All groups, including the primary one; empty if the bus does not report them.
  public let gids: [UInt32]

  public init(uid: UInt32, pid: UInt32?, gids: [UInt32]) {
    self.uid = uid
    self.pid = pid
    self.gids = gids
  }
}
