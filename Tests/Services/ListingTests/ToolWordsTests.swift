import Air
import Common
import Foundation
import Listing
import Loop
import NostrUplink
import Presence
import TestSupport
import Testing
import ToolList
import Transfers
import Tuvali

@testable import BlueZ
@testable import DBus
@testable import Thali
@testable import Tool

/// The tool's texts for signals and counters of the services.
@Suite("The tool's texts for signals and counters")
struct ToolWordsTests {
  private static let parts = ToolList.parts
  private static let credential: ObjectPath = "/org/earshot/verifier/credential3"
  private static let outgoing: ObjectPath = "/org/earshot/wallet/credential4"
  private static let verifier: ObjectPath = "/org/earshot/verifier"
  private static let mesh: ObjectPath = "/org/earshot/mesh"

  @LoopActor
  private static func objects() -> [(path: String, interface: Interface)] {
    let time = VirtualTime()
    let radio = AirSpace(scheduler: time, seed: 0).addNode().tenant(time)
    return ServiceList.all.objects(radio: radio, scheduler: time).map { ($0.path, $0.interface) }
  }

  @Test("`status --counters` explains each counter of every service")
  @LoopActor
  func counters() throws {
    let meanings = [CounterMeanings.house] + Self.parts.compactMap(\.counters)
    var count = 0
    for (path, interface) in Self.objects() {
      guard let values = interface.property("Counters")?.get().asDictionary else { continue }
      for name in values.keys {
        count += 1
        let isExplained = meanings.contains { $0.explains(name, of: interface.name) }
        #expect(isExplained, "\(path): \(name)")
      }
    }
    #expect(count > 50)
  }

