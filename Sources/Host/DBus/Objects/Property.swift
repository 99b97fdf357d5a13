import Loop

/// A value of an object that other programs can read, and perhaps set.
public struct Property: Sendable {
  public enum Access: String, Sendable {
    case read
    case readWrite = "readwrite"
  }

  /// What a signal says when the value changes, as `EmitsChangedSignal` has it.
  public enum Emits: String, Sendable {
    /// The new value.
    case changes = "true"
    /// That there is one.
    case invalidates
    /// There is no signal: the value never changes while the object is there.
    case const
    /// There is no signal.
    case none = "false"
  }

  public typealias Getter = @LoopActor () -> DBusValue
  public typealias Setter = @LoopActor (DBusValue) throws(DBusError) -> Void

  public let name: String
  public let signature: String
  public let documentation: String
  /// The programs that may read the value. A signal that every program may hear carries it only where that is everybody.
  public let audience: Audience
  public let emits: Emits
  let get: Getter
  let set: Setter?

  public var access: Access { self.set == nil ? .read : .readWrite }

  /// - Parameters:
  ///   - signature: one complete type; `get` returns values of it, `set` is given no others.
  ///   - audience: a property for everybody has to be called one.
  ///   - set: without it the property can only be read. When it returns, the change is signalled.
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
  /// - Throws: `Failed` where the value is not of the property's type.
  @LoopActor
  func read() throws(DBusError) -> DBusValue {
    let value = get()
    guard value.signature == signature else {
      throw .failed("Property \(name) should be of type \(signature), and is of type \(value.signature).")
    }
    return .variant(value)
  }
}
