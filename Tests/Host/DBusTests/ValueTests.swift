import DBus
import Foundation
import Loop
import TestSupport
import Testing

/// Values over the bus and back, and values that must not reach it.
struct ValueTests {
  init() { EventLoop.shared.runInBackground() }

  /// Sample values of each D-Bus type, with the expected signatures.
  static let values: [(DBusValue, String)] = [
    (.byte(255), "y"),
    (.bool(true), "b"),
    (.bool(false), "b"),
    (.int16(.min), "n"),
    (.uint16(.max), "q"),
    (.int32(.min), "i"),
    (.uint32(.max), "u"),
    (.int64(.min), "x"),
    (.uint64(.max), "t"),
    (.double(-0.1), "d"),
    (.string(""), "s"),
    (.string("Grüße 👋\u{FFFD}\u{202E}"), "s"),
    (.objectPath("/"), "o"),
    (.objectPath("/a/b_1"), "o"),
    (.signature(""), "g"),
    (.signature("a{sv}(ii)"), "g"),
    (.bytes([]), "ay"),
    (.bytes([0, 1, 255]), "ay"),
    (.array(of: "s", []), "as"),
    (.strings(["a", "b"]), "as"),
    (.array(of: "ay", [.bytes([1]), .bytes([])]), "aay"),
    (.array(of: "(sv)", [.structure([.string("x"), .variant(.uint16(1))])]), "a(sv)"),
    (.structure([.byte(1), .structure([.double(2), .bytes([3])])]), "(y(day))"),
    (.dictionary(key: "s", value: "v", []), "a{sv}"),
    (.options(["a": .bool(true), "b": .strings([])]), "a{sv}"),
    (
      .dictionary(
        key: "o", value: "a{sa{sv}}",
        [
          DBusEntry(
            .objectPath("/x"), .dictionary(key: "s", value: "a{sv}", [DBusEntry(.string("i"), .options([:]))]))
        ]),
      "a{oa{sa{sv}}}"
    ),
    (.dictionary(key: "y", value: "q", [DBusEntry(.byte(2), .uint16(3)), DBusEntry(.byte(1), .uint16(4))]), "a{yq}"),
    (.variant(.string("s")), "v"),
    (.variant(.variant(.array(of: "u", [.uint32(7)]))), "v"),
  ]

