import DBus
import Loop
import TestSupport
import Testing
import Transfers
import Verifier
import Wallet

@Suite("Loss of the bus and of programs on it")
struct BusFaultTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A credential that is received during a loss of the bus can be fetched when the bus is back")
  @LoopActor
  func busGone() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    kiosk.bus.kill()
    let received = Mailbox<Bool>()
    kiosk.verifier.observe(changed: {}, received: { _ in received.put(true) })
    let outgoing = try kiosk.wallet.send(uri, Array("credential".utf8))
    _ = try await received.next()
    #expect(outgoing.state == .received)

    try kiosk.bus.start()
    let back = Mailbox<Bool>()
    let watch = kiosk.client.watchName(Kiosk.name) { if $0 != nil { back.put(true) } }
    defer { watch.cancel() }
    _ = try await back.next()
    let path = VerifierAdaptor.path.child("credential1")
    #expect(try await kiosk.call(path, CredentialObjects.interfaceName, "GetCredential") == [.string("credential")])
    _ = try await kiosk.call(path, CredentialObjects.interfaceName, "Accept")
    try await kiosk.await(VerifierAdaptor.path.child("credential1"), "Live", .bool(false))
    #expect(outgoing.state == .accepted)
  }

  @Test("20 programs that call and disconnect leave no state in the service, and the next wallet is served")
  @LoopActor
  func clientVanishes() async throws {
    let kiosk = try await Kiosk(decision: .accept)
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    for _ in 0..<20 {
      let visitor = BusConnection(address: .address(kiosk.bus.address))
      visitor.connect()
      try await visitor.ready()
      // The service knows the caller from now on: later calls are carried out although the program is gone.
      _ = try await visitor.call(Kiosk.name, VerifierAdaptor.path, VerifierAdaptor.interfaceName, "Start")
      for method in ["Start", "Stop", "Start"] {
        visitor.call(Kiosk.name, VerifierAdaptor.path, VerifierAdaptor.interfaceName, method, then: { _ in })
      }
      let file = try FileDescriptor.sealed(Array("x".utf8), name: "test")
      visitor.call(
        Kiosk.name, WalletAdaptor.path, WalletAdaptor.interfaceName, "SendFile",
        [.string("nonsense"), .descriptor(file)],
        then: { _ in })
      visitor.close()
    }
    let now = try await kiosk.start()
    #expect(!now.isEmpty && now != uri)
    let outgoing = try await kiosk.send(now, "credential")
    try await kiosk.await(outgoing, "State", .string("accepted"))
    #expect(kiosk.wallet.transfers.transfers.count == 1)
  }
}