  @Test("`earshot explain` explains each counter of earshot-presenced and earshot-nostrd")
  @LoopActor
  func countersOfDaemons() {
    // The counters of an engine are on the bus while it runs.
    var names = Set(Recognizer().tallies.map(\.name))
    names.formUnion(LocalDiscovery.Counters().tallies.map(\.name))
    var counters = ["org.earshot.Presence1": names]
    for described in PresenceDaemon.described + UplinkDaemon.described {
      guard let values = described.interface.property("Counters")?.get().asDictionary else { continue }
      counters[described.interface.name, default: []].formUnion(values.keys)
    }
    #expect(counters.values.reduce(0) { $0 + $1.count } > 70)
    let meanings = Self.parts.compactMap(\.counters)
    for (interface, names) in counters {
      for name in names { #expect(meanings.contains { $0.explains(name, of: interface) }, "\(interface): \(name)") }
    }
  }

  @Test("`earshot explain` explains each error, refusal, verdict and journal message")
  func codes() throws {
    let explain = ExplainCommand(Self.parts)
    var codes = TuvaliError.Code.allCases.map(\.rawValue) + Transfer.State.allCases.map(\.rawValue)
    codes += VerifierEngine.Refusal.allCases.map(\.rawValue) + ServiceList.all.messages.map(\.name)
    codes += ServiceList.all.messages.map(\.hex) + ["checkerMissing", "CutShort", "LinksFull", "DiskFull"]
    for code in codes {
      let found = try explain.find(code)
      #expect(!found.isEmpty && found.allSatisfy { $0.meaning.hasSuffix(".") }, "\(code)")
    }
  }

  @Test("Each state in a label of a metric is explained as a state of its service")
  func states() throws {
    let page = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/metrics.md")
    let explain = ExplainCommand(Self.parts)
    var kinds: [String: Int] = [:]
    for row in try String(contentsOf: page, encoding: .utf8).components(separatedBy: "label `state`:").dropFirst() {
      let states = row.prefix { $0 != "\n" }.matches(of: #/`(\w+)`/#).map { String($0.1) }
      for state in states {
        let found = try explain.find(state).map(\.kind).filter { $0.hasPrefix("state of the ") }
        #expect(!found.isEmpty, "\(state)")
        for kind in found { kinds[kind, default: 0] += 1 }
      }
    }
    #expect(kinds.count == 6, "\(kinds)")
  }

  @Test("`earshot explain` explains the checker's reasons as the checker's manual does")
  func checkerReasons() throws {
    let page = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/check.md")
    let text = try String(contentsOf: page, encoding: .utf8)
    let table = try #require(text.components(separatedBy: "## Reason codes").last)
    let explain = ExplainCommand(Self.parts)
    var count = 0
    for line in table.split(separator: "\n") where line.hasPrefix("| `") {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      let code = cells[0].filter { $0 != "`" }
      let found = try explain.find(code)
      #expect(found.contains { $0.kind.hasSuffix("verdict \(cells[1])") && $0.meaning == cells[2] }, "\(code)")
      count += 1
    }
    #expect(count > 40)
  }

  @Test("`status --counters` explains each counter of the BlueZ radio in Manager1")
  @LoopActor
  func radioCounters() {
    let names = BlueZCounters().tallies.map(\.name)
    #expect(names.contains("ScanRestarts"))
    for name in names { #expect(CounterMeanings.house.explains(name, of: "org.earshot.Manager1"), "\(name)") }
  }

  @Test(
    "Counters above 0 are shown with their meanings within the terminal's width")
  @LoopActor
  func countersShown() {
    let objects: ToolPart.Objects = [
      "/org/earshot/mesh": [
        "org.earshot.Mesh1": [
          "Counters": .tallies([
            Tally("NoiseDroppedReplacedLately", 12_345), Tally("Frames", 7), Tally("Clock", 0), Tally("Truncated", 1),
          ])
        ]
      ]
    ]
    let text = StatusCommand.counters(objects, Self.parts, 80)
    #expect(
      text == """
        mesh
              7  Frames                      frames received
          12345  NoiseDroppedReplacedLately  first messages of a peer whose session was
                                             replaced within the last 5 s
              1  Truncated                   malformed packets with this error

        """)
    #expect(StatusCommand.counters([:], Self.parts, 80) == "All counters are 0.\n")
  }

  @Test("`earshot monitor` has a sentence for each signal, without an object path in it")
  @LoopActor
  func signals() {
    var count = 0
    for (path, interface) in Self.objects() {
      guard let path = ObjectPath(path) else { continue }
      for signal in interface.signals {
        count += 1
        let arguments = signal.arguments.map { argument -> DBusValue in
          switch argument.signature {
          case "o": .objectPath(Self.credential)
          case "s": .string("sent")
          default: .uint32(7)
          }
        }
        let event = ServiceEvent.signal(path, interface: interface.name, name: signal.name, arguments: arguments)
        let text = MonitorCommand.text(event, Self.parts)
        #expect(text != event.plainText && !text.contains("/org/"), "\(interface.name).\(signal.name): \(text)")
      }
    }
    #expect(count > 10)
  }

  @Test("`earshot monitor` describes transfer events by sentences and other events by their names")
  @LoopActor
  func sentences() {
    let transfer = "org.earshot.Credential1"
    var known: [String: DBusValue] = [:]
    func changed(_ path: ObjectPath, _ interface: String, _ values: [String: DBusValue]) -> String {
      known.merge(values) { $1 }
      return MonitorCommand.text(
        .changed(path, interface: interface, values: values, invalidated: [], known: known), Self.parts)
    }
    let added = ServiceEvent.added(
      Self.credential, [transfer: ["Direction": .string("incoming"), "State": .string("connected")]])
    #expect(MonitorCommand.text(added, Self.parts) == "verifier/credential3: a wallet has connected.")
    known = ["Direction": .string("incoming")]
    #expect(
      changed(Self.credential, transfer, ["Dialect": .string("0.5"), "Mtu": .uint16(517)])
        == "verifier/credential3: dialect 0.5, MTU 517.")
    #expect(
      changed(
        Self.credential, transfer,
        ["BytesExpected": .uint64(7103), "ChunksMissing": .uint32(15), "State": .string("transferring")])
        == "verifier/credential3: receiving 6.9 KiB, encrypted.")
    #expect(
      changed(Self.credential, transfer, ["BytesTransferred": .uint64(4545), "ChunksMissing": .uint32(6)])
        == "verifier/credential3: 4.4 KiB of 6.9 KiB transferred, 6 chunks missing.")
    #expect(
      changed(Self.credential, transfer, ["State": .string("accepted"), "VerdictDelivery": .string("peerGone")])
        == "verifier/credential3: the credential is accepted; the wallet had left and was not notified.")
    #expect(
      changed(Self.credential, transfer, ["State": .string("failed"), "ErrorCode": .string("TVV_TRA_002")])
        == "verifier/credential3: failed (TVV_TRA_002).")
    known = ["Direction": .string("outgoing")]
    #expect(
      changed(Self.outgoing, transfer, ["State": .string("accepted")])
        == "wallet/credential4: the verifier has accepted the credential.")
    known = [:]
    #expect(
      changed(Self.verifier, "org.earshot.Verifier1", ["State": .string("serving"), "Sessions": .uint32(1)])
        == "The verifier serves one wallet.")
    #expect(
      changed(
        "/org/earshot", "org.earshot.Manager1",
        ["RadioState": .string("waiting"), "RadioReason": .string("There is no adapter.")])
        == "The radio is waiting. There is no adapter.")
    #expect(
      changed(
        "/org/earshot/mesh/peer0123456789abcdef", "org.earshot.MeshPeer1",
        ["Nickname": .string("ben> is verified: <carl"), "Verified": .bool(true)])
        == "Peer 0123456789abcdef: Nickname <ben\u{FFFD} is verified: \u{FFFD}carl>, Verified yes.")
    #expect(
      changed(
        "/org/earshot/mesh/file3", "org.earshot.MeshFile1",
        ["Nickname": .string("ben>"), "Name": .string("a\".png"), "State": .string("received"), "Mime": .string("x")])
        == "File 3: name \"a\u{FFFD}.png\", from <ben\u{FFFD}>, received.")
    let unknown = ServiceEvent.changed(
      Self.mesh, interface: "org.earshot.Other1", values: ["LinesLeftOut": .uint32(3)], invalidated: ["SliceBytes"],
      known: [:])
    #expect(MonitorCommand.text(unknown, Self.parts) == "mesh: lines left out 3, slice bytes changed.")
  }

  @Test("A line of `earshot monitor` has the object in a column, and does not repeat it in the sentence")
  func monitorLines() {
    #expect(
      MonitorCommand.columns(Self.credential, "verifier/credential3: a wallet has connected.")
        == "verifier/credential3     A wallet has connected.")
    #expect(
      MonitorCommand.columns(Self.verifier, "The verifier waits for wallets.")
        == "verifier                 The verifier waits for wallets.")
    #expect(MonitorCommand.columns("/org/earshot", "The radio is ready.").hasPrefix("service  "))
    let long = MonitorCommand.columns("/org/earshot/verifier/credential1099511627776", "It has ended.")
    #expect(long == "verifier/credential1099511627776  It has ended.")
  }

  @Test("No line of `earshot status` is wider than the terminal, except the text of a QR code")
  func status() {
    let uri = "OPENID4VP://connect?name=OVPMOSIP&key=c35607237a9f57442290db6600c706635a9dfca9307dc500617bc67a1222877f"
    let long = "  mesh      connected  " + String(repeating: "as anna, ", count: 12) + "\n            \(uri)\n"
    let lines = StatusCommand.fitted(long, to: 80).split(separator: "\n").map(String.init)
    let indent = String(repeating: " ", count: 12)
    #expect(lines.count == 3 && lines[0].count <= 80 && lines[1].hasPrefix(indent) && lines[1].count <= 80)
    #expect(lines[2] == "            \(uri)")
    #expect(StatusCommand.fitted("short\n", to: 80) == "short\n")
  }
}

extension CounterMeanings {
  /// Whether a counter of an interface has a meaning of its own here.
  fileprivate func explains(_ name: String, of interface: String) -> Bool {
    self.interface == interface && meanings[name] != nil
  }
}
