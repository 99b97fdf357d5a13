import Common
import Journal
import Loop

/// The objects that other programs on the bus can call.
///
/// Handlers are called sequentially, in the order of arrival, with arguments of the declared types. The tree itself
/// answers introspection, properties, managed objects and pings.
@LoopActor
public final class ObjectTree {
  /// Called before each handler, including the tree's own; a returned error is sent instead.
  public var authorize: ((MethodCall) -> DBusError?)?

  /// Decides which programs may call and read what. Without it, every program that the bus permits may call and read
  /// everything. Set it once, before connecting.
  public var access: AccessRule? {
    didSet {
      (gate, budget) = (nil, nil)
      guard let access, let bus else { return }
      budget = CallBudget(perSecond: bus.limits.callsPerSecond)
      gate = AccessGate(access, bus) { [weak self] in self?.enter($0, $1, $2) }
    }
  }

  private var gate: AccessGate?
  private var budget: CallBudget?
  /// Number of exemptions of each program, by its unique name.
  private var exemptions: [String: Int] = [:]
  /// Number of calls by programs that had exceeded their budgets.
  private var throttled: UInt64 = 0

  /// The audience of a broadcast signal: `everybody` if there is an access rule, because the rule may not permit some
  /// of the listening programs.
  private var listeners: Audience { access == nil ? .group : .everybody }

  /// The bus connections that receive signals about objects whose audience is `Audience.group`. Each of these signals
  /// is addressed to one connection, because a broadcast signal could reach every program on the bus.
  private lazy var watchers = bus.map { Watchers($0) }

  /// Counts of refused calls.
  public var tallies: [Tally] {
    [
      Tally("DeniedCalls", gate?.denied ?? 0), Tally("RefusedCalls", gate?.refused ?? 0),
      Tally("ThrottledCalls", throttled),
      Tally("RefusedFiles", files?.refused ?? 0), Tally("LateFiles", files?.late ?? 0),
      Tally("RefusedWatchers", watchers?.refused ?? 0),
    ]
  }

  /// Reads files that callers pass.
  private(set) lazy var files = bus.map { FileReader($0.scheduler, limits: $0.limits) }

  weak var bus: (any ObjectBus)?
  /// The exported objects at each path, the latest last.
  private(set) var nodes: [ObjectPath: [ObjectNode]] = [:]
  private var managers: Set<ObjectPath> = []
  private lazy var standard = StandardInterfaces(self)

  init() {}

  // MARK: Exporting

  /// Exports an object until the result is cancelled or released. Several exports at one path form one object for other
  /// programs. If interfaces have equal names, the latest one answers.
  ///
  /// - Parameter manager: the path of an object manager that lists the object and signals its addition and removal.
  public func export(_ path: ObjectPath, interfaces: [Interface], manager: ObjectPath? = nil) -> ExportedObject {
    let node = ObjectNode(path, interfaces, manager: manager, tree: self)
    nodes[path, default: []].append(node)
    signalToManager(of: node) { interfaces, audience in
      ("InterfacesAdded", [.objectPath(path), ObjectNode.interfacesAndProperties(interfaces, for: audience)])
    }
    return ExportedObject(node, Registration { [weak self] in self?.remove(node) })
  }

  /// Exports an object manager at `path`. It lists the objects below it that were exported with it as their manager,
  /// but not an object at `path` itself.
  public func exportManager(_ path: ObjectPath) {
    managers.insert(path)
  }

  private func remove(_ node: ObjectNode) {
    node.flush()
    node.end()
    nodes[node.path]?.removeAll { $0 === node }
    if nodes[node.path]?.isEmpty == true { nodes[node.path] = nil }
    signalToManager(of: node) { interfaces, _ in
      ("InterfacesRemoved", [.objectPath(node.path), .strings(interfaces.map(\.name))])
    }
  }

  /// Signals through the object's manager that it was added or removed: to every listener with the interfaces for
  /// everybody, and to the watchers with the interfaces for the group.
  private func signalToManager(
    of node: ObjectNode, _ signal: ([Interface], Audience) -> (name: String, arguments: [DBusValue])
  ) {
    guard let manager = node.listingManager, managers.contains(manager) else { return }
    let shown = node.interfaces(for: listeners)
    let hidden = node.interfaces.filter { !listeners.maySee($0.audience) }
    for (interfaces, audience) in [(shown, listeners), (hidden, .group)] where !interfaces.isEmpty {
      guard isHeard(audience) else { continue }
      let (name, arguments) = signal(interfaces, audience)
      emit(manager, StandardName.objectManager, name, arguments, for: audience)
    }
  }

