import Air
import Foundation
import Hosting
import Listing
import Loop
import Testing

@testable import DBus

@Suite("Documentation of the interfaces")
struct InterfaceTests {
  init() { EventLoop.shared.runInBackground() }

  private static let top = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
  private static let page = top.appendingPathComponent("docs/dbus.md")

  private static func head(_ objects: [DescribedObject]) -> String {
    // Written in one piece it would count as a citation of a page beside this file.
    let suffix = ".md"
    let rows = objects.map { "| `\($0.path)` | `\($0.interface.name)` |" }.joined(separator: "\n")
    return """
      # The D-Bus interfaces

      Bus name `org.earshot`, on the system bus. The object manager at `/org/earshot` lists the objects below it:

      | object | interface |
      | --- | --- |
      \(rows)

      N is a number, and ID 16 lower-case hexadecimal digits. A service that is off has no object: the mesh and the feed are off, and the
      wallet on, unless its section of the configuration says otherwise by `Enabled=`. `Services` of the manager names those that are on
      (Verifier, Wallet, Mesh, Broadcast). The verifier's object is always there: `Enabled=` in its section says whether it waits for
      wallets as soon as the service starts. A call starts the service where it is enabled and does not run.

      Methods are for the group: root, the service's own user and the members of the group `earshot`. A property is for everybody
      or for the group. Other programs get `org.freedesktop.DBus.Error.AccessDenied` for the latter from `Get`, and an answer
      without it from `GetAll` and `GetManagedObjects`; a signal, which every program may hear, names it as changed and does not
      tell its value. In the XML, and in what `Introspect` returns, `org.earshot.Audience` says what is for the `group`. Why a
      property is for whom it is for: [security\(suffix)](security\(suffix)#who-may-call-and-who-may-look).

      Every method but those that take or return a file (`h`) can be called by hand with `dbus-send`. Errors are named
      `org.earshot.Error.` and one of InvalidArgs, NotReady, Busy, NotFound, Denied, Timeout, PeerLost, Protocol, LimitExceeded, NotSupported,
      Failed, with a sentence; where a protocol has a code of its own for an error, the sentence begins with it. Besides there are the bus's
      own: `org.freedesktop.DBus.Error.AccessDenied` for a method that is not for the caller, UnknownObject and the like. Every call may be
      answered with LimitExceeded (`[Bus] CallsPerSecond=`; GetManagedObjects counts as 16 calls, GetAll and Introspect as 4, and each 4 KiB
      of an answer as one more).

      Changes of properties are signalled by `PropertiesChanged`. Simultaneous changes share one signal, which contains only what changed. The
      column "signal" tells how a change of a property is signalled: `value`: with its value; `name`: only by its name (in
      `invalidated_properties`); `constant`: never, because the value does not change while the object exists; `none`: not at all. In the XML this is the annotation
      `org.freedesktop.DBus.Property.EmitsChangedSignal` with `true`, `invalidates`, `const` or `false`.

      Signals about objects that are for the group alone (peers and files of the mesh), including their addition and removal, are not broadcast. A
      program of the group receives them after it has called `Watch` of the manager, each addressed to its own connection. Up to 32 connections
      can watch, 16 of one user.

      Every time is a number of milliseconds since 1970-01-01 UTC (`t`), and 0 where there is none. A signal strength is in dBm (`n`), and 127
      where it is not known. Each string has U+FFFD in place of U+0000 and of noncharacters (U+FFFE, U+FFFF, U+FDD0 to U+FDEF, and the last two code
      points of each plane), which D-Bus or some of its libraries refuse. The XML is installed in `/usr/share/dbus-1/interfaces`.


      """
  }

  @LoopActor
  private static func described() -> (objects: [DescribedObject], interfaces: [Interface]) {
    let time = VirtualTime()
    let radio = AirSpace(scheduler: time, seed: 0).addNode().tenant(time)
    let list = ServiceList.all
    return (list.objects(radio: radio, scheduler: time), list.interfaces(radio: radio, scheduler: time))
  }

