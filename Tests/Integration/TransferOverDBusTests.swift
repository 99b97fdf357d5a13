import DBus
import Hosting
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Verifier
import Wallet

@Suite("Transfers over D-Bus")
struct TransferOverDBusTests {
  init() { EventLoop.shared.runInBackground() }

  private static let credential = "{\"verifiableCredential\":\"\(String(repeating: "नमस्ते ", count: 400))\"}"

  @Test("Over D-Bus a credential is sent, received, fetched, opened and accepted, and the wallet gets the verdict")
  @LoopActor
  func wholeWay() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    let outgoing = try await kiosk.send(uri, Self.credential)
    let incoming = try await kiosk.received.next()
    #expect(incoming == VerifierAdaptor.path.child("credential1"))
    let text = try await kiosk.call(incoming, CredentialObjects.interfaceName, "GetCredential")
    #expect(text == [.string(Self.credential)])
    let file = try await kiosk.call(incoming, CredentialObjects.interfaceName, "OpenCredential").first?.asDescriptor
    #expect(try file?.readAll(limit: 1 << 20) == Array(Self.credential.utf8))
    _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "Accept")
    try await kiosk.await(outgoing, "State", .string("accepted"))
    try await kiosk.await(incoming, "Live", .bool(false))
    #expect(try await kiosk.property(incoming, "State", of: CredentialObjects.interfaceName) == .string("accepted"))
    let next = try await kiosk.property(VerifierAdaptor.path, "ConnectionUri", of: VerifierAdaptor.interfaceName)
    #expect(next?.asString?.isEmpty == false)
    #expect(next != .string(uri))
  }

  @Test("No D-Bus signal contains the credential")
  @LoopActor
  func nothingInSignals() async throws {
    let kiosk = try await Kiosk(decision: .accept)
    defer { kiosk.close() }
    let outgoing = try await kiosk.send(try await kiosk.start(), Self.credential)
    try await kiosk.await(outgoing, "State", .string("accepted"))
    #expect(kiosk.signals.count > 3)
    let said = kiosk.signals.map { String(describing: $0) }.joined()
    #expect(!said.contains("verifiableCredential"))
    #expect(!said.contains("नमस्ते"))
  }

  @Test("A rejection reaches the wallet, and a second verdict is refused with a named error")
  @LoopActor
  func rejection() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let outgoing = try await kiosk.send(try await kiosk.start(), "x")
    let incoming = try await kiosk.received.next()
    _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "Reject")
    try await kiosk.await(outgoing, "State", .string("rejected"))
    let error = await caught(DBusError.self) {
      _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "Accept")
    }
    #expect(error?.is(.notReady) == true)
  }

  @Test(
    "OpenCredential returns a credential that GetCredential cannot, and a failed GetCredential does not count as fetched",
    arguments: ["a\u{0}b", "a\u{FFFE}", "\u{10FFFF}"])
  @LoopActor
  func unsendable(text: String) async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let credential = Array(text.utf8)
    let uri = try await kiosk.start()
    let file = try FileDescriptor.sealed(credential, name: "test")
    _ = try await kiosk.call(
      WalletAdaptor.path, WalletAdaptor.interfaceName, "SendFile", [.string(uri), .descriptor(file)])
    let incoming = try await kiosk.received.next()
    let error = await caught(DBusError.self) {
      _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "GetCredential")
    }
    #expect(error?.message.contains("OpenCredential") == true)
    #expect(try await kiosk.property(incoming, "Fetched", of: CredentialObjects.interfaceName) == .bool(false))
    let open = try await kiosk.call(incoming, CredentialObjects.interfaceName, "OpenCredential").first?.asDescriptor
    #expect(try open?.readAll(limit: 100) == credential)
  }

  @Test("An invitation is accepted with surrounding white space and with its parameters in any order")
  @LoopActor
  func pasted() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    for blank in ["\r\n", " ", "\t", "\u{FEFF}", "\u{A0}", "\u{2003}\n"] {
      let uri = try await kiosk.start()
      let parts = uri.split(separator: "?").flatMap { $0.split(separator: "&") }.map(String.init)
      try #require(parts.count == 3)
      let text = blank + parts[0] + "?" + parts[2] + "&" + parts[1] + blank
      _ = try await kiosk.send(text, "{}")
      let incoming = try await kiosk.received.next()
      _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "Reject")
    }
  }

  @Test("An invalid invitation or credential is refused at once with a named error")
  @LoopActor
  func refusals() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let uri = try await kiosk.start()
    for (uri, text, name) in [
      ("nonsense", "x", DBusError.Name.invalidArgs), (uri, "", .invalidArgs),
      (uri, String(repeating: "x", count: 4 << 20) + "x", .limitExceeded),
    ] {
      let error = await caught(DBusError.self) { _ = try await kiosk.send(uri, text) }
      #expect(error?.is(name) == true, "\(String(describing: error))")
    }
  }

  @Test("The D-Bus object manager lists every object with its properties")
  @LoopActor
  func managed() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    _ = try await kiosk.send(try await kiosk.start(), "x")
    let incoming = try await kiosk.received.next()
    let objects = try await kiosk.call("/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    let paths = objects.first?.asDictionary ?? [:]
    #expect(
      Set(paths.keys) == [
        "/org/earshot/verifier", "/org/earshot/wallet", "/org/earshot/wallet/credential1",
        incoming.string,
      ])
    let manager = ManagerAdaptor.interfaceName
    #expect(try await kiosk.property(ManagerAdaptor.path, "RadioState", of: manager) == .string("ready"))
  }

  @Test("Peer addresses and error messages are readable only by the group's members, and are in no signal")
  @LoopActor
  func peers() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let outgoing = try await kiosk.send(try await kiosk.start(), "x")
    let incoming = try await kiosk.received.next()
    let name = CredentialObjects.interfaceName
    var shown: [String] = []
    for path in [incoming, outgoing] {
      shown.append(try #require(try await kiosk.property(path, "Peer", of: name)?.asString))
    }
    #expect(Set(shown).count == 2 && shown.allSatisfy { BluetoothAddress($0) != nil })
    _ = try await kiosk.call(incoming, name, "Disconnect")
    try await kiosk.await(incoming, "Live", .bool(false))
    let failing = try await kiosk.send(kiosk.verifier.connectionURI, "x")
    _ = try await kiosk.call(failing, name, "Disconnect")
    try await kiosk.await(failing, "State", .string("failed"))
    shown.append(try #require(try await kiosk.property(failing, "ErrorMessage", of: name)?.asString))
    #expect(shown.last?.isEmpty == false)
    let said = kiosk.signals.map { "\($0)" }.joined()
    #expect(said.contains("\"Peer\"") && said.contains("\"ErrorMessage\"") && said.contains("\"State\""))
    for secret in shown { #expect(!said.contains(secret), "\(secret)") }
  }

  @Test("Disconnect ends a transfer that waits for its verdict, and its credential stays stored")
  @LoopActor
  func disconnect() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let outgoing = try await kiosk.send(try await kiosk.start(), "x")
    let incoming = try await kiosk.received.next()
    _ = try await kiosk.call(incoming, CredentialObjects.interfaceName, "Disconnect")
    try await kiosk.await(outgoing, "State", .string("undecided"))
    #expect(try await kiosk.call(incoming, CredentialObjects.interfaceName, "GetCredential") == [.string("x")])
  }
}
