import Common
import DBus
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("Loss of the bus during mesh traffic")
struct MeshBusTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "During a loss of the bus no acknowledged mesh message is lost or duplicated")
  @LoopActor
  func busGone() async throws {
    let mesh = try await MeshProcess()
    defer { mesh.close() }
    try await mesh.process.start()
    let id = try await mesh.id()
    try await mesh.delivered(try mesh.neighbour.messages.tell(id, "before all"))
    for round in 1...3 {
      let (coming, going) = ("while the bus is gone \(round)", "told to a bus that ends \(round)")
      // The reply may be lost with the bus.
      let asked = Mailbox<Bool>()
      mesh.process.client.call(
        "org.earshot", MeshAdaptor.path, MeshAdaptor.interfaceName, "Tell",
        [.string(mesh.neighbour.node.ownID.description), .string(going)]
      ) { result in if case .success = result { asked.put(true) } else { asked.put(false) } }
      if round > 1 { try await mesh.delivered(try mesh.neighbour.messages.tell(id, "amid \(round)")) }
      mesh.process.bus.kill()
      let wasAnswered = try await asked.next()
      // The radio link does not depend on the bus.
      try await mesh.delivered(try mesh.neighbour.messages.tell(id, coming))

      try mesh.process.bus.start()
      let back = Mailbox<Bool>()
      let watch = mesh.process.client.watchName("org.earshot") { if $0 != nil { back.put(true) } }
      _ = try await back.next()
      watch.cancel()
      let listed = try await mesh.listed()
      #expect(listed.count { $0 == coming } == 1, "round \(round)")
      #expect(listed.count { $0 == going } <= 1 && mesh.copies(going) <= 1, "round \(round)")
      if wasAnswered { #expect(listed.contains(going), "round \(round)") }
      if listed.contains(going) { try await mesh.told(going) }
      #expect(try await mesh.id() == id)
    }
    let last = "the bus is back"
    _ = try await mesh.call("Tell", [.string(mesh.neighbour.node.ownID.description), .string(last)])
    try await mesh.told(last)
    #expect(mesh.copies(last) == 1)
  }
}
