import CDBus

@testable import DBus

/// Messages that any program on the bus may send, from their bytes on.
extension Target {
  static let bus = [
    Target(
      name: "dbus-message",
      seeds: {
        let text = DBusValue.string("né")
        let values: [DBusValue] = [
          .byte(1), .bool(true), .double(-0.5), text, .objectPath("/org/earshot"), .signature("a{sv}"), .bytes([1, 2]),
          .array(of: "s", [text]), .array(of: "t", []), .structure([text, .uint32(7)]),
          .options(["key": .variant(.int16(-1))]),
        ]
        let messages: [Message] = [
          .call("org.earshot", "/org/earshot", "org.earshot.Wallet1", "Send", [text, text]),
          .signal("/", "org.freedesktop.DBus.Properties", "PropertiesChanged", [text, .options([:]), .strings(["a"])]),
          .reply(to: 7, at: ":1.42", values), .error(.busy("no"), to: 9, at: ":1.42"),
        ]
        return messages.compactMap { written($0).flatMap(marshalled) }
      },
      run: { bytes in
        guard let message = demarshalled(bytes), message.fault == nil else { return }
        var again = message
        again.serial = 0
        // libdbus accepts some headers that Earshot does not send: a reserved path, a name without a dot.
        guard let raw = written(again), let other = MessageReader.read(raw, limits: limits) else { return }
        promise(other.path == message.path && other.member == message.member, "a header is read as it was written")
        promise("\(other.arguments)" == "\(message.arguments)", "values are read as they were written")
      })
  ]

  /// Limits so small that a message of the fuzzer's length can exceed them.
  private static let limits: BusLimits = {
    var limits = BusLimits()
    limits.values = 500
    return limits
  }()

  private static func written(_ message: Message) -> RawMessage? {
    taken { try MessageWriter.write(message, limits: limits) }
  }

  private static func marshalled(_ raw: RawMessage) -> [UInt8]? {
    dbus_message_set_serial(raw.pointer, 1)
    var (bytes, count): (UnsafeMutablePointer<CChar>?, Int32) = (nil, 0)
    guard dbus_message_marshal(raw.pointer, &bytes, &count) != 0, let bytes else { return nil }
    defer { dbus_free(bytes) }
    return UnsafeBufferPointer(start: bytes, count: Int(count)).map { UInt8(bitPattern: $0) }
  }

  private static func demarshalled(_ bytes: UnsafeRawBufferPointer) -> Message? {
    guard let base = bytes.assumingMemoryBound(to: CChar.self).baseAddress,
      let pointer = dbus_message_demarshal(base, Int32(bytes.count), nil)
    else { return nil }
    return MessageReader.read(RawMessage(owning: pointer), limits: limits)
  }
}
