internal import CDBus

/// Decodes the values of a received message. libdbus has checked its form (types, texts, lengths, at most 64 levels);
/// this type limits the number of values.
struct MessageReader {
  private var budget: Int

  /// The message as a value; nil for an unknown kind, which is ignored.
  static func read(_ raw: RawMessage, limits: BusLimits) -> Message? {
    let pointer = raw.pointer
    guard let kind = Message.Kind(code: dbus_message_get_type(pointer)) else { return nil }
    var message = Message(kind)
    message.serial = dbus_message_get_serial(pointer)
    let replySerial = dbus_message_get_reply_serial(pointer)
    message.replySerial = replySerial == 0 ? nil : replySerial
    message.sender = text(dbus_message_get_sender(pointer))
    message.destination = text(dbus_message_get_destination(pointer))
    message.path = text(dbus_message_get_path(pointer)).map { ObjectPath(checked: $0) }
    message.interface = text(dbus_message_get_interface(pointer))
    message.member = text(dbus_message_get_member(pointer))
    message.errorName = text(dbus_message_get_error_name(pointer))
    message.expectsReply = dbus_message_get_no_reply(pointer) == 0
    do throws(DBusError) {
      message.arguments = try arguments(pointer, budget: limits.values)
    } catch {
      message.fault = error
    }
    return message
  }

  private static func text(_ pointer: UnsafePointer<CChar>?) -> String? {
    pointer.map { String(cString: $0) }
  }

  private static func arguments(_ pointer: OpaquePointer, budget: Int) throws(DBusError) -> [DBusValue] {
    var iterator = DBusMessageIter()
    guard dbus_message_iter_init(pointer, &iterator) != 0 else { return [] }
    var reader = MessageReader(budget: budget)
    return try reader.values(&iterator)
  }

  /// All values from the iterator's position.
  private mutating func values(_ iterator: inout DBusMessageIter) throws(DBusError) -> [DBusValue] {
    var values: [DBusValue] = []
    while dbus_message_iter_get_arg_type(&iterator) != TypeCode.none {
      values.append(try value(&iterator))
      dbus_message_iter_next(&iterator)
    }
    return values
  }

  private mutating func value(_ iterator: inout DBusMessageIter) throws(DBusError) -> DBusValue {
    budget -= 1
    guard budget >= 0 else { throw .limitExceeded("The message exceeds the maximum number of values.") }
    let type = dbus_message_iter_get_arg_type(&iterator)
    switch type {
    case TypeCode.byte: return .byte(basic(&iterator, 0))
    case TypeCode.bool: return .bool(basic(&iterator, dbus_bool_t(0)) != 0)
    case TypeCode.int16: return .int16(basic(&iterator, 0))
    case TypeCode.uint16: return .uint16(basic(&iterator, 0))
    case TypeCode.int32: return .int32(basic(&iterator, 0))
    case TypeCode.uint32: return .uint32(basic(&iterator, 0))
    case TypeCode.int64: return .int64(basic(&iterator, 0))
    case TypeCode.uint64: return .uint64(basic(&iterator, 0))
    case TypeCode.double: return .double(basic(&iterator, 0))
    case TypeCode.string: return .string(string(&iterator))
    case TypeCode.objectPath: return .objectPath(ObjectPath(checked: string(&iterator)))
    case TypeCode.signature: return .signature(string(&iterator))
    case TypeCode.descriptor: return .descriptor(try descriptor(&iterator))
    case TypeCode.array: return try array(&iterator)
    case TypeCode.structure: return .structure(try inside(&iterator))
    case TypeCode.variant:
      guard let inner = try inside(&iterator).first else { throw Self.malformed }
      return .variant(inner)
    default: throw Self.malformed
    }
  }

  private static let malformed = DBusError.protocolError("The message has a value of an unknown type.")

  private mutating func inside(_ iterator: inout DBusMessageIter) throws(DBusError) -> [DBusValue] {
    var inner = DBusMessageIter()
    dbus_message_iter_recurse(&iterator, &inner)
    return try values(&inner)
  }

  private mutating func array(_ iterator: inout DBusMessageIter) throws(DBusError) -> DBusValue {
    switch dbus_message_iter_get_element_type(&iterator) {
    case TypeCode.byte: return .bytes(Self.bytes(&iterator))
    case TypeCode.dictionaryEntry: return try dictionary(&iterator)
    default: return .array(of: try Self.elementSignature(&iterator), try inside(&iterator))
    }
  }

  private mutating func dictionary(_ iterator: inout DBusMessageIter) throws(DBusError) -> DBusValue {
    // `{kv}`: the key is a basic type, whose signature is one letter.
    let signature = try Self.elementSignature(&iterator).dropFirst().dropLast()
    var entries: [DBusEntry] = []
    var inner = DBusMessageIter()
    dbus_message_iter_recurse(&iterator, &inner)
    while dbus_message_iter_get_arg_type(&inner) == TypeCode.dictionaryEntry {
      let pair = try inside(&inner)
      guard pair.count == 2, let key = pair.first, let value = pair.last else { throw Self.malformed }
      entries.append(DBusEntry(key, value))
      dbus_message_iter_next(&inner)
    }
    return .dictionary(key: String(signature.prefix(1)), value: String(signature.dropFirst()), entries)
  }

  /// The array's signature without the leading `a`.
  private static func elementSignature(_ iterator: inout DBusMessageIter) throws(DBusError) -> String {
    guard let signature = dbus_message_iter_get_signature(&iterator) else { throw malformed }
    defer { dbus_free(signature) }
    return String(String(cString: signature).dropFirst())
  }

  private static func bytes(_ iterator: inout DBusMessageIter) -> [UInt8] {
    var inner = DBusMessageIter()
    dbus_message_iter_recurse(&iterator, &inner)
    var start: UnsafePointer<UInt8>?
    var count: Int32 = 0
    dbus_message_iter_get_fixed_array(&inner, &start, &count)
    return start.map { Array(UnsafeBufferPointer(start: $0, count: Int(count))) } ?? []
  }

  private func basic<Value: BitwiseCopyable>(_ iterator: inout DBusMessageIter, _ initial: Value) -> Value {
    var value = initial
    dbus_message_iter_get_basic(&iterator, &value)
    return value
  }

  private func string(_ iterator: inout DBusMessageIter) -> String {
    var pointer: UnsafePointer<CChar>?
    dbus_message_iter_get_basic(&iterator, &pointer)
    return pointer.map { String(cString: $0) } ?? ""
  }

  private func descriptor(_ iterator: inout DBusMessageIter) throws(DBusError) -> FileDescriptor {
    // The sender chooses the index; libdbus returns -1 if the message contains no such descriptor.
    let descriptor: Int32 = basic(&iterator, -1)
    guard descriptor >= 0 else { throw .protocolError("A descriptor of the message did not arrive.") }
    return FileDescriptor(owning: descriptor)
  }
}
