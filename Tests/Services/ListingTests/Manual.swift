import Air
import CommandLine
import DBus
import Foundation
import Listing
import Loop
import NostrUplink
import Presence
import SocialDaemon
import TestSupport
import ToolList

@testable import Config
@testable import Hosting
@testable import Tool

/// The manual pages in `docs/man`, generated from the texts in `docs/man/text` and from the tables of commands,
/// settings, counters and interfaces.
enum Manual {
  /// A page that cannot be generated.
  struct Mistake: Error {
    let sentence: String
  }

  /// Every page, as `name.section`.
  static let pages = [
    "earshot.1", "earshot-air.1", "earshot-check.1", "earshot-social.1", "earshot.conf.5", "earshot-presence.conf.5",
    "earshot-social.conf.5", "earshot-uplink.conf.5", "org.earshot.5", "earshotd.8", "earshot-nostrd.8",
    "earshot-presenced.8", "earshot-sociald.8",
  ]

  static let top = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
  static let folder = top.appendingPathComponent("docs/man")

  static let tool = ToolProgram(ToolList.parts, version: ServiceList.version).grammar

  /// The options of `earshotd`, whose program is no room and cannot be imported.
  static let earshotd = DaemonProgram.command(
    "earshotd", "Bluetooth proximity services on D-Bus.", tool: "earshot", busName: "org.earshot")

  /// Generates a page.
  @LoopActor
  static func text(of page: String) throws -> String {
    let (name, number) = (String(page.dropLast(2)), String(page.suffix(1)))
    let source = try String(contentsOf: folder.appendingPathComponent("text/\(page)"), encoding: .utf8)
    guard let template = ManualTemplate(source, name: name) else {
      throw Mistake(sentence: "docs/man/text/\(page) does not begin with: \(name) - ")
    }
    let (version, date) = try release()
    var result = ManualPage(name, section: number, summary: template.summary, date: date, version: version)
    for element in template.elements {
      switch element {
      case .section(let title): result.section(title)
      case .subsection(let title): result.subsection(title)
      case .item(let term, let text): result.item(term, text)
      case .code(let lines): result.code(lines)
      case .paragraph(let text): result.paragraph(text)
      case .part(let part): try add(part, of: name, to: &result)
      }
    }
    return result.text
  }

  /// The objects of all daemons.
  @LoopActor
  static func objects() -> [DescribedObject] {
    let time = VirtualTime()
    let radio = AirSpace(scheduler: time, seed: 0).addNode().tenant(time)
    return ServiceList.all.objects(radio: radio, scheduler: time) + SocialDaemon.objects + PresenceDaemon.described
      + UplinkDaemon.described
  }

  /// The settings of each page in section 5.
  static func settings(of page: String) -> Configuration? {
    switch page {
    case "earshot.conf": ServiceList.all.configuration
    case "earshot-presence.conf": PresenceDaemon.program.defaults
    case "earshot-social.conf": SocialDaemon.program.defaults
    case "earshot-uplink.conf": UplinkDaemon.program.defaults
    default: nil
    }
  }

  static let counters = [CounterMeanings.house] + ToolList.parts.compactMap(\.counters)

  @LoopActor
  private static func add(_ part: String, of name: String, to page: inout ManualPage) throws {
    switch part {
    case "options": page.addOptions(of: try grammar(of: name))
    case "commands": try addCommands(of: name, to: &page)
    case "exit": page.addExitStatuses()
    case "counters": for table in counters { add(table, to: &page) }
    case "objects": for object in objects() { page.item(object.path, object.interface.name) }
    case "interfaces":
      var seen: Set<String> = []
      for object in objects() where seen.insert(object.interface.name).inserted { page.add(object.interface) }
    case "settings":
      guard let settings = settings(of: name) else { throw Mistake(sentence: "\(name) has no settings") }
      add(settings, to: &page)
    default: throw Mistake(sentence: "There is no part @\(part).")
    }
  }

  private static func grammar(of name: String) throws -> Command {
    switch name {
    case "earshot": tool
    case "earshotd": earshotd
    case "earshot-nostrd": UplinkDaemon.program.command
    case "earshot-presenced": PresenceDaemon.program.command
    case "earshot-sociald": SocialDaemon.program.command
    default: throw Mistake(sentence: "\(name) has no table of options")
    }
  }

  private static func addCommands(of name: String, to page: inout ManualPage) throws {
    if name == "earshot" { return page.addCommands(of: tool, at: ["earshot"], except: "social") }
    let words = name.split(separator: "-").map(String.init)
    guard words.count == 2, let command = tool.commands.first(where: { $0.name == words.last }) else {
      throw Mistake(sentence: "\(name) is not a command of the tool")
    }
    page.addCommands(of: command, at: words)
  }

  private static func add(_ table: CounterMeanings, to page: inout ManualPage) {
    page.subsection("Counters: \(table.title)")
    for (name, meaning) in table.meanings.sorted(by: { $0.key < $1.key }) {
      page.item(name, "\(meaning.prefix(1).uppercased())\(meaning.dropFirst()).")
    }
    if !table.others.isEmpty { page.paragraph("Every other counter: \(table.others).") }
  }

  private static func add(_ settings: Configuration, to page: inout ManualPage) {
    var section = ""
    for key in settings.table {
      if key.section != section { page.section("SECTION \(key.section)") }
      section = key.section
      let restart = key.change == .onRestart ? " Needs a restart." : ""
      let fallback = key.fallback.isEmpty ? "empty" : key.fallback
      page.item("\(key.key)=", "\(key.documentation) Takes \(key.form).\(restart) Default: \(fallback).")
    }
  }

  /// The version and the date of the latest entry of `debian/changelog`.
  private static func release() throws -> (version: String, date: String) {
    let log = try String(contentsOf: top.appendingPathComponent("debian/changelog"), encoding: .utf8)
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let lines = log.split(separator: "\n")
    let version = lines.first?.split(separator: "(").last?.split(separator: ")").first
    let trailer = lines.first { $0.hasPrefix(" -- ") }?.split(separator: ">").last?.split(separator: " ")
    guard let version, let trailer, trailer.count >= 4, let day = Int(trailer[1]),
      let month = months.firstIndex(of: String(trailer[2]))
    else { throw Mistake(sentence: "debian/changelog has no version or date") }
    func padded(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return (String(version), "\(trailer[3])-\(padded(month + 1))-\(padded(day))")
  }
}
