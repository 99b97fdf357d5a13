/// Reads a stored property, also a private one, of a value or object by reflection; nil if it does not exist or has
/// another type.
public func storedProperty<Value>(_ name: String, of subject: Any, as type: Value.Type = Value.self) -> Value? {
  Mirror(reflecting: subject).children.first { $0.label == name }?.value as? Value
}
