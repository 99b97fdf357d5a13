import Loop

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
    /// There is no signal, because the value never changes during the object's life.
    case const
    /// There is no signal about changes.
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
  func read() throws(DBusError) -> DBusValue {
    let value = get()
    guard value.signature == signature else {
      throw .failed("Property \(name) should be of type \(signature), and is of type \(value.signature).")
    }
    return .variant(value)
  }
}
