import Bitchat
import Crypto
import DBus
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Mesh files and pings over D-Bus")
struct MeshFileBusTests {
  init() { EventLoop.shared.runInBackground() }

  private static let properties = "org.freedesktop.DBus.Properties"

  @LoopActor
  private static func call(
    _ mesh: MeshProcess, _ file: ObjectPath, _ method: String
  ) async throws(DBusError) -> [DBusValue] {
    try await mesh.process.client.call("org.earshot", file, MeshFileObjects.interfaceName, method)
  }

  @LoopActor
  private static func all(_ mesh: MeshProcess, _ file: ObjectPath) async throws(DBusError) -> [String: DBusValue] {
    let values = try await mesh.process.client.call(
      "org.earshot", file, properties, "GetAll", [.string(MeshFileObjects.interfaceName)])
    return values.first?.asDictionary ?? [:]
  }

  @LoopActor
  private static func send(
    _ content: [UInt8], _ name: String, to peer: String, _ mesh: MeshProcess
  ) async throws -> ObjectPath {
    let file = try FileDescriptor.sealed(content, name: "test")
    let object = try await mesh.call("SendFile", [.descriptor(file), .string(name), .string(""), .string(peer)])
    return try #require(object.first?.asObjectPath)
  }

  @LoopActor
  private static func acquainted() async throws -> MeshProcess {
    let mesh = try await MeshProcess()
    try await mesh.process.start()
    try await mesh.delivered(try mesh.neighbour.messages.tell(try await mesh.id(), "hello"))
    return mesh
  }

  @Test("A mesh file passed to SendFile arrives unchanged, and Delete removes its object")
  @LoopActor
  func out() async throws {
    let mesh = try await Self.acquainted()
    defer { mesh.close() }
    let came = Mailbox<UInt32>()
    mesh.neighbour.files.arrivals.addForGood { came.put($0) }
    var random = SeededRandom(seed: 1)
    let content = random.bytes(20_000)
    let file = try await Self.send(content, "out.bin", to: mesh.neighbour.node.ownID.description, mesh)
    let number = try await came.next()
    #expect(mesh.neighbour.files[number]?.name == "out.bin" && mesh.neighbour.files[number]?.isPrivate == true)
    let opened = Mailbox<[UInt8]?>()
    mesh.neighbour.files.open(number) { opened.put(try? $0.get()) }
    #expect(try await opened.next() == content)
    #expect(try await Self.all(mesh, file)["Direction"]?.asString == "outgoing")
    _ = try await Self.call(mesh, file, "Delete")
    let gone = await caught(DBusError.self) { _ = try await Self.all(mesh, file) }
    #expect(gone?.is(.unknownObject) == true, "\(String(describing: gone))")
  }

  @Test("A received mesh file is signalled, described by properties, and opened with unchanged content")
  @LoopActor
  func incoming() async throws {
    let mesh = try await Self.acquainted()
    defer { mesh.close() }
    let waiting = Mailbox<UInt32>()
    let signals = SignalMatch(sender: "org.earshot", path: MeshAdaptor.path, member: "FileReceived")
    let watch = mesh.process.client.subscribe(signals) { waiting.put($0.arguments.first?.asUInt32 ?? 0) }
    defer { watch.cancel() }
    var random = SeededRandom(seed: 2)
    let content = random.bytes(20_000)
    _ = try mesh.neighbour.files.send(file: content, name: "in.bin", mime: "", to: try await mesh.id())
    let file = MeshFileObjects.path(try await waiting.next())
    let told = try await Self.all(mesh, file)
    #expect(told["Name"]?.asString == "in.bin" && told["Size"]?.asUInt64 == 20_000)
    #expect(told["State"]?.asString == "received" && told["Private"]?.asBool == true)
    #expect(told["Peer"]?.asString == mesh.neighbour.node.ownID.description)
    let opened = try await Self.call(mesh, file, "Open").first?.asDescriptor
    #expect(try opened?.readAll(limit: 100_000) == content)
  }

  @Test("A mesh file that cannot be sent is cancelled once, and a mesh ping is answered over one hop")
  @LoopActor
  func cancelled() async throws {
    let mesh = try await Self.acquainted()
    defer { mesh.close() }
    let answer = try await mesh.call("Ping", [.string(mesh.neighbour.node.ownID.description)])
    #expect(answer.count == 2 && answer.last?.asUInt32 == 1, "\(answer)")
    mesh.process.air.conditions.filter = { _ in .drop }
    var random = SeededRandom(seed: 3)
    let file = try await Self.send(random.bytes(500_000), "never", to: "", mesh)
    _ = try await Self.call(mesh, file, "Cancel")
    #expect(try await Self.all(mesh, file)["State"]?.asString == "cancelled")
    let again = await caught(DBusError.self) { _ = try await Self.call(mesh, file, "Cancel") }
    #expect(again?.is(.notReady) == true, "\(String(describing: again))")
  }
}
