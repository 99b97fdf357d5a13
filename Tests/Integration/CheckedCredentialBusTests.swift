import Checking
import Common
import DBus
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Verifier

@Suite("Verdicts of the checker on D-Bus", .serialized)
struct CheckedCredentialBusTests {
  init() { EventLoop.shared.runInBackground() }

  private static let interface = CredentialObjects.interfaceName

  @Test("A checker's verdict is signalled, and its properties and claims are readable until the credential is erased")
  @LoopActor
  func life() async throws {
    let checker = WordChecker("genuine")
    checker.isReady = false
    let kiosk = try await Kiosk(checker: checker)
    defer { kiosk.close() }
    let announced = Mailbox<ObjectPath>()
    let watch = kiosk.client.subscribe(SignalMatch(sender: Kiosk.name, member: "VerdictReceived")) {
      if let path = $0.arguments.first?.asObjectPath { announced.put(path) }
    }
    defer { watch.cancel() }
    _ = try await kiosk.send(try await kiosk.start(), "a genuine credential")
    let path = try await kiosk.received.next()
    #expect(try await kiosk.property(path, "Verdict", of: Self.interface) == .string("pending"))
    await #expect(throws: DBusError.self) { try await kiosk.call(path, Self.interface, "GetClaims") }
    checker.isReady = true
    #expect(try await announced.next() == path)
    #expect(try await kiosk.property(path, "Verdict", of: Self.interface) == .string("valid"))
    #expect(try await kiosk.property(path, "VerdictReasons", of: Self.interface) == .array(of: "(ss)", []))
    #expect(try await kiosk.property(path, "Issuer", of: Self.interface) == .string("Residents Office"))
    #expect(try await kiosk.property(path, "CredentialType", of: Self.interface) == .string("ResidentCredential"))
    #expect(try await kiosk.call(path, Self.interface, "GetClaims") == [.string(WordChecker.claims)])
    let verdict = try await kiosk.call(path, Self.interface, "GetVerdict").first?.asString
    #expect(verdict?.contains("\"validUntil\":\"2028-01-01T00:00:00Z\"") == true)
    _ = try await kiosk.call(path, Self.interface, "GetCredential")
    _ = try await kiosk.call(path, Self.interface, "Accept")
    await #expect(throws: DBusError.self) { try await kiosk.call(path, Self.interface, "GetClaims") }
    #expect(try await kiosk.property(path, "Verdict", of: Self.interface) == .string("valid"))
    // Broadcast signals contain no more of the credential than its path.
    for signal in kiosk.signals {
      let text = "\(signal.arguments)"
      #expect(!text.contains("Asha") && !text.contains("Residents Office") && !text.contains("\"valid\""), "\(text)")
    }
  }

  @Test("The reason for a checker's verdict on D-Bus has a code and a sentence")
  @LoopActor
  func reasons() async throws {
    let kiosk = try await Kiosk(checker: WordChecker("genuine"))
    defer { kiosk.close() }
    let announced = Mailbox<Bool>()
    let watch = kiosk.client.subscribe(SignalMatch(sender: Kiosk.name, member: "VerdictReceived")) { _ in
      announced.put(true)
    }
    defer { watch.cancel() }
    _ = try await kiosk.send(try await kiosk.start(), "a forged credential")
    let path = try await kiosk.received.next()
    _ = try await announced.next()
    #expect(
      try await kiosk.property(path, "VerdictReasons", of: Self.interface)
        == .array(of: "(ss)", [.structure([.string("signatureWrong"), .string("Because of signatureWrong.")])]))
  }

  @Test("A checker's verdict is readable for the same callers as its credential")
  @LoopActor
  func access() throws {
    let time = EventLoop.shared
    let transfer = TransferList(limit: 1, scheduler: time).add(.incoming, .received)
    let actions = CredentialActions(decide: { _, _, _ in false }, taken: { _ in }, disconnect: { _ in false })
    let interface = CredentialObjects.interface(transfer, actions)
    for name in ["Verdict", "VerdictReasons", "Issuer", "CredentialType"] {
      let property = try #require(interface.properties.first { $0.name == name })
      #expect(property.audience == .group, "\(name) is for \(property.audience)")
    }
    // All methods are restricted to the group, whatever their names.
    #expect(Set(interface.methods.map(\.name)).isSuperset(of: ["GetClaims", "GetVerdict", "GetCredential"]))
  }
}
