import DBus
import Foundation
import Hosting
import Listing
import Loop
import Testing
import Tuvali

@testable import CommandLine
@testable import Config
@testable import Tool

@Suite("Manual pages")
struct ManualTests {
  init() { EventLoop.shared.runInBackground() }

  private static func stored(_ page: String) throws -> String {
    try String(contentsOf: Manual.folder.appendingPathComponent(page), encoding: .utf8)
  }

  /// The terms of the items of a page, as they are written in it.
  private static func terms(_ page: String) throws -> Set<String> {
    let lines = try stored(page).split(separator: "\n").filter { $0.hasPrefix(".B ") }
    return Set(lines.map { $0.dropFirst(3).split(separator: "\\", omittingEmptySubsequences: false).joined() })
  }

  @Test(
    "docs/man equals the pages made from the tables and docs/man/text (EARSHOT_REGENERATE=1 rewrites it)",
    arguments: Manual.pages)
  @LoopActor
  func page(name: String) throws {
    let text = try Manual.text(of: name)
    if ProcessInfo.processInfo.environment["EARSHOT_REGENERATE"] != nil {
      try text.write(to: Manual.folder.appendingPathComponent(name), atomically: true, encoding: .utf8)
    }
    let isCurrent = try Self.stored(name) == text
    #expect(isCurrent)
  }

  @Test("Every text in docs/man/text belongs to a manual page that the tests generate")
  func complete() throws {
    let texts = try FileManager.default.contentsOfDirectory(atPath: Manual.folder.path + "/text")
    #expect(Set(texts) == Set(Manual.pages))
  }

  @Test("Every line of text in a manual page has at most 80 bytes, as mandoc requires", arguments: Manual.pages)
  func width(name: String) throws {
    let lines = try Self.stored(name).split(separator: "\n")
    #expect(lines.filter { $0.utf8.count > 80 && !$0.hasPrefix(".SS ") } == [])
  }

  @Test("Every command is on a manual page of section 1")
  func commands() throws {
    let pages = try Self.stored("earshot.1") + Self.stored("earshot-social.1")
    let leaves = Manual.tool.places.filter { $0.command.commands.isEmpty }.map { $0.path.joined(separator: " ") }
    let escaped = leaves.map { $0.split(separator: "-").joined(separator: "\\-") }
    #expect(leaves.count > 40)
    #expect(escaped.filter { !pages.contains(".SS \"\($0)") } == [])
  }

  @Test(
    "Every setting is on a manual page of section 5",
    arguments: ["earshot.conf", "earshot-presence.conf", "earshot-social.conf", "earshot-uplink.conf"])
  func settings(name: String) throws {
    let table = try #require(Manual.settings(of: name)).table
    let terms = try Self.terms("\(name).5")
    #expect(table.map { "\($0.key)=" }.filter { !terms.contains($0) } == [])
  }

  @Test("org.earshot(5) lists every interface, every error name and every error code of transfers")
  @LoopActor
  func interfaces() throws {
    let text = try Self.stored("org.earshot.5")
    let terms = try Self.terms("org.earshot.5")
    let sections = Manual.objects().map { ".SH \"INTERFACE \($0.interface.name)\"" }
    let names = DBusError.Name.allCases.map(\.rawValue).filter { $0.hasPrefix("org.earshot.") }
    let codes = TuvaliError.Code.allCases.map(\.rawValue)
    #expect(sections.filter { !text.contains($0) } == [])
    #expect((names + codes).filter { !terms.contains($0) } == [])
  }

  @Test("earshot(1) explains every counter that `status --counters` explains")
  func counters() throws {
    let terms = try Self.terms("earshot.1")
    #expect(Manual.counters.flatMap(\.meanings.keys).filter { !terms.contains($0) } == [])
  }

  @Test("A text for a manual page whose first line does not contain the page's name is refused")
  func nameless() {
    #expect(ManualTemplate("other - summary\n", name: "earshot") == nil)
  }

  @Test("No line of a manual page begins with a roff request unless its source intends one")
  func requests() {
    var page = ManualPage("x", section: "1", summary: "y", date: "2026-01-01", version: "1")
    page.section("A")
    page.paragraph(".so /etc/passwd")
    page.item("'quote", "a \\fB \"text\" -x")
    page.code([".PP"])
    #expect(page.text.contains("\n\\&.so /etc/passwd\n"))
    #expect(page.text.contains("\n.B \\&'quote\na \\efB \\(dqtext\\(dq \\-x\n"))
    #expect(page.text.contains("\n\\&.PP\n"))
  }
}
