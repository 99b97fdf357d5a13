/// Checks values before they are sent. libdbus would abort the process for an invalid value, and the bus would
/// disconnect it.
struct MessageCheck {
  static let longestArray = 64 << 20
  static let deepest = 64
  /// Maximum descriptors in one message, with the bus's default configuration.
  static let mostDescriptors = 16

  /// The offset of the next value in the message's body.
  private var offset = 0
  private var depth = 0
  private var descriptors = 0

  /// Checks the arguments of a message.
  ///
  /// - Returns: the size of a message's body with these arguments, in bytes.
  @discardableResult
  static func check(_ arguments: [DBusValue], limit: Int) throws(DBusError) -> Int {
    var check = MessageCheck()
    for argument in arguments { try check.visit(argument) }
    guard Validity.isSignature(arguments.signature) else {
      throw .invalidArgs("\(arguments.signature.debugDescription) is not a valid signature of arguments.")
    }
    guard check.offset <= limit else {
      throw .limitExceeded("A message of \(check.offset) bytes exceeds the limit of \(limit).")
    }
    return check.offset
  }

  static func checkHeader(_ message: Message) throws(DBusError) {
    try require(message.destination, "a bus name", Validity.isBusName)
    try require(message.path?.string, "an object path", Validity.isPath)
    try require(message.interface, "an interface's name", Validity.isInterface)
    try require(message.member, "a member's name", Validity.isMember)
    try require(message.errorName, "an error's name", Validity.isErrorName)
  }

  private static func require(_ text: String?, _ what: String, _ isValid: (String) -> Bool) throws(DBusError) {
    guard let text, !isValid(text) else { return }
    throw .invalidArgs("\(String(text.prefix(300)).debugDescription) is not \(what).")
  }

  private mutating func visit(_ value: DBusValue) throws(DBusError) {
    switch value {
    case .byte: take(1, alignedTo: 1)
    case .int16, .uint16: take(2, alignedTo: 2)
    case .bool, .int32, .uint32: take(4, alignedTo: 4)
    case .int64, .uint64, .double: take(8, alignedTo: 8)
    case .string(let text): try visit(text: text)
    case .objectPath(let path): take(path.string.utf8.count + 5, alignedTo: 4)
    case .signature(let signature): try visit(signature: signature)
    case .descriptor(let descriptor): try visit(descriptor)
    case .bytes(let bytes):
      take(4 + bytes.count, alignedTo: 4)
      try Self.checkArray(bytes.count)
    case .array(let element, let elements): try visit(elements, of: element)
    case .structure(let members): try visit(members: members)
    case .dictionary(let key, let value, let entries): try visit(entries, key: key, value: value)
    case .variant(let inner): try visit(inner: inner)
    }
  }

  private mutating func take(_ size: Int, alignedTo alignment: Int) {
    offset = (offset + alignment - 1) / alignment * alignment + size
  }

  private mutating func visit(text: String) throws(DBusError) {
    if let scalar = BusText.firstRefused(in: text.utf8) {
      throw .invalidArgs("A D-Bus string cannot contain \(scalar).")
    }
    take(text.utf8.count + 5, alignedTo: 4)
  }

  private mutating func visit(signature: String) throws(DBusError) {
    guard Validity.isSignature(signature) else {
      throw .invalidArgs("\(String(signature.prefix(300)).debugDescription) is not a signature.")
    }
    take(signature.utf8.count + 2, alignedTo: 1)
  }

  private mutating func visit(_ descriptor: FileDescriptor) throws(DBusError) {
    guard descriptor.raw >= 0 else { throw .invalidArgs("The descriptor is closed.") }
    descriptors += 1
    guard descriptors <= Self.mostDescriptors else {
      throw .limitExceeded("A message carries at most \(Self.mostDescriptors) descriptors.")
    }
    take(4, alignedTo: 4)
  }

  private mutating func visit(members: [DBusValue]) throws(DBusError) {
    guard !members.isEmpty else { throw .invalidArgs("A structure on the bus has at least one member.") }
    try enter()
    take(0, alignedTo: 8)
    for member in members { try visit(member) }
    depth -= 1
  }

  private mutating func visit(_ elements: [DBusValue], of element: String) throws(DBusError) {
    try Self.checkType(element)
    try enter()
    take(4, alignedTo: 4)
    take(0, alignedTo: Self.alignment(element))
    let start = offset
    for value in elements {
      guard value.signature == element else {
        throw .invalidArgs("An array of \(element) cannot hold a value of type \(value.signature).")
      }
      try visit(value)
    }
    try Self.checkArray(offset - start)
    depth -= 1
  }

  private mutating func visit(_ entries: [DBusEntry], key: String, value: String) throws(DBusError) {
    try Self.checkType(value)
    guard key.utf8.count == 1, Validity.isSingleType("a{\(key)\(value)}") else {
      throw .invalidArgs("\(key.debugDescription) cannot be the type of a dictionary's key.")
    }
    try enter()
    take(4, alignedTo: 4)
    take(0, alignedTo: 8)
    let start = offset
    for entry in entries {
      let (found, held) = (entry.key.signature, entry.value.signature)
      guard found == key, held == value else {
        throw .invalidArgs("A dictionary of \(key) to \(value) cannot hold an entry of \(found) to \(held).")
      }
      try enter()
      take(0, alignedTo: 8)
      try visit(entry.key)
      try visit(entry.value)
      depth -= 1
    }
    try Self.checkArray(offset - start)
    depth -= 1
  }

  private mutating func visit(inner: DBusValue) throws(DBusError) {
    try enter()
    // The depth is checked before the signature, whose computation is recursive.
    let signature = inner.signature
    try Self.checkType(signature)
    take(signature.utf8.count + 2, alignedTo: 1)
    try visit(inner)
    depth -= 1
  }

  private mutating func enter() throws(DBusError) {
    depth += 1
    guard depth <= Self.deepest else { throw .limitExceeded("Values may be nested at most \(Self.deepest) deep.") }
  }

  private static func checkType(_ signature: String) throws(DBusError) {
    guard Validity.isSingleType(signature) else {
      throw .invalidArgs("\(String(signature.prefix(300)).debugDescription) is not one complete type.")
    }
  }

  private static func checkArray(_ size: Int) throws(DBusError) {
    guard size <= longestArray else { throw .limitExceeded("An array on the bus has at most \(longestArray) bytes.") }
  }

  private static func alignment(_ signature: String) -> Int {
    switch signature.utf8.first {
    case UInt8(ascii: "y"), UInt8(ascii: "g"), UInt8(ascii: "v"): 1
    case UInt8(ascii: "n"), UInt8(ascii: "q"): 2
    case UInt8(ascii: "x"), UInt8(ascii: "t"), UInt8(ascii: "d"), UInt8(ascii: "("), UInt8(ascii: "{"): 8
    default: 4
    }
  }
}
