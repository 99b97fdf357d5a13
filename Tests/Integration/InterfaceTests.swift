import Air
import Foundation
import Hosting
import Listing
import Loop
import NostrUplink
import Presence
import SocialDaemon
import TestSupport
import Testing

@testable import DBus

@Suite("Documentation of the D-Bus interfaces")
struct InterfaceTests {
  init() { EventLoop.shared.runInBackground() }

  private static let top = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
  private static let page = top.appendingPathComponent("docs/dbus.md")

  private static let social = "/org/earshot/social"
  private static let presence = "/org/earshot/presence"
  private static let uplink = "/org/earshot/uplink"

  private static func head(_ objects: [DescribedObject]) -> String {
    // Written in one piece it would count as a citation of a page beside this file.
    let suffix = ".md"
    func rows(_ isMember: (DescribedObject) -> Bool) -> String {
      objects.filter(isMember).map { "| `\($0.path)` | `\($0.interface.name)` |" }.joined(separator: "\n")
    }
    let ofPresence = rows { $0.path.hasPrefix(presence) }
    let ofUplink = rows { $0.path.hasPrefix(uplink) }
    let ofEarshot = rows { object in ![presence, social, uplink].contains { object.path.hasPrefix($0) } }
    return """
      # The D-Bus interfaces

      Bus name `org.earshot`, on the system bus. The object manager at `/org/earshot` lists the objects below it:

      | object | interface |
      | --- | --- |
      \(ofEarshot)

      The service `earshot-presenced` has the bus name `org.earshot.Presence`. The object manager at `/org/earshot/presence` lists its peers.
      All of it is for the group, and the policy of the bus lets nobody else call it. The object `sink` is for calls of `earshotd` alone:

      | object | interface |
      | --- | --- |
      \(ofPresence)

      The service `earshot-nostrd` has the bus name `org.earshot.Nostr`. All of it is for the group, except that the object `sink` is for calls
      of `earshotd` alone:

      | object | interface |
      | --- | --- |
      \(ofUplink)

      The social server is a daemon of its own with the bus name `org.earshot.Social`. Its object `\(social)` has the interface
      `org.earshot.Social1`, and `\(social)/sessionN` has `org.earshot.SocialSession1`. Every method and property of both is for the
      group, and the policy of the bus lets nobody else call it, not even `Introspect`.

      N is a number, and ID is 16 lower-case hexadecimal digits. A service that is off has no object. By default the mesh and the local broadcast
      channel are off and the wallet is on; `Enabled=` in their sections of the configuration changes that. `Services` of the manager lists the
      services that are on (Verifier, Wallet, Mesh, Broadcast, PresenceRadio). The verifier's object always exists: `Enabled=` in its section selects whether it
      waits for wallets as soon as the service starts. A call starts the service if its unit is enabled and it is not running.

      Methods are for the group: root, the service's own user and the members of the group `earshot`. `GetMetrics` and `ListHistory` are also for
      the members of the group `earshot-view`, who may observe the service. Those of `org.earshot.PresenceRadio1`
      are for the user `earshot-presence` alone, and those of `org.earshot.MeshUplink1` for the user `earshot-nostr`. A property is for
      everybody or for the group. For a property of the group, other programs get `org.freedesktop.DBus.Error.AccessDenied` from `Get`, and
      results without it from `GetAll` and `GetManagedObjects`. `PropertiesChanged`, which every program may receive, names such a property without its value. In the XML and in the
      result of `Introspect`, the annotation `org.earshot.Audience` marks members for the `group`.
      [security\(suffix)](security\(suffix)#who-may-call-and-who-may-look) gives the reasons.

      Every method can be called by hand with `dbus-send`, except those that take or return a file (`h`). Error names are `org.earshot.Error.`
      followed by InvalidArgs, NotReady, Busy, NotFound, Denied, Timeout, PeerLost, Protocol, LimitExceeded, NotSupported or Failed. The message of
      an error is a sentence; if the protocol has its own code for the error, the sentence begins with that code. Errors of the bus are possible as
      well, for example `org.freedesktop.DBus.Error.AccessDenied` for a method that the caller may not call, or UnknownObject. Every call may be
      answered with LimitExceeded (`[Bus] CallsPerSecond=`; GetManagedObjects, GetMetrics and ListHistory count as 16 calls, GetAll and Introspect
      as 4, and each 4 KiB of an answer as one more).

      `PropertiesChanged` signals changes of properties. Simultaneous changes share one signal, which contains only the changed properties. The
      column "signal" states what the signal contains. `value`: the new value. `name`: only the name, in `invalidated_properties`. `constant`: there
      is no signal, because the value does not change while the object exists. `none`: changes are not signalled. In the XML this is the annotation
      `org.freedesktop.DBus.Property.EmitsChangedSignal` with `true`, `invalidates`, `const` or `false`.

      Signals about objects that are for the group alone (peers and files of the mesh), including their addition and removal, are not broadcast. A
      program of the group receives them after it has called `Watch` of the manager, each addressed to its own connection. Up to 32 connections
      can watch, 16 of one user.

      Every time is a number of milliseconds since 1970-01-01 UTC (`t`), and 0 if there is none. A signal strength is in dBm (`n`), and 127 if it is
      unknown. In each string, U+FFFD replaces U+0000 and noncharacters (U+FFFE, U+FFFF, U+FDD0 to U+FDEF, and the last two code points of each
      plane), which D-Bus or some of its libraries refuse. The XML is installed in `/usr/share/dbus-1/interfaces`.


      """
  }

