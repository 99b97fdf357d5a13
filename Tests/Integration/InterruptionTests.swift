import DBus
import Foundation
import Loop
import TestSupport
import Testing
import Transfers
import Verifier
import Wallet

/// `earshot` as a process that is interrupted while the service works for it.
@Suite("Interrupted commands", .serialized)
struct InterruptionTests {
  init() { EventLoop.shared.runInBackground() }

  /// A file with a credential, and a run of the tool that sends it.
  @LoopActor
  private static func send(_ kiosk: Kiosk, _ uri: String) throws -> (run: ToolRun, file: URL) {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString)")
    try "a credential".write(to: file, atomically: true, encoding: .utf8)
    return (try ToolRun.earshot("wallet", "send", "--uri", uri, file.path, bus: kiosk.bus.address), file)
  }

  /// The path of the next transfer.
  @LoopActor
  private static func begun(_ kiosk: Kiosk, _ body: () throws -> Void) async throws -> ObjectPath {
    let added = Mailbox<ObjectPath>()
    let watch = kiosk.client.subscribe(SignalMatch(sender: Kiosk.name, member: "InterfacesAdded")) { message in
      if let path = message.arguments.first?.asObjectPath { added.put(path) }
    }
    defer { watch.cancel() }
    try body()
    return try await added.first { $0.string.hasPrefix(WalletAdaptor.path.string) }
  }

  @Test(
    "`wallet send` that is interrupted before it finds the verifier sends nothing later and ends by the signal",
    arguments: [SIGINT, SIGTERM, SIGHUP])
  @LoopActor
  func searching(signal: Int32) async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    _ = try await kiosk.call(VerifierAdaptor.path, VerifierAdaptor.interfaceName, "Stop")
    var run: ToolRun?
    var file: URL?
    let transfer = try await Self.begun(kiosk) {
      let sent = try Self.send(kiosk, uri)
      (run, file) = (sent.run, sent.file)
    }
    defer { if let file { try? FileManager.default.removeItem(at: file) } }
    #expect(try await kiosk.property(transfer, "State", of: CredentialObjects.interfaceName) == .string("searching"))
    run?.signal(signal)
    let result = try #require(try await run?.end())
    #expect(result.status == signal, "\(result)")
    #expect(result.complaint == "Cancelled. Nothing of the credential was sent.\n", "\(result)")
    #expect(try await kiosk.property(transfer, "State", of: CredentialObjects.interfaceName) == .string("failed"))
    #expect(kiosk.wallet.active == 0)
  }

  @Test(
    "`wallet send` that is interrupted after the credential was received reports that the service awaits the verdict"
  )
  @LoopActor
  func awaitingVerdict() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    var sent: (run: ToolRun, file: URL)?
    let outgoing = try await Self.begun(kiosk) { sent = try Self.send(kiosk, uri) }
    defer { if let sent { try? FileManager.default.removeItem(at: sent.file) } }
    let incoming = try await kiosk.received.next()
    try await kiosk.await(outgoing, "State", .string("received"))
    sent?.run.signal(SIGINT)
    let result = try #require(try await sent?.run.end())
    #expect(result.status == SIGINT, "\(result)")
    #expect(result.complaint.contains("The verifier has the credential already."), "\(result)")
    #expect(result.complaint.contains("earshot transfers show wallet/credential1"), "\(result)")
    _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "Accept")
    try await kiosk.await(outgoing, "State", .string("accepted"))
  }

  @Test("A second signal ends a command at once even if the service does not answer")
  @LoopActor
  func unanswered() async throws {
    let bus = try PrivateBus()
    defer { bus.stop() }
    let service = BusConnection(address: .address(bus.address))
    let asked = Mailbox<MethodCall>()
    service.objects.exportManager("/org/earshot")
    let wallet = Interface(
      WalletAdaptor.interfaceName, audience: .everybody,
      methods: [
        Method("SendFile", in: [Argument("uri", "s"), Argument("credential", "h")], handler: { asked.put($0) })
      ])
    let object = service.objects.export(WalletAdaptor.path, interfaces: [wallet], manager: "/org/earshot")
    defer { withExtendedLifetime(object) {} }
    service.connect(name: "org.earshot")
    try await service.ready()
    defer { service.close() }
    let run = try ToolRun(["earshot", "wallet", "send", "--uri", "x", "-"], bus: bus.address, input: "a credential")
    _ = try await asked.next()
    run.signal(SIGINT)
    run.signal(SIGTERM)
    #expect([SIGINT, SIGTERM].contains(try await run.end().status))
  }

  @Test("`transfers cancel` ends a running transfer, and fails for a transfer that has ended")
  @LoopActor
  func cancel() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    _ = try await kiosk.call(VerifierAdaptor.path, VerifierAdaptor.interfaceName, "Stop")
    let outgoing = try await kiosk.send(uri, "a credential")
    func run() async throws -> ToolRun.Result {
      try await ToolRun.earshot("transfers", "cancel", "wallet/credential1", bus: kiosk.bus.address).end()
    }
    let cancelled = try await run()
    #expect(cancelled.status == 0 && cancelled.output == "Cancelled wallet/credential1.\n", "\(cancelled)")
    #expect(try await kiosk.property(outgoing, "State", of: CredentialObjects.interfaceName) == .string("failed"))
    #expect(try await run().status == 1)
  }
}