  @Test("A D-Bus value of each type has the right signature and is echoed unchanged", arguments: [0])
  @LoopActor
  func roundTrip(_: Int) async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(
      Interface(Table.interface, methods: [echo("Echo", "v")]))
    for (value, signature) in Self.values {
      #expect(value.signature == signature)
      let answer = try await table.call("Echo", [.variant(value)])
      #expect(answer == [.variant(value)])
    }
    object.cancel()
  }

  @Test("D-Bus values of all types can be arguments of one call, in order")
  @LoopActor
  func manyArguments() async throws {
    let table = try await Table()
    defer { table.close() }
    let values = Self.values.map(\.0)
    let arguments = Self.values.enumerated().map { Argument("a\($0)", $1.1) }
    let object = table.export(
      Interface(Table.interface, methods: [Method("Echo", in: arguments, out: arguments, returning: { $0.arguments })]))
    #expect(try await table.call("Echo", values) == values)
    object.cancel()
  }

  @Test("A D-Bus string and a byte array of 4 MiB are echoed unchanged")
  @LoopActor
  func large() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Text", "s"), echo("Bytes", "ay")]))
    let text = String(repeating: "äb", count: (4 << 20) / 3)
    #expect(try await table.call("Text", [.string(text)]) == [.string(text)])
    let bytes = (0..<4 << 20).map { UInt8(truncatingIfNeeded: $0) }
    #expect(try await table.call("Bytes", [.bytes(bytes)]) == [.bytes(bytes)])
    object.cancel()
  }

  @Test("A D-Bus array of 100,000 numbers is echoed unchanged")
  @LoopActor
  func manyValues() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "au")]))
    let numbers = DBusValue.array(of: "u", (0..<100_000).map { .uint32($0) })
    #expect(try await table.call("Echo", [numbers]) == [numbers])
    object.cancel()
  }

  /// Values for which libdbus would abort the process, or the bus would disconnect.
  static let refused: [(DBusValue, DBusError.Name)] = [
    (.string("a\0b"), .invalidArgs),
    (.string("\0"), .invalidArgs),
    (.string("a\u{FFFE}"), .invalidArgs),
    (.variant(.structure([.string("\u{1FFFF}")])), .invalidArgs),
    (.strings(["fine", "not\0"]), .invalidArgs),
    (.options(["key\0": .byte(1)]), .invalidArgs),
    (.options(["key": .string("\0")]), .invalidArgs),
    (.signature("("), .invalidArgs),
    (.signature("s\0"), .invalidArgs),
    (.signature("{sv}"), .invalidArgs),
    (.signature(String(repeating: "s", count: 256)), .invalidArgs),
    (.structure([]), .invalidArgs),
    (.array(of: "()", []), .invalidArgs),
    (.array(of: "", []), .invalidArgs),
    (.array(of: "ss", []), .invalidArgs),
    (.array(of: "s\0", []), .invalidArgs),
    (.array(of: "s)(s", []), .invalidArgs),
    (.array(of: "{sv}", []), .invalidArgs),
    (.array(of: "s", [.uint32(1)]), .invalidArgs),
    (.array(of: "v", [.variant(.byte(1)), .byte(1)]), .invalidArgs),
    (.array(of: "y", [.uint16(1)]), .invalidArgs),
    (.dictionary(key: "v", value: "s", []), .invalidArgs),
    (.dictionary(key: "as", value: "s", []), .invalidArgs),
    (.dictionary(key: "", value: "ss", []), .invalidArgs),
    (.dictionary(key: "s", value: "", []), .invalidArgs),
    (.dictionary(key: "s", value: "u", [DBusEntry(.string("k"), .string("v"))]), .invalidArgs),
    (.dictionary(key: "s", value: "u", [DBusEntry(.uint32(1), .uint32(1))]), .invalidArgs),
    (.variant(.structure([])), .invalidArgs),
    (nested(65) { .variant($0) }, .limitExceeded),
    (nested(33) { .structure([$0]) }, .invalidArgs),
    (nested(33) { .array(of: $0.signature, [$0]) }, .invalidArgs),
    (.bytes([UInt8](repeating: 0, count: (32 << 20) + 1)), .limitExceeded),
  ]

  static func nested(_ count: Int, _ wrap: (DBusValue) -> DBusValue) -> DBusValue {
    (0..<count).reduce(.uint16(1)) { value, _ in wrap(value) }
  }

  @Test("A value that D-Bus forbids is refused with a named error, and the connection stays open")
  @LoopActor
  func refusals() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "v")]))
    for (value, name) in Self.refused {
      #expect(await table.error("Echo", [value])?.name == name.rawValue, "\(String("\(value)".prefix(100)))")
      table.client.emit(Table.path, Table.interface, "Said", [value])
    }
    #expect(try await table.call("Echo", [.variant(.byte(1))]) == [.variant(.byte(1))])
    object.cancel()
  }

  @Test("D-Bus values at the maximum nesting depth are echoed unchanged")
  @LoopActor
  func deepest() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "v")]))
    for value in [
      Self.nested(63) { .variant($0) }, Self.nested(32) { .structure([$0]) },
      Self.nested(32) { .array(of: $0.signature, [$0]) },
    ] {
      #expect(try await table.call("Echo", [.variant(value)]).first?.unwrapped == value.unwrapped)
    }
    object.cancel()
  }

  @Test("A name that D-Bus forbids is refused with a named error, and the connection stays open")
  @LoopActor
  func badNames() async throws {
    let table = try await Table()
    defer { table.close() }
    let long = String(repeating: "a", count: 256)
    let calls: [(String, String, String)] = [
      ("", "a.b", "M"), ("no dots", "a.b", "M"), ("a.b\0", "a.b", "M"), (":", "a.b", "M"),
      ("a.b", "", "M"), ("a.b", "nodot", "M"), ("a.b", "a.b\0c", "M"), ("a.b", "a." + long, "M"),
      ("a.b", "a.b", ""), ("a.b", "a.b", "1M"), ("a.b", "a.b", "M.N"), ("a.b", "a.b", "M\0"), ("a.b", "a.b", long),
    ]
    for (destination, interface, method) in calls {
      await #expect(throws: DBusError.self) {
        _ = try await table.client.call(destination, "/", interface, method)
      }
      table.client.emit("/", interface, method)
    }
    #expect(try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping").isEmpty)
  }

  @Test("An answer that cannot be sent is replaced by an error with a sentence")
  @LoopActor
  func badAnswers() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method("Path", out: [Argument("text", "g")], returning: { _ in [.signature("(")] }),
          Method("Types", out: [Argument("text", "s")], returning: { _ in [.byte(1)] }),
          Method(
            "Fail", returning: { (_) throws(DBusError) in throw .busy("a" + String(repeating: "b", count: 2000)) }),
          Method("Odd", returning: { (_) throws(DBusError) in throw DBusError(name: "no name", message: "odd") }),
        ]))
    #expect(await table.error("Path")?.is(.failed) == true)
    #expect(await table.error("Types")?.is(.failed) == true)
    #expect(await table.error("Fail") == .busy("a" + String(repeating: "b", count: 999)))
    #expect(await table.error("Odd") == .failed("odd"))
    object.cancel()
  }
}
