import Calendar
import CommandLine
import DBus
import Foundation
import Loop
import MeshNaming
import MeshViews
import TestSupport
import Testing

@testable import MeshCommands
@testable import Tool

/// The commands, run against a stand-in for the service on a bus of its own.
@Suite("Commands of `earshot mesh`", .serialized)
struct CommandTests {
  init() { EventLoop.shared.runInBackground() }

  private static func json(_ call: ToolCall) throws -> NSDictionary {
    try #require(try JSONSerialization.jsonObject(with: Data(call.output.utf8)) as? NSDictionary)
  }

  @Test("`mesh say` and `mesh tell` send their arguments joined by blanks, or standard input")
  @LoopActor
  func saying() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    #expect(await stand.run("say", "hello", "mesh") == ToolCall(.ok, "Public message 7 sent.\n"))
    #expect(await stand.run("say", "-", input: "  two\nlines \r\n\n").code == .ok)
    #expect(await stand.run("say", "--json", "--", "--help") == ToolCall(.ok, "{\n  \"message\": 7\n}\n"))
    #expect(await stand.run("tell", "ALICE", "hi") == ToolCall(.ok, "Message 8 is on its way to <alice>.\n"))
    #expect(await stand.run("tell", "bob#1234", "hi", "there").code == .ok)
    // An unknown peer, but a valid ID: the service decides whether it can be reached.
    #expect(await stand.run("tell", "ABCDEF0123456789", "hi").code == .ok)
    #expect(
      stand.calls == [
        "Say hello mesh", "Say   two\nlines ", "Say --help", "Tell \(MeshStand.alice) hi",
        "Tell \(MeshStand.other) hi there",
        "Tell abcdef0123456789 hi",
      ])
    #expect(await stand.run("say").code == .usage)
    #expect(await stand.run("tell", "alice").code == .usage)
    #expect(await stand.run("tell").code == .usage)
    #expect(await stand.run("say", "-", input: "").code == .usage)
    #expect(await stand.run("say", "-", input: " \n").code == .usage)
    #expect(stand.calls.count == 6)
  }

  @Test("`mesh` commands refuse an ambiguous or unknown peer name, and replace control characters in it")
  @LoopActor
  func ambiguous() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    for words in [["tell", "bob", "hi"], ["favourite", "Bob"], ["block", "bob"], ["forget", "BOB"]] {
      let call = await ToolCall.run(["mesh"] + words + ["--bus", stand.bus.address])
      #expect(call.code == .failed && call.output == "")
      #expect(call.failure?.contains("bob#0b0b") == true && call.failure?.contains("Bob#1234") == true, "\(call)")
    }
    let nobody = await stand.run("tell", "\u{1B}[2Jeve", "hi")
    #expect(nobody.failure == "No peer is called <\u{FFFD}[2Jeve>. Try: earshot mesh peers")
    // The own node is not a peer.
    #expect(await stand.run("tell", "desk", "hi").code == .failed)
    #expect(await stand.run("log", "--with", "eve").code == .failed)
    #expect(await stand.run("forget", "abcdef0123456789").failure?.contains("is not known") == true)
    #expect(stand.calls == [])
  }

  @Test("`mesh favourite`, `block` and `forget` call the peer's D-Bus object, also with --off")
  @LoopActor
  func marks() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    #expect(await stand.run("favourite", "alice") == ToolCall(.ok, "<alice> is a favourite.\n"))
    #expect(await stand.run("favourite", "alice", "--off") == ToolCall(.ok, "<alice> is not a favourite.\n"))
    #expect(await stand.run("block", "bob#0b0b") == ToolCall(.ok, "<bob#0b0b> is blocked.\n"))
    let off = try Self.json(await stand.run("block", MeshStand.bob, "--off", "--json"))
    #expect(off == ["peer": MeshStand.bob, "blocked": false])
    #expect(await stand.run("forget", "alice") == ToolCall(.ok, "<alice> is forgotten.\n"))
    #expect(
      stand.calls == [
        "Favourite \(MeshStand.alice) yes", "Favourite \(MeshStand.alice) no", "Block \(MeshStand.bob) yes",
        "Block \(MeshStand.bob) no", "Forget \(MeshStand.alice)",
      ])
  }

  @Test("`mesh show`, `nick` and `announce` show the node, rename it, and send an announce")
  @LoopActor
  func node() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    let text = """
      state        connected
      role         node
      nickname     desk
      peer ID      00000000000000ff
      fingerprint  f0
      links        1
      unread       3
      carrying     2 envelopes of others

      """
    #expect(await stand.run("show") == ToolCall(.ok, text))
    #expect(await stand.run() == ToolCall(.ok, text))
    let shown = try Self.json(await stand.run("--json"))
    #expect(shown["peer"] as? String == MeshStand.own && shown["counters"] as? NSDictionary == ["Clock": 2])
    #expect(shown["carried"] as? Int == 2)
    #expect(await stand.run("nick", "you\u{1B}") == ToolCall(.ok, "The nickname of this node is you\u{FFFD}.\n"))
    #expect(await stand.run("announce") == ToolCall(.ok, "The node was announced to its neighbours.\n"))
    #expect(stand.calls == ["SetNickname you\u{1B}", "Announce"])
  }

  @Test("`mesh peers` prints a table with present peers first, and with --json an array")
  @LoopActor
  func peers() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.verified = [MeshStand.bob]
    let time = LocalTime.text(1000)
    #expect(
      await stand.run("peers").output.split(separator: "\n") == [
        "NAME      PEER              HOPS   SIGNAL  SEEN                 MARKS",
        "alice     000000000000a11c     1  -60 dBm  \(time)",
        "bob#0b0b  0000000000000b0b     2           \(time)  verified", "Bob#1234  0000000000001234     -",
      ])
    #expect(await !stand.run("peers", "--near").output.contains("Bob#1234"))
    let json = await stand.run("peers", "--json").output
    let rows = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: Any]])
    #expect(rows.map { $0["name"] as? String } == ["alice", "bob#0b0b", "Bob#1234"])
    #expect(rows.map { $0["hops"] as? Int } == [1, 2, nil] && rows[1]["verified"] as? Bool == true)
  }

  @Test("`mesh peers` prints the full text of each peer's problem below the table, wrapped to the terminal")
  func troubles() {
    var (alice, bob) = (MapTests.peer(1, "alice", hops: 1), MapTests.peer(2, "bob", hops: 1))
    alice.trouble = "It did not announce itself within 15 s, so its link was closed."
    bob.trouble =
      "Its clock is 3 min behind this machine's, so its packets are dropped. Set the clock that is wrong."
    let peers = [alice, bob, MapTests.peer(3, "carol", hops: 1)]
    let names = MeshNameIndex(peers)
    let text = PeerList.text(peers, names, width: 80, colour: false)
    #expect(
      text.split(separator: "\n", omittingEmptySubsequences: false).suffix(6) == [
        "carol  0000000000000003     1", "", "alice: \(alice.trouble)",
        "bob: Its clock is 3 min behind this machine's, so its packets are dropped. Set",
        "    the clock that is wrong.", "",
      ])
    #expect(PeerList.text(peers, names, width: nil, colour: false).hasSuffix("\nbob: \(bob.trouble)\n"))
  }

  @Test("`mesh map` shows the links of the node and the links that peers announce")
  @LoopActor
  func map() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.links = [(MeshStand.bob, MeshStand.alice)]
    #expect(
      await stand.run("map")
        == ToolCall(
          .ok,
          """
          desk (this node)
          └─ alice  -60 dBm
             └─ bob#0b0b

          Peers without known links:
            Bob#1234 (not near)

          """))
    let json = try Self.json(await stand.run("map", "--json"))
    #expect((json["links"] as? [[String]])?.count == 2 && (json["peers"] as? [Any])?.count == 3)
  }

  @Test("`mesh wipe` erases only if the own peer ID is typed or passed as an option")
  @LoopActor
  func wipe() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    for input in ["", "\n", "yes\n", MeshStand.alice + "\n", String(repeating: "f", count: 100)] {
      let call = await stand.run("wipe", input: input)
      #expect(call.code == .failed && call.failure?.hasSuffix("Nothing was erased.") == true, "\(input)")
    }
    #expect(await stand.run("wipe", "--confirm", MeshStand.alice, input: MeshStand.own).code == .failed)
    #expect(stand.calls == [])
    #expect(await stand.run("wipe", input: " \(MeshStand.own)\nmore").code == .ok)
    #expect(await stand.run("wipe", "--confirm", MeshStand.own).output.hasPrefix("Erased: "))
    #expect(try Self.json(await stand.run("wipe", "--json", "--confirm", MeshStand.own)) == ["wiped": MeshStand.own])
    #expect(stand.calls == [String](repeating: "Wipe \(MeshStand.own)", count: 3))
  }

  @Test("A node whose own peer ID is unknown is wiped with the word `unknown`")
  @LoopActor
  func wipeUnknown() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.ownID = ""
    #expect(await stand.run("wipe", input: "\n").code == .failed)
    #expect(stand.calls == [])
    #expect(await stand.run("wipe", input: "unknown\n").code == .ok)
    #expect(stand.calls == ["Wipe unknown"])
  }

  @Test("A refusal of the service is printed by `mesh` commands, and has its exit status")
  @LoopActor
  func refused() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.refusal = DBusError(name: "org.earshot.Error.NotReady", message: "The clock is not known to be right.")
    #expect(await stand.run("say", "x") == ToolCall(.failed, "", "The clock is not known to be right."))
    stand.refusal = DBusError(.denied, "Only root.")
    #expect(await stand.run("forget", "alice").code == .denied)
    #expect(await ToolCall.run("mesh", "show", "--bus", "unix:path=/nowhere").code == .noBus)
    #expect(await stand.run("show", "--bus-name", "org.earshot.nobody").code == .notRunning)
  }
}