  @LoopActor
  private static func described() -> (objects: [DescribedObject], interfaces: [Interface]) {
    let time = VirtualTime()
    let radio = AirSpace(scheduler: time, seed: 0).addNode().tenant(time)
    let list = ServiceList.all
    let others = SocialDaemon.objects + PresenceDaemon.described + UplinkDaemon.described
    return (
      list.objects(radio: radio, scheduler: time) + others,
      list.interfaces(radio: radio, scheduler: time) + others.map(\.interface)
    )
  }

  @Test("docs/dbus.md equals the text generated from the interfaces (EARSHOT_REGENERATE=1 rewrites the page)")
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

  /// The methods that the policies of the bus let the group of viewers call, as `interface.method`; `*` for a rule that
  /// does not restrict one of them.
  private static func permittedToViewers() throws -> [String] {
    var permitted: [String] = []
    for name in ["org.earshot", "org.earshot.Nostr", "org.earshot.Presence", "org.earshot.Social"] {
      let text = try String(contentsOf: top.appendingPathComponent("dbus-policy/\(name).conf"), encoding: .utf8)
      for part in text.components(separatedBy: "<policy group=\"\(ServiceAccess.viewGroup)\">").dropFirst() {
        let rules = part.components(separatedBy: "</policy>").first ?? ""
        for rule in rules.components(separatedBy: "<allow ").dropFirst() {
          let values = ["send_interface", "send_member"].map { key -> String in
            rule.components(separatedBy: "\(key)=\"").dropFirst().first?.components(separatedBy: "\"").first ?? "*"
          }
          permitted.append(values.joined(separator: "."))
        }
      }
    }
    return permitted
  }

  @Test("Viewers may call two methods, see no other property than everybody, and nothing of the other daemons")
  @LoopActor
  func viewers() throws {
    let (objects, interfaces) = Self.described()
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    let methods = interfaces.flatMap { interface -> [String] in
      interface.methods.filter { $0.audience != .group }.map { "\(interface.name).\($0.name)" }
    }
    #expect(methods == ["org.earshot.Manager1.GetMetrics", "org.earshot.Verifier1.ListHistory"])
    // The service's own check and the policies of the four daemons agree.
    #expect(try Self.permittedToViewers() == methods)
    #expect(!interfaces.contains { $0.audience == .viewers || $0.properties.contains { $0.audience == .viewers } })
    for object in objects where [Self.presence, Self.social, Self.uplink].contains(where: object.path.hasPrefix) {
      #expect(object.interface.audience == .group, "\(object.path) \(object.interface.name)")
    }
  }

  @Test(
    "Each counter on D-Bus is explained on a page in docs",
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

  @Test(
    "The D-Bus activation file names a systemd alias that exists only while the service is enabled",
    arguments: [
      ("earshotd", "org.earshot"), ("earshot-sociald", "org.earshot.Social"),
      ("earshot-presenced", "org.earshot.Presence"), ("earshot-nostrd", "org.earshot.Nostr"),
    ])
  func activation(unit: String, name: String) throws {
    func line(_ key: String, in file: String) throws -> String? {
      try String(contentsOf: Self.top.appendingPathComponent(file), encoding: .utf8).split(separator: "\n")
        .first { $0.hasPrefix("\(key)=") }.map { String($0.dropFirst(key.count + 1)) }
    }
    let alias = try #require(try line("Alias", in: "systemd/\(unit).service"))
    let started = try line("SystemdService", in: "dbus-policy/\(name).service")
    #expect(alias == "dbus-\(name).service" && started == alias)
  }

  @Test("Every time on D-Bus is in milliseconds since 1970-01-01 UTC, and an unknown RSSI is 127")
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
          #expect(type.contains("n") && words.contains("127 if it is not known"), "\(what)")
        }
        let isTime = ["1970", " utc", "iso 8601"].contains(where: words.contains)
        let isNamedSo = ["At", "Time", "Seen", "Deadline"].contains(where: name.hasSuffix)
        guard isTime || isNamedSo else { continue }
        moments.append(what)
        #expect(type.contains("t") && words.contains("milliseconds since 1970-01-01 utc"), "\(what)")
      }
    }
    #expect(moments.count >= 6 && strengths.count >= 2, "\(moments) \(strengths)")
  }

  @Test("Every D-Bus member is documented, and can be called with dbus-send")
  @LoopActor
  func documentation() {
    let simple = Set(["s", "o", "y", "u", "b", "h", "t", "q", "as", "ay", "a{st}"])
    // Arrays of structs of strings and numbers.
    let lists = Set(["a(ss)", "a(utssssss)", "a(utssssb)", "a(ttssn)", "a(ttttsss)"])
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
