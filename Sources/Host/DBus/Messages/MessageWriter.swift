internal import CDBus

/// Creates libdbus messages from values that passed `MessageCheck`. Only an allocation can still fail.
struct MessageWriter {
  static func write(_ message: Message, limits: BusLimits) throws(DBusError) -> RawMessage {
    try MessageCheck.checkHeader(message)
    let arguments = arguments(of: message)
    let size = try MessageCheck.check(arguments, limit: limits.sentMessage)
    guard let pointer = dbus_message_new(message.kind.code) else { throw noMemory }
    let raw = RawMessage(owning: pointer, size: size)
    guard writeHeader(message, pointer) else { throw noMemory }
    var iterator = DBusMessageIter()
    dbus_message_iter_init_append(pointer, &iterator)
    for argument in arguments {
      guard append(argument, to: &iterator) else { throw noMemory }
    }
    return raw
  }

  /// The arguments to send. Replies, errors and signals get U+FFFD for each code point that a D-Bus string cannot hold.
  /// A method call with such a code point is refused instead (`MessageCheck`): a changed argument would request
  /// something else.
  private static func arguments(of message: Message) -> [DBusValue] {
    let isTold = message.kind != .methodCall && !message.arguments.allSatisfy(\.hasSendableTexts)
    return isTold ? message.arguments.map(\.sendable) : message.arguments
  }

  private static let noMemory = DBusError.failed("Out of memory or file descriptors while writing a message.")

  private static func writeHeader(_ message: Message, _ pointer: OpaquePointer) -> Bool {
    dbus_message_set_no_reply(pointer, message.expectsReply ? 0 : 1)
    if let serial = message.replySerial, dbus_message_set_reply_serial(pointer, serial) == 0 { return false }
    return set(message.destination) { dbus_message_set_destination(pointer, $0) }
      && set(message.path?.string) { dbus_message_set_path(pointer, $0) }
      && set(message.interface) { dbus_message_set_interface(pointer, $0) }
      && set(message.member) { dbus_message_set_member(pointer, $0) }
      && set(message.errorName) { dbus_message_set_error_name(pointer, $0) }
  }

  private static func set(_ text: String?, _ body: (UnsafePointer<CChar>) -> dbus_bool_t) -> Bool {
    guard let text else { return true }
    return text.withCString { body($0) != 0 }
  }

  private static func append(_ value: DBusValue, to iterator: inout DBusMessageIter) -> Bool {
    switch value {
    case .byte(let value): basic(value, TypeCode.byte, &iterator)
    case .bool(let value): basic(dbus_bool_t(value ? 1 : 0), TypeCode.bool, &iterator)
    case .int16(let value): basic(value, TypeCode.int16, &iterator)
    case .uint16(let value): basic(value, TypeCode.uint16, &iterator)
    case .int32(let value): basic(value, TypeCode.int32, &iterator)
    case .uint32(let value): basic(value, TypeCode.uint32, &iterator)
    case .int64(let value): basic(value, TypeCode.int64, &iterator)
    case .uint64(let value): basic(value, TypeCode.uint64, &iterator)
    case .double(let value): basic(value, TypeCode.double, &iterator)
    case .string(let text): string(text, TypeCode.string, &iterator)
    case .objectPath(let path): string(path.string, TypeCode.objectPath, &iterator)
    case .signature(let signature): string(signature, TypeCode.signature, &iterator)
    case .descriptor(let descriptor): basic(descriptor.raw, TypeCode.descriptor, &iterator)
    case .bytes(let bytes): container(TypeCode.array, "y", &iterator) { fixed(bytes, &$0) }
    case .array(let element, let elements): container(TypeCode.array, element, &iterator) { all(elements, &$0) }
    case .structure(let members): container(TypeCode.structure, nil, &iterator) { all(members, &$0) }
    case .dictionary(let key, let value, let entries):
      container(TypeCode.array, "{\(key)\(value)}", &iterator) { array in
        entries.allSatisfy { entry in
          container(TypeCode.dictionaryEntry, nil, &array) {
            append(entry.key, to: &$0) && append(entry.value, to: &$0)
          }
        }
      }
    case .variant(let inner):
      container(TypeCode.variant, inner.signature, &iterator) { append(inner, to: &$0) }
    }
  }

  private static func all(_ values: [DBusValue], _ iterator: inout DBusMessageIter) -> Bool {
    for value in values {
      guard append(value, to: &iterator) else { return false }
    }
    return true
  }

  private static func basic<Value: BitwiseCopyable>(_ value: Value, _ type: Int32, _ iterator: inout DBusMessageIter)
    -> Bool
  {
    withUnsafePointer(to: value) { dbus_message_iter_append_basic(&iterator, type, $0) != 0 }
  }

  private static func string(_ text: String, _ type: Int32, _ iterator: inout DBusMessageIter) -> Bool {
    text.withCString { pointer in
      withUnsafePointer(to: pointer) { dbus_message_iter_append_basic(&iterator, type, $0) != 0 }
    }
  }

  private static func fixed(_ bytes: [UInt8], _ iterator: inout DBusMessageIter) -> Bool {
    bytes.withUnsafeBufferPointer { buffer in
      guard let base = buffer.baseAddress, !buffer.isEmpty else { return true }
      return withUnsafePointer(to: base) {
        dbus_message_iter_append_fixed_array(&iterator, TypeCode.byte, $0, Int32(buffer.count)) != 0
      }
    }
  }

  private static func container(
    _ type: Int32, _ signature: String?, _ iterator: inout DBusMessageIter,
    _ fill: (inout DBusMessageIter) -> Bool
  ) -> Bool {
    var inner = DBusMessageIter()
    let opened =
      if let signature {
        signature.withCString { dbus_message_iter_open_container(&iterator, type, $0, &inner) }
      } else {
        dbus_message_iter_open_container(&iterator, type, nil, &inner)
      }
    guard opened != 0 else { return false }
    guard fill(&inner) else {
      dbus_message_iter_abandon_container(&iterator, &inner)
      return false
    }
    return dbus_message_iter_close_container(&iterator, &inner) != 0
  }
}

extension Message.Kind {
  var code: Int32 {
    switch self {
    case .methodCall: DBUS_MESSAGE_TYPE_METHOD_CALL
    case .methodReturn: DBUS_MESSAGE_TYPE_METHOD_RETURN
    case .error: DBUS_MESSAGE_TYPE_ERROR
    case .signal: DBUS_MESSAGE_TYPE_SIGNAL
    }
  }

  init?(code: Int32) {
    switch code {
    case DBUS_MESSAGE_TYPE_METHOD_CALL: self = .methodCall
    case DBUS_MESSAGE_TYPE_METHOD_RETURN: self = .methodReturn
    case DBUS_MESSAGE_TYPE_ERROR: self = .error
    case DBUS_MESSAGE_TYPE_SIGNAL: self = .signal
    default: return nil
    }
  }
}
