import CommandLine
import MeshViews
import Terminal
import Testing

@testable import MeshCommands

@Suite("The map of `earshot mesh map`")
struct MapTests {
  static let own = "00000000000000ff"

  static func id(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }

  static func peer(_ number: Int, _ name: String, hops: Int = 0, rssi: Int? = nil) -> MeshPeerView {
    var peer = MeshPeerView(id: id(number))
    peer.nickname = name
    peer.hops = hops
    peer.isDirect = hops == 1
    peer.rssi = rssi
    return peer
  }

  private static func map(_ peers: [MeshPeerView], _ links: [(Int, Int)]) -> MeshMap {
    MeshMap(own: own, nickname: "desk", peers: peers, links: links.map { (id($0.0), id($0.1)) })
  }

  @Test("`mesh map` prints a tree by hops that contains each peer once, with neighbours sorted by signal")
  func tree() {
    let map = Self.map(
      [
        Self.peer(1, "alice", hops: 1, rssi: -80), Self.peer(2, "bob", hops: 1, rssi: -50),
        Self.peer(3, "carol", hops: 2), Self.peer(4, "dave", hops: 3), Self.peer(5, "erin", hops: 2),
      ],
      [(1, 255), (2, 255), (1, 3), (3, 4), (2, 5), (5, 4)])
    #expect(
      map.lines(width: 80, height: 23) == [
        "desk (this node)",
        "├─ bob  -50 dBm",
        "│  └─ erin",
        "│     └─ dave",
        "└─ alice  -80 dBm",
        "   └─ carol",
        "",
        "Further links:",
        "  carol – dave",
      ])
  }

  @Test("Cycles, links from a peer to itself and repeated links do not change the mesh map")
  func loops() {
    let peers = [Self.peer(1, "a", hops: 1), Self.peer(2, "b", hops: 1), Self.peer(3, "c", hops: 1)]
    let once = Self.map(peers, [(1, 2), (2, 3), (1, 3)])
    let again = Self.map(peers, [(2, 1), (1, 2), (1, 1), (255, 255), (2, 3), (3, 2), (1, 3), (255, 1)])
    #expect(again == once)
    #expect(
      once.lines(width: 80) == [
        "desk (this node)", "├─ a", "├─ b", "└─ c", "", "Further links:", "  a – b, a – c, b – c",
      ])
  }

  @Test("A mesh map without links lists the known peers, the nearest first")
  func alone() {
    let peers = [Self.peer(1, "alice"), Self.peer(2, "bob", hops: 2), Self.peer(3, "carol", hops: 1)]
    var far = peers
    far[2].isDirect = false
    #expect(
      Self.map(far, []).lines(width: 80) == [
        "desk (this node)", "No link is known.", "", "Peers without known links:",
        "  carol (1 hop), bob (2 hops), alice (not near)",
      ])
    #expect(Self.map([], []).lines(width: 80) == ["desk (this node)", "No link is known."])
  }

  @Test("Peers not connected to this node form a separate tree, which starts at the peer with the most links")
  func parts() {
    let map = Self.map(
      [Self.peer(1, "alice", hops: 1), Self.peer(2, "bob"), Self.peer(3, "carol"), Self.peer(4, "dave")],
      [(2, 3), (3, 4)])
    #expect(
      map.lines(width: 80) == [
        "desk (this node)", "└─ alice", "Not connected to this node by known links:", "carol", "├─ bob", "└─ dave",
      ])
  }

  @Test(
    "In the mesh map peers with a shared or missing nickname are shown with four digits")
  func names() {
    let map = Self.map(
      [Self.peer(0x1A2B, "alice", hops: 1), Self.peer(0x3C4D, "Alice", hops: 1), Self.peer(3, "desk", hops: 1)],
      [(3, 0x77)])
    #expect(
      map.lines(width: 80) == [
        "desk#00ff (this node)", "├─ Alice#3c4d", "├─ alice#1a2b", "└─ desk#0003", "   └─ #0077",
      ])
  }

  @Test("The mesh map contains no control characters of nicknames")
  func hostileNames() {
    let map = Self.map([Self.peer(1, "\u{1B}[2J\n└─ bob\u{202E}", hops: 1)], [])
    let text = map.lines(width: nil).joined()
    #expect(!text.unicodeScalars.contains { $0.value < 32 || $0 == "\u{202E}" })
    #expect(map.lines(width: nil).count == 2)
  }

  @Test("The mesh map with wide nicknames fits the terminal at every width", arguments: [20, 33, 80])
  func wide(width: Int) {
    let name = String(repeating: "漢字👩‍🚀", count: 20)
    let peers = (1...20).map { Self.peer($0, "\(name)\($0)", hops: $0 < 4 ? 1 : 2) }
    let map = Self.map(peers, [(1, 5), (2, 5), (3, 6), (5, 6)])
    let lines = map.lines(width: width, height: 23)
    #expect(lines.count <= 23)
    for line in lines { #expect(DisplayText.width(line) <= width, "\(line)") }
    #expect(lines.contains { $0.hasSuffix("…") })
  }

  @Test("The mesh map in 80 by 24 shows the nearest of 100 peers and counts the others", arguments: [8, 16, 24, 50])
  func hundred(height: Int) {
    let peers = (1...100).map { Self.peer($0, "peer\($0)", hops: $0 <= 10 ? 1 : 2) }
    let links = (11...80).map { (($0 - 1) % 10 + 1, $0) } + (11...70).map { ($0, $0 + 10) }
    let map = Self.map(peers, links)
    let lines = map.lines(width: 80, height: height - 1)
    #expect(lines.count <= height - 1 && lines.first == "desk (this node)")
    for line in lines { #expect(DisplayText.width(line) <= 80) }
    let shown = lines.filter { $0.contains("─ peer") }.count
    #expect(lines.contains("and \(80 - shown) more"), "\(lines)")
    // A peer two hops away does not displace a neighbour.
    #expect(lines.filter { $0.hasPrefix("├─") || $0.hasPrefix("└─") }.count == min(shown, 10))
    if height >= 16 {
      #expect(lines.contains("Further links:") && lines.contains("Peers without known links:"))
      #expect(lines.filter { $0.hasSuffix(" more") }.count == 3)
    }
    // Every peer is in the whole map, with a full or a shortened name.
    let whole = map.lines(width: 80).joined(separator: "\n")
    for peer in peers { #expect(whole.contains(peer.nickname)) }
  }

  @Test("A mesh map that exactly fits the terminal is not cut")
  func exact() {
    let peers = (1...22).map { Self.peer($0, "p\($0)", hops: 1) }
    let map = Self.map(peers, [])
    #expect(map.lines(width: 80, height: 23).count == 23)
    #expect(!map.lines(width: 80, height: 23).contains { $0.contains("more") })
    #expect(map.lines(width: 80, height: 22).last == "and 2 more")
    #expect(map.lines(width: 80, height: 22).count == 22)
    #expect(map.lines(width: 80, height: 1) == ["desk (this node)"])
  }

  @Test("For a chain of 200 hops the mesh map prints hop counts instead of branches, so that names fit")
  func chain() {
    let map = Self.map([Self.peer(1, "n1", hops: 1)], (1..<200).map { ($0, $0 + 1) } + [(200, 1000)])
    let lines = map.lines(width: 40)
    #expect(lines.count == 202)
    #expect(lines[1] == "└─ n1" && lines[201] == "… 201 hops: #03e8")
  }

  @Test("`mesh map --json` has each peer once, with its hops and predecessor, and all links")
  func json() {
    let map = Self.map(
      [Self.peer(1, "alice", hops: 1, rssi: -60), Self.peer(2, "bob", hops: 2), Self.peer(3, "carol")], [(1, 2)])
    #expect(
      map.json
        == [
          "peer": "00000000000000ff", "name": "desk",
          "peers": [
            ["peer": "0000000000000001", "name": "alice", "hops": 1, "via": "00000000000000ff", "signal": -60],
            ["peer": "0000000000000002", "name": "bob", "hops": 2, "via": "0000000000000001", "signal": nil],
            ["peer": "0000000000000003", "name": "carol", "hops": nil, "via": nil, "signal": nil],
          ],
          "links": [["0000000000000001", "0000000000000002"], ["0000000000000001", "00000000000000ff"]],
        ])
  }
}
