import Bitchat
import Crypto
import DBus
import Hosting
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Mesh signals for programs that watch")
struct MeshWatchTests {
  init() { EventLoop.shared.runInBackground() }

  private static let mesh = "/org/earshot/mesh/"

  /// The signals about peers and files that one connection receives.
  @LoopActor
  private static func listen(_ connection: BusConnection) -> (signals: Mailbox<Message>, registration: Registration) {
    let signals = Mailbox<Message>()
    let registration = connection.subscribe(SignalMatch(sender: "org.earshot")) { message in
      let path = message.arguments.first?.asObjectPath ?? message.path
      if path?.string.hasPrefix(mesh) == true { signals.put(message) }
    }
    return (signals, registration)
  }

  @Test("New mesh peers, changed peers and file progress are signalled only to programs that watch")
  @LoopActor
  func watching() async throws {
    let mesh = try await MeshProcess()
    defer { mesh.close() }
    try await mesh.process.start()
    let client = mesh.process.client
    let other = BusConnection(address: .address(mesh.process.bus.address))
    other.connect()
    try await other.ready()
    defer { other.close() }
    let (signals, registration) = Self.listen(client)
    let (overheard, overhearing) = Self.listen(other)
    defer {
      registration.cancel()
      overhearing.cancel()
    }
    _ = try await other.call("org.earshot", "/", "org.freedesktop.DBus.Peer", "Ping")
    _ = try await client.call("org.earshot", ManagerAdaptor.path, ManagerAdaptor.interfaceName, "Watch")

    try await mesh.delivered(try mesh.neighbour.messages.tell(try await mesh.id(), "hello"))
    let peer = MeshAdaptor.path.child("peer\(mesh.neighbour.node.ownID)")
    func changed(_ path: ObjectPath, _ property: String, _ value: DBusValue) async throws {
      _ = try await signals.first { message in
        message.path == path && message.member == "PropertiesChanged"
          && message.arguments[1].asDictionary?[property] == value
      }
    }
    try await changed(peer, "Session", .bool(true))
    mesh.neighbour.setNickname("renamed")
    try await changed(peer, "Nickname", .string("renamed"))
    _ = try await client.call(
      "org.earshot", peer, MeshPeerObjects.interfaceName, "Favourite", [.bool(true)])
    try await changed(peer, "Favourite", .bool(true))

    var random = SeededRandom(seed: 2)
    _ = try mesh.neighbour.files.send(file: random.bytes(1 << 20), name: "in.bin", mime: "", to: "")
    let added = try await signals.first {
      $0.member == "InterfacesAdded" && $0.arguments.first?.asObjectPath?.string.hasPrefix(Self.mesh + "file") == true
    }
    let file = try #require(added.arguments.first?.asObjectPath)
    let properties = added.arguments.last?[MeshFileObjects.interfaceName]
    // A file that arrives within a second is listed when it is complete.
    if properties?["State"] == .string("receiving") { try await changed(file, "State", .string("received")) }
    _ = try await client.call("org.earshot", file, MeshFileObjects.interfaceName, "Delete")
    _ = try await signals.first { $0.member == "InterfacesRemoved" && $0.arguments.first?.asObjectPath == file }
    #expect(overheard.all.isEmpty)
  }
}