  @Test("docs/dbus.md equals the interfaces; EARSHOT_REGENERATE=1 rewrites it")
  @LoopActor
  func page() throws {
    let (objects, interfaces) = Self.described()
    let text = Self.head(objects) + interfaces.map(InterfaceMarkdown.render).joined(separator: "\n")
    if ProcessInfo.processInfo.environment["EARSHOT_REGENERATE"] != nil {
      try text.write(to: Self.page, atomically: true, encoding: .utf8)
    }
    let isCurrent = try String(contentsOf: Self.page, encoding: .utf8) == text
    #expect(isCurrent)
  }

  @Test(
    "Each counter is explained on a page",
    arguments: [
      ("org.earshot.Manager1", "security", "Counters of the service"), ("org.earshot.Verifier1", "tuvali", "Counters"),
      ("org.earshot.Wallet1", "tuvali", "Counters"),
    ])
  @LoopActor
  func counters(name: String, page: String, title: String) throws {
    let interface = try #require(Self.described().interfaces.first { $0.name == name })
    let property = try #require(interface.properties.first { $0.name == "Counters" })
    let counters = property.get().asDictionary ?? [:]
    let text = try String(contentsOf: Self.top.appendingPathComponent("docs/\(page).md"), encoding: .utf8)
    let section = try #require(text.components(separatedBy: "\n## ").first { $0.hasPrefix("\(title)\n") })
    #expect(counters.count >= 3)
    #expect(counters.keys.filter { !section.contains("`\($0)`") } == [])
  }

  @Test("D-Bus activation uses a unit alias that only an enabled service has")
  func activation() throws {
    func line(_ key: String, in file: String) throws -> String? {
      try String(contentsOf: Self.top.appendingPathComponent(file), encoding: .utf8).split(separator: "\n")
        .first { $0.hasPrefix("\(key)=") }.map { String($0.dropFirst(key.count + 1)) }
    }
    let alias = try #require(try line("Alias", in: "systemd/earshotd.service"))
    let started = try line("SystemdService", in: "dbus-policy/org.earshot.service")
    #expect(alias == "dbus-org.earshot.service" && started == alias)
  }

  @Test("Every time is in milliseconds since 1970-01-01 UTC, and an unknown RSSI is 127")
  @LoopActor
  func units() {
    var moments: [String] = []
    var strengths: [String] = []
    for interface in Self.described().interfaces {
      let values =
        interface.properties.map { ($0.name, $0.signature, $0.documentation) }
        + interface.methods.flatMap { method in method.out.map { (method.name, $0.signature, method.documentation) } }
      for (name, type, documentation) in values {
        let what = "\(interface.name).\(name)"
        let words = documentation.lowercased()
        if words.contains("dbm") || words.contains("rssi") {
          strengths.append(what)
          #expect(type.contains("n") && words.contains("127 where it is not known"), "\(what)")
        }
        let isTime = ["1970", "utc", "iso 8601"].contains(where: words.contains)
        let isNamedSo = ["At", "Time", "Seen", "Deadline"].contains(where: name.hasSuffix)
        guard isTime || isNamedSo else { continue }
        moments.append(what)
        #expect(type.contains("t") && words.contains("milliseconds since 1970-01-01 utc"), "\(what)")
      }
    }
    #expect(moments.count >= 6 && strengths.count >= 2, "\(moments) \(strengths)")
  }

  @Test("Everything is documented and usable with dbus-send")
  @LoopActor
  func documentation() {
    let simple = Set(["s", "o", "u", "b", "h", "t", "q", "as", "a{st}"])
    // Arrays of structs of strings and numbers.
    let lists = Set(["a(ss)", "a(utsssss)", "a(ttssn)"])
    for interface in Self.described().interfaces {
      #expect(!interface.documentation.isEmpty, "\(interface.name)")
      for method in interface.methods {
        #expect(!method.documentation.isEmpty, "\(interface.name).\(method.name)")
        #expect(method.in.allSatisfy { simple.contains($0.signature) }, "\(method.name)")
        #expect(method.out.allSatisfy { simple.union(lists).contains($0.signature) }, "\(method.name)")
      }
      for property in interface.properties { #expect(!property.documentation.isEmpty, "\(property.name)") }
    }
  }
}
