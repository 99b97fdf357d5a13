import Loop
import TestSupport
import Testing

@testable import DBus

@Suite("Characters that D-Bus strings cannot contain")
struct BusTextTests {
  init() { EventLoop.shared.runInBackground() }

  /// The 66 noncharacters of Unicode.
  private static let noncharacters: [Unicode.Scalar] =
    (0xFDD0...0xFDEF).compactMap { Unicode.Scalar(UInt32($0)) }
    + (0...16).flatMap { plane in [0xFFFE, 0xFFFF].compactMap { Unicode.Scalar(UInt32(plane << 16 | $0)) } }

  private static func text(_ scalar: Unicode.Scalar) -> String {
    String(String.UnicodeScalarView(["a", scalar, "b"]))
  }

  @Test("U+0000 and the 66 noncharacters are found and named, and neighbouring code points are not")
  func found() {
    #expect(Self.noncharacters.count == 66 && Self.noncharacters.allSatisfy(\.properties.isNoncharacterCodePoint))
    for scalar in Self.noncharacters + ["\0"] {
      #expect(BusText.firstRefused(in: Self.text(scalar).utf8) != nil, "\(scalar.value)")
      #expect(BusText.sendable(Self.text(scalar)) == "a\u{FFFD}b")
      for value in [scalar.value &- 1, scalar.value + 1].compactMap({ Unicode.Scalar($0) })
      where !value.properties.isNoncharacterCodePoint && value != "\0" {
        #expect(BusText.firstRefused(in: Self.text(value).utf8) == nil, "\(value.value)")
      }
    }
    let names = [0, 0xFDD0, 0xFDEF, 0xFFFE, 0x1FFFF, 0x10FFFE].map {
      BusText.firstRefused(in: Self.text(Unicode.Scalar(UInt32($0)) ?? "x").utf8) ?? ""
    }
    #expect(names == ["U+0000", "U+FDD0", "U+FDEF", "U+FFFE", "U+1FFFF", "U+10FFFE"])
  }

  @Test("No two adjacent characters are mistaken for a noncharacter")
  func borders() {
    let scalars: [Unicode.Scalar] = [
      "\u{7F}", "\u{BF}", "\u{7FF}", "\u{FFD}", "\u{1FFF}", "\u{FFBF}", "\u{FFFD}", "\u{1FFFD}", "\u{3FFBF}",
      "\u{10FFFD}",
    ]
    for first in scalars {
      for second in scalars {
        let text = String(String.UnicodeScalarView([first, second]))
        #expect(BusText.firstRefused(in: text.utf8) == nil, "\(first.value) \(second.value)")
      }
    }
  }

  @Test("Forbidden characters in answers, properties, signals and errors are replaced by U+FFFD")
  @LoopActor
  func gate() async throws {
    let table = try await Table()
    defer { table.close() }
    let bad = "a\0\u{FFFE}\u{1FFFF}\u{10FFFF}"
    let good = "a\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}"
    func nested(_ text: String) -> [DBusValue] {
      [
        .string(text), .strings([text]), .structure([.string(text), .variant(.string(text))]),
        .options([text: .strings([text])]),
      ]
    }
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Get", out: [Argument("a", "s"), Argument("b", "as"), Argument("c", "(sv)"), Argument("d", "a{sv}")],
            returning: { _ in nested(bad) }),
          Method("Fail", returning: { (_) throws(DBusError) in throw .busy(bad) }),
        ],
        properties: [Property("Name", "s", get: { .string(bad) })],
        signals: [Signal("Said", [Argument("a", "s")])]))
    defer { object.cancel() }
    let heard = Mailbox<Message>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name, interface: Table.interface)) {
      heard.put($0)
    }
    defer { subscription.cancel() }
    #expect(try await table.call("Get") == nested(good))
    #expect(await table.error("Fail") == .busy(good))
    let all = try await table.call("GetAll", [.string(Table.interface)], on: "org.freedesktop.DBus.Properties")
    #expect(all.first?.asDictionary?["Name"] == DBusValue.string(good))
    object.emit(Table.interface, "Said", [.string(bad)])
    #expect(try await heard.next().arguments == [.string(good)])
  }
}
