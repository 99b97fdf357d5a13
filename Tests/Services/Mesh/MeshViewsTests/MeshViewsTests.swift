import DBus
import Testing

@testable import MeshViews

@Suite("The mesh as a program sees it")
struct MeshViewsTests {
  static let row: [DBusValue] = [
    .uint32(7), .uint64(1_700_000_000_123), .string("00112233445566aa"), .string("00112233445566aa"), .string("bob"),
    .string("hello"), .string("unread"),
  ]

  @Test("A message is read, and what is no message is not")
  func message() {
    let message = MeshMessageView(.structure(Self.row))
    #expect(
      message
        == MeshMessageView(
          number: 7, time: 1_700_000_000_123, conversation: "00112233445566aa", sender: "00112233445566aa",
          nickname: "bob", text: "hello", state: .unread))
    #expect(message?.isPrivate == true)
    #expect(MeshMessageView(.structure(Array(Self.row.dropLast()))) == nil)
    for index in Self.row.indices {
      var row = Self.row
      row[index] = .bool(true)
      #expect(MeshMessageView(.structure(row)) == nil, "member \(index)")
    }
    var row = Self.row
    row[6] = .string("of another time")
    #expect(MeshMessageView(.structure(row))?.state == .unknown)
  }

  @Test("A peer and the node are read from the objects of the service")
  func objects() throws {
    let objects: [String: [String: [String: DBusValue]]] = [
      "/org/earshot/mesh": [MeshNames.interface: ["Nickname": .string("me"), "Links": .uint32(2)]],
      "/org/earshot/mesh/peer01": [
        MeshNames.peerInterface: [
          "PeerId": .string("01"), "Rssi": .int16(-60), "Hops": .uint32(1), "Direct": .bool(true),
          "LastSeen": .uint64(5), "Blocked": .bool(true),
        ]
      ],
      "/org/earshot/mesh/peer02": [MeshNames.peerInterface: ["Nickname": .string("without an ID")]],
    ]
    let peers = MeshPeerView.all(objects)
    #expect(peers.count == 1)
    let peer = try #require(peers.first)
    #expect(peer.rssi == -60 && peer.isNear && peer.isDirect && peer.lastSeen == 5 && peer.isBlocked)
    #expect(MeshPeerView(["PeerId": .string("01"), "Rssi": .int16(127)])?.rssi == nil)
    #expect(MeshPeerView(["PeerId": .string("01"), "Rssi": .int16(0)])?.rssi == 0)
    #expect(!peer.isVerified && !peer.isFavourite && !peer.hasSession)
    var node = try #require(MeshView(objects: objects))
    #expect(node.nickname == "me" && node.links == 2)
    node.update(["State": .string("alone")])
    #expect(node.nickname == "me" && node.state == "alone")
    #expect(MeshView(objects: [:]) == nil)
    #expect(MeshNames.path(ofPeer: "00112233445566aa").string == "/org/earshot/mesh/peer00112233445566aa")
  }

  @Test("Two peers of one name are told apart by four digits, and nobody can pass for another")
  func names() {
    var book = MeshNameBook()
    book.add("000000000000aaaa", nickname: "alice")
    #expect(book.name(of: "000000000000aaaa") == "alice")
    book.add("000000000000bbbb", nickname: "Alice ")
    #expect(book.name(of: "000000000000aaaa") == "alice#aaaa" && book.name(of: "000000000000bbbb") == "Alice#bbbb")
    #expect(book.peers(called: "ALICE") == ["000000000000aaaa", "000000000000bbbb"])
    #expect(book.peers(called: "alice#bbbb") == ["000000000000bbbb"])
    book.add("000000000000bbbb", nickname: "bob")
    #expect(book.name(of: "000000000000aaaa") == "alice" && book.peers(called: "alice") == ["000000000000aaaa"])
    // What was said under a name that another has now.
    #expect(book.name(of: "000000000000bbbb", nickname: "alice") == "alice#bbbb")
    book.add("000000000000cccc", nickname: "bob#bbbb")
    #expect(book.name(of: "000000000000cccc") == "bob#bbbb#cccc")
    book.add("000000000000dddd", nickname: " \u{202E}x\n")
    #expect(book.name(of: "000000000000dddd") == "\u{FFFD}x\u{FFFD}")
    book.add("000000000000eeee", nickname: "")
    #expect(book.name(of: "000000000000eeee") == "#eeee")
    #expect(book.peers(called: "000000000000eeee") == ["000000000000eeee"])
    #expect(book.names.count == 5)
  }

  @Test(
    "What shows nothing makes no other name: joiners, selectors, fillers and blank patterns tell nobody apart",
    arguments: [
      "alice\u{FE0F}", "ali\u{200D}ce", "alice\u{200C}", "\u{3164}alice", "alice \u{FFA0}", "al\u{034F}ice",
      "ALICE\u{2800}", "alice\u{115F} ",
    ])
  func lookalikes(nickname: String) {
    var book = MeshNameBook()
    book.add("000000000000aaaa", nickname: "alice")
    book.add("000000000000bbbb", nickname: nickname)
    #expect(book.name(of: "000000000000aaaa") == "alice#aaaa")
    #expect(book.name(of: "000000000000bbbb").hasSuffix("#bbbb"))
    #expect(book.peers(called: "alice") == ["000000000000aaaa", "000000000000bbbb"])
  }

  @Test("A name that shows nothing is none, and one with an arrow makes no line look private")
  func blanksAndArrows() throws {
    let book = MeshNameBook()
    for blank in ["\u{3164}", "\u{2800}\u{2800}", "\u{200D} \u{FE0F}"] {
      #expect(book.name(of: "000000000000aaaa", nickname: blank) == "#aaaa")
    }
    for arrow in ["→", "⟶", "➔", "⮕", "⇒", "➡\u{FE0F}"] {
      let scalar = try #require(arrow.unicodeScalars.first)
      let name = book.name(of: "000000000000aaaa", nickname: "alice \(arrow) you")
      #expect(
        name.unicodeScalars.starts(with: "alice \u{FFFD}".unicodeScalars) && name.hasSuffix(" you")
          && !name.unicodeScalars.contains(scalar))
    }
    #expect(book.name(of: "000000000000aaaa", nickname: "zoë ⭐ 👩\u{200D}🚀") == "zoë ⭐ 👩\u{200D}🚀")
  }
}
