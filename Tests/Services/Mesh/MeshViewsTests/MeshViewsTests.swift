import DBus
import Testing

@testable import MeshViews

@Suite("Reading mesh values from D-Bus")
struct MeshViewsTests {
  static let row: [DBusValue] = [
    .uint32(7), .uint64(1_700_000_000_123), .string("00112233445566aa"), .string("00112233445566aa"), .string("bob"),
    .string("hello"), .string("unread"), .string("mesh"),
  ]

  @Test("A valid D-Bus message structure is read, and a malformed one is refused")
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
    #expect(message?.isByUplink == false)
    row[7] = .string("uplink")
    #expect(MeshMessageView(.structure(row))?.isByUplink == true)
  }

  @Test("Mesh peers and the node are read from the service's D-Bus objects")
  func objects() throws {
    let objects: [String: [String: [String: DBusValue]]] = [
      "/org/earshot/mesh": [MeshNames.interface: ["Nickname": .string("me"), "Links": .uint32(2)]],
      "/org/earshot/mesh/peer01": [
        MeshNames.peerInterface: [
          "PeerId": .string("01"), "Rssi": .int16(-60), "Hops": .uint32(1), "Direct": .bool(true),
          "LastSeen": .uint64(5), "Blocked": .bool(true), "VerifiedName": .string("mallory"),
          "NicknameHistory": .array(of: "s", [.string("mallory"), .string("alice")]),
        ]
      ],
      "/org/earshot/mesh/peer02": [MeshNames.peerInterface: ["Nickname": .string("without an ID")]],
    ]
    let peers = MeshPeerView.all(objects)
    #expect(peers.count == 1)
    let peer = try #require(peers.first)
    #expect(peer.rssi == -60 && peer.isNear && peer.isDirect && peer.lastSeen == 5 && peer.isBlocked)
    #expect(peer.verifiedName == "mallory" && peer.nicknameHistory == ["mallory", "alice"])
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
}
