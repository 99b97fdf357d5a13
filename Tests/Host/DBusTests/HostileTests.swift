import DBus
import Loop
import TestSupport
import Testing

/// Malformed and excessive messages, which any program on the bus may send.
struct HostileTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Random D-Bus values of random types are echoed unchanged", arguments: [1, 2, 3])
  @LoopActor
  func randomValues(_ seed: UInt64) async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "v")]))
    var random = RandomValues(seed)
    for _ in 0..<200 {
      let value = DBusValue.variant(random.value(depth: 0))
      #expect(try await table.call("Echo", [value]) == [value])
    }
    object.cancel()
  }

  @Test("A D-Bus message with too many values is refused, and the next message is served")
  @LoopActor
  func tooManyValues() async throws {
    var limits = BusLimits()
    limits.values = 100
    let table = try await Table(limits: limits)
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "v")]))
    let signals = Mailbox<Void>()
    let subscription = table.service.subscribe(SignalMatch(member: "M")) { _ in signals.put(()) }
    let numbers = DBusValue.array(of: "u", (0..<98).map { .uint32($0) })
    #expect(try await table.call("Echo", [.variant(numbers)]) == [.variant(numbers)])
    let more = DBusValue.array(of: "u", (0..<99).map { .uint32($0) })
    #expect(await table.error("Echo", [.variant(more)])?.is(.limitExceeded) == true)
    table.client.emit("/", "i.I", "M", [.variant(more)])
    #expect(try await table.call("Echo", [.variant(numbers)]) == [.variant(numbers)])
    #expect(signals.all.isEmpty)
    subscription.cancel()
    object.cancel()
  }

  @Test("The standard D-Bus methods answer any wrong argument with an error")
  @LoopActor
  func standardMethods() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, properties: [Property("P", "v", get: { .variant(.byte(1)) })]))
    table.service.objects.exportManager(Table.path)
    let properties = "org.freedesktop.DBus.Properties"
    let calls: [(String, String, [DBusValue])] = [
      (properties, "Get", []), (properties, "Get", [.string("")]), (properties, "Get", [.byte(1), .byte(1)]),
      (properties, "Get", [.string("\u{202E}"), .string("'\"<")]),
      (properties, "GetAll", [.string("not an interface")]),
      (properties, "Set", [.string(Table.interface), .string("P")]),
      (properties, "Set", [.string(Table.interface), .string("P"), .variant(.variant(.byte(1)))]),
      (properties, "PropertiesChanged", [.string(""), .options([:]), .strings([])]),
      ("org.freedesktop.DBus.ObjectManager", "GetManagedObjects", [.byte(1)]),
      ("org.freedesktop.DBus.Introspectable", "Introspect", [.byte(1)]),
      ("org.freedesktop.DBus.Peer", "Ping", [.byte(1)]),
    ]
    for (interface, method, arguments) in calls {
      let error = await table.error(method, arguments, on: interface)
      #expect(error?.message.isEmpty == false, "\(method)")
    }
    let get = [DBusValue.string(Table.interface), .string("P")]
    #expect(try await table.call("Get", get, on: properties) == [.variant(.variant(.byte(1)))])
    object.cancel()
  }
}

/// Random values that a seed determines.
private struct RandomValues {
  private var state: UInt64

  init(_ seed: UInt64) {
    state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
  }

  private mutating func number(_ bound: Int) -> Int {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return Int(state % UInt64(bound))
  }

  private mutating func text() -> String {
    let scalars: [Unicode.Scalar] = ["a", "'", "ß", "\u{1}", "\u{7F}", "漢", "👋", "\u{FEFF}", "\u{10FFFD}"]
    var text = ""
    for _ in 0..<number(12) { text.unicodeScalars.append(scalars[number(scalars.count)]) }
    return text
  }

  private mutating func basic() -> DBusValue {
    switch number(11) {
    case 0: .bool(number(2) == 0)
    case 1: .int16(Int16(truncatingIfNeeded: number(1 << 20)))
    case 2: .uint16(UInt16(truncatingIfNeeded: number(1 << 20)))
    case 3: .int32(Int32(truncatingIfNeeded: number(1 << 40)))
    case 4: .uint32(UInt32(truncatingIfNeeded: number(1 << 40)))
    case 5: .int64(Int64(number(1 << 60)))
    case 6: .uint64(UInt64(number(1 << 60)))
    case 7: .double(Double(number(1 << 60)) / 3)
    case 8: .objectPath(ObjectPath.root.child(ObjectPath.escape(text())))
    case 9: .signature(String(repeating: "as", count: number(9)))
    default: .string(text())
    }
  }

  mutating func value(depth: Int) -> DBusValue {
    guard depth < 6 else { return basic() }
    switch number(8) {
    case 0:
      return .structure((0...number(3)).map { _ in value(depth: depth + 1) })
    case 1:
      let element = value(depth: depth + 1)
      return .array(of: element.signature, Array(repeating: element, count: number(3)))
    case 2:
      let (key, element) = (basic(), value(depth: depth + 1))
      return .dictionary(
        key: key.signature, value: element.signature,
        Array(repeating: DBusEntry(key, element), count: number(3)))
    case 3:
      return .variant(value(depth: depth + 1))
    case 4:
      return .bytes((0..<number(20)).map { _ in UInt8(number(256)) })
    default:
      return basic()
    }
  }
}