  // MARK: Signals

  /// Whether a signal for this audience has any receiver: it is broadcast, or at least one program watches.
  func isHeard(_ audience: Audience) -> Bool { listeners.maySee(audience) || watchers?.isEmpty == false }

  /// Sends a signal: as a broadcast if every listener may see it, otherwise to each watcher.
  func emit(
    _ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue], for audience: Audience
  ) {
    if listeners.maySee(audience) { return emit(path, interface, signal, arguments) }
    for name in watchers?.names ?? [] { emit(path, interface, signal, arguments, to: name) }
  }

  /// Sends signals about objects of the group to the caller's connection, until the connection ends or `unwatch` is
  /// called. Every change of a value that the caller reads after this call is signalled.
  ///
  /// - Throws: `LimitExceeded` if too many connections watch already.
  public func watch(_ call: MethodCall) throws(DBusError) {
    guard call.audience == .group else { throw .denied(access?.refusal ?? "") }
    let isFirst = watchers?.isEmpty == true
    let user: UInt32? = if case .user(let user) = call.owner { user } else { nil }
    try watchers?.add(call.sender, user: user)
    // Changes without any watcher are not signalled to the first one, which reads the values itself.
    guard isFirst else { return }
    for node in nodes.values.joined() {
      node.flush()
      if node.interfaces.contains(where: { !listeners.maySee($0.audience) }) { node.learn() }
    }
  }

  /// Stops sending these signals to the caller's connection.
  public func unwatch(_ call: MethodCall) { watchers?.remove(call.sender) }

  func emit(
    _ path: ObjectPath, _ interface: String, _ signal: String, _ arguments: [DBusValue], to destination: String? = nil
  ) {
    bus?.emit(path, interface, signal, arguments, to: destination)
  }

  // MARK: Answering

  func receive(_ message: Message, _ answer: Answer) {
    guard affords(message) else {
      throttled += 1
      _ = answer.give(.failure(.limitExceeded("This program exceeds its budget of calls: see [Bus] CallsPerSecond.")))
      return
    }
    if let gate { gate.receive(message, answer) } else { enter(message, answer, .group) }
  }

  /// Whether the caller's budget covers the call. Calls that are open to bluetoothd cost nothing, because a phone
  /// causes them.
  private func affords(_ message: Message) -> Bool {
    guard let access, let bus else { return true }
    let sender = message.sender ?? ""
    if access.isOpen(message), !access.isCharged(message) || exemptions[sender] != nil { return true }
    return budget?.take(CallBudget.price(of: message), of: sender, at: bus.scheduler.now) ?? true
  }

  /// Lets the calls that `AccessRule.isCharged` charges cost one program nothing, until the result is cancelled or
  /// released. The budgets of other programs do not change.
  ///
  /// - Parameter program: the unique name of the program.
  public func exempt(_ program: String) -> Registration {
    exemptions[program, default: 0] += 1
    return Registration { [weak self] in
      guard let self, let count = self.exemptions[program] else { return }
      self.exemptions[program] = count > 1 ? count - 1 : nil
    }
  }

  /// Charges a program for the size of an answer.
  func charge(_ program: String?, forBytes size: Int) {
    let points = size / CallBudget.bytesPerPoint
    guard points > 0, let program, let bus else { return }
    budget?.charge(points, to: program, at: bus.scheduler.now)
  }

  private func enter(_ message: Message, _ answer: Answer, _ audience: Audience) {
    do throws(DBusError) {
      try handle(message, answer, audience)
    } catch {
      _ = answer.give(.failure(error))
    }
  }

  private func handle(_ message: Message, _ answer: Answer, _ audience: Audience) throws(DBusError) {
    guard let path = message.path, let member = message.member else {
      throw .unknownMethod("The call lacks an object path or a method name.")
    }
    if let fault = message.fault { throw fault }
    let (interface, method) = try find(path, message.interface, member, audience)
    guard audience.maySee(method.audience) else {
      gate?.denied += 1
      throw .denied(access?.refusal ?? "")
    }
    if method.onlyAnswers, !answer.isExpected { return }
    guard message.arguments.signature == method.in.signature else {
      let given = message.arguments.isEmpty ? "none" : "\(message.arguments.signature)"
      throw .invalidArgs("\(member) takes \(method.in.inWords), but was given \(given).")
    }
    let call = MethodCall(
      message, at: path, interface: interface.name, method: method, audience: audience, answer: answer, files: files,
      user: message.sender.flatMap { bus?.knownCredentials(of: $0)?.uid })
    if let refusal = authorize?(call) { return call.fail(refusal) }
    method.handler(call)
  }

  private func find(
    _ path: ObjectPath, _ name: String?, _ member: String, _ audience: Audience
  ) throws(DBusError) -> (Interface, Method) {
    let interfaces = interfaces(at: path, for: audience)
    for interface in interfaces where name == nil || interface.name == name {
      if let method = interface.method(member) { return (interface, method) }
    }
    guard exists(path, for: audience) else { throw .unknownObject("There is no object \(path.string).") }
    if let name, !interfaces.contains(where: { $0.name == name }) {
      throw .unknownInterface("The object \(path.string) has no interface \(name).")
    }
    throw .unknownMethod("The object \(path.string) has no method \(member)\(name.map { " in \($0)" } ?? "").")
  }

  /// The error for a program outside the group that reads a property; counts it.
  func refusal(of property: Property) -> DBusError {
    gate?.denied += 1
    return DBusError(.accessDenied, "The property \(property.name) is not public. \(access?.refusal ?? "")")
  }

  // MARK: Lookup

  /// The interface of this name at `path`, without the standard interfaces.
  func interface(_ name: String, at path: ObjectPath) -> (node: ObjectNode, interface: Interface)? {
    for node in (nodes[path] ?? []).reversed() {
      if let interface = node.interface(name) { return (node, interface) }
    }
    return nil
  }

  /// All interfaces at `path` that the audience may read: those of the latest export first, and the standard interfaces
  /// last.
  func interfaces(at path: ObjectPath, for audience: Audience) -> [Interface] {
    guard exists(path, for: audience) else { return [standard.peer] }
    var interfaces: [Interface] = []
    for node in (nodes[path] ?? []).reversed() {
      for interface in node.interfaces
      where audience.maySee(interface.audience) && !interfaces.contains(where: { $0.name == interface.name }) {
        interfaces.append(interface)
      }
    }
    if !interfaces.isEmpty { interfaces.append(standard.properties) }
    if managers.contains(path) { interfaces.append(standard.objectManager) }
    return interfaces + [standard.introspectable, standard.peer]
  }

  /// The interfaces of all objects that every program may read, sorted by path.
  public func publicInterfaces() -> [(path: ObjectPath, interface: Interface)] {
    let paths = nodes.keys.sorted { $0.string < $1.string }
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    return paths.flatMap { path -> [(path: ObjectPath, interface: Interface)] in
      (nodes[path] ?? []).flatMap { $0.interfaces(for: .everybody) }.map { (path, $0) }
    }
  }

  /// The sorted names of the elements directly below `path` that lead to an object for the audience.
  func children(of path: ObjectPath, for audience: Audience) -> [String] {
    let depth = path.elements.count
    var names: Set<String> = []
    for other in paths(for: audience) where other != path && other.isWithin(path) {
      names.insert(String(other.elements[depth]))
    }
    return names.sorted()
  }

  /// The objects that the manager at `path` lists for the audience, sorted by path.
  func managed(by manager: ObjectPath, for audience: Audience) -> [ObjectNode] {
    nodes.values.joined().filter { $0.listingManager == manager && $0.isVisible(to: audience) }
      .sorted { $0.path.string < $1.path.string }
  }

  /// The paths with objects for the audience. A manager without another object at its path is visible only to the
  /// group; other programs see the objects below it.
  private func paths(for audience: Audience) -> [ObjectPath] {
    let visible = nodes.filter { $0.value.contains { $0.isVisible(to: audience) } }.map(\.key)
    return audience == .group ? visible + managers : visible
  }

  /// Whether an object for the audience exists at `path` or below it.
  private func exists(_ path: ObjectPath, for audience: Audience) -> Bool {
    if path == .root || nodes[path]?.contains(where: { $0.isVisible(to: audience) }) == true { return true }
    return paths(for: audience).contains { $0.isWithin(path) }
  }
}
