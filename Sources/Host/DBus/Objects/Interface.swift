import Loop

/// An interface of an object: methods, properties and signals, with their code and documentation.
public struct Interface: Sendable {
  public let name: String
  public let documentation: String
  /// The programs that see the interface of an object. An object with only interfaces for the group does not exist for
  /// other programs.
  public let audience: Audience
  public let methods: [Method]
  public let properties: [Property]
  public let signals: [Signal]

  /// - Parameter audience: an interface for everybody must be declared explicitly.
  public init(
    _ name: String, documentation: String = "", audience: Audience = .group, methods: [Method] = [],
    properties: [Property] = [], signals: [Signal] = []
  ) {
    precondition(Validity.isInterface(name), "not an interface's name: \(name)")
    self.name = name
    self.documentation = documentation
    self.audience = audience
    self.methods = methods
    self.properties = properties
    self.signals = signals
  }

  /// How `PropertiesChanged` reports a property of this interface (`EmitsChangedSignal`). A broadcast signal never
  /// contains the value of a property for the group.
  func signalled(_ property: Property) -> Property.Emits {
    property.emits == .changes && !audience.maySee(property.audience) ? .invalidates : property.emits
  }

  func method(_ name: String) -> Method? { methods.first { $0.name == name } }
  public func property(_ name: String) -> Property? { properties.first { $0.name == name } }
}

/// A method that other programs can call.
public struct Method: Sendable {
  public typealias Handler = @LoopActor (MethodCall) -> Void

  public let name: String
  public let `in`: [Argument]
  public let out: [Argument]
  public let documentation: String
  /// The names of the errors that the method may return.
  public let errors: [String]
  /// The programs that may call the method.
  public let audience: Audience
  let handler: Handler
  /// Whether the method only returns data and has no side effect. A call that expects no answer is then not executed.
  var onlyAnswers = false

  /// - Parameters:
  ///   - audience: a method for others than the group must be declared explicitly.
  ///   - handler: called on the loop for each call, in order of arrival; it answers immediately or later.
  public init(
    _ name: String, in: [Argument] = [], out: [Argument] = [], documentation: String = "",
    errors: [DBusError.Name] = [], audience: Audience = .group, handler: @escaping Handler
  ) {
    precondition(Validity.isMember(name), "not a method's name: \(name)")
    self.name = name
    self.in = `in`
    self.out = out
    self.documentation = documentation
    self.errors = errors.map(\.rawValue)
    self.audience = audience
    self.handler = handler
  }

  /// - Parameters:
  ///   - audience: as in the other initializer.
  ///   - body: answers immediately, with the returned values or the thrown error.
  public init(
    _ name: String, in: [Argument] = [], out: [Argument] = [], documentation: String = "",
    errors: [DBusError.Name] = [], audience: Audience = .group,
    returning body: @escaping @LoopActor (MethodCall) throws(DBusError) -> [DBusValue]
  ) {
    self.init(
      name, in: `in`, out: out, documentation: documentation, errors: errors, audience: audience,
      handler: { call in
        do throws(DBusError) {
          call.reply(try body(call))
        } catch {
          call.fail(error)
        }
      })
  }

  /// A copy of the method that is marked as having no side effect (`onlyAnswers`).
  func answeringOnly() -> Method {
    var method = self
    method.onlyAnswers = true
    return method
  }
}

/// A value of an object that other programs can read, and set if it is writable.
public struct Property: Sendable {
  public enum Access: String, Sendable {
    case read
    case readWrite = "readwrite"
  }

  /// The content of the signal about a changed value, as in `EmitsChangedSignal`.
  public enum Emits: String, Sendable {
    /// The signal contains the new value.
    case changes = "true"
    /// The signal contains only the name.
    case invalidates
    /// No signal is sent: the value never changes during the object's life.
    case const
    /// No signal is sent, although the value may change.
    case none = "false"
  }

  public typealias Getter = @LoopActor () -> DBusValue
  public typealias Setter = @LoopActor (DBusValue) throws(DBusError) -> Void

  public let name: String
  public let signature: String
  public let documentation: String
  /// The programs that may read the value. A broadcast signal contains the value only if they are everybody.
  public let audience: Audience
  public let emits: Emits
  let get: Getter
  let set: Setter?

  public var access: Access { self.set == nil ? .read : .readWrite }

  /// - Parameters:
  ///   - signature: one complete type, of all values of `get` and `set`.
  ///   - audience: a property for everybody must be declared explicitly.
  ///   - set: nil for a read-only property. When it returns, the change is signalled.
  public init(
    _ name: String, _ signature: String, documentation: String = "", audience: Audience = .group,
    emits: Emits = .changes, get: @escaping Getter, set: Setter? = nil
  ) {
    precondition(Validity.isMember(name), "not a property's name: \(name)")
    precondition(Validity.isSingleType(signature), "not a property's type: \(signature)")
    self.name = name
    self.signature = signature
    self.documentation = documentation
    self.audience = audience
    self.emits = emits
    self.get = get
    self.set = set
  }

  /// The value in a variant.
  ///
  /// - Throws: `Failed` if the value is not of the property's type.
  @LoopActor
  public func read() throws(DBusError) -> DBusValue {
    let value = get()
    guard value.signature == signature else {
      throw .failed("Property \(name) should be of type \(signature), and is of type \(value.signature).")
    }
    return .variant(value)
  }
}

/// A signal that an object may send.
public struct Signal: Hashable, Sendable {
  public let name: String
  public let arguments: [Argument]
  public let documentation: String

  public init(_ name: String, _ arguments: [Argument] = [], documentation: String = "") {
    precondition(Validity.isMember(name), "not a signal's name: \(name)")
    self.name = name
    self.arguments = arguments
    self.documentation = documentation
  }
}

/// One argument of a method or a signal.
public struct Argument: Hashable, Sendable {
  /// The name, in lower_snake_case.
  public let name: String
  /// The signature of one complete type.
  public let signature: String

  public init(_ name: String, _ signature: String) {
    self.name = name
    self.signature = signature
  }
}

extension [Argument] {
  var signature: String { reduce(into: "") { $0 += $1.signature } }

  /// The arguments, formatted for a sentence: `name (s), level (u)`.
  var inWords: String {
    isEmpty ? "no arguments" : map { "\($0.name) (\($0.signature))" }.joined(separator: ", ")
  }
}
