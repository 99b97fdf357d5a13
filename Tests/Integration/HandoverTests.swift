import Glibc
import Loop
import TestSupport
import Testing
import Verifier

@testable import DBus
@testable import Transfers

/// Replies to programs that request an accepted credential.
@Suite("Passing a credential to a program")
struct HandoverTests {
  private static let name = CredentialObjects.interfaceName

  init() { EventLoop.shared.runInBackground() }

  /// A received, accepted credential, which the first program to fetch it takes.
  @LoopActor
  private static func accepted(
    _ credential: String, _ limits: BusLimits = BusLimits()
  ) async throws -> (kiosk: Kiosk, path: ObjectPath) {
    let kiosk = try await Kiosk(limits: limits)
    _ = try await kiosk.send(try await kiosk.start(), credential)
    let path = try await kiosk.received.next()
    _ = try await kiosk.call(path, name, "Accept")
    return (kiosk, path)
  }

  @Test("Fetching a credential above the bus's message limit fails with advice, and the credential stays stored")
  @LoopActor
  func tooLong() async throws {
    var limits = BusLimits()
    limits.sentMessage = 4000
    let credential = String(repeating: "x", count: 4000)
    let (kiosk, path) = try await Self.accepted(credential, limits)
    defer { kiosk.close() }
    for _ in 0..<2 {
      let error = await caught(DBusError.self) { _ = try await kiosk.call(path, Self.name, "GetCredential") }
      #expect(error?.is(.limitExceeded) == true && error?.message.contains("OpenCredential") == true)
      #expect(try await kiosk.property(path, "Fetched", of: Self.name) == .bool(false))
    }
    let file = try await kiosk.call(path, Self.name, "OpenCredential").first?.asDescriptor
    #expect(try file?.readAll(limit: 1 << 20) == Array(credential.utf8))
    try await kiosk.await(path, "Fetched", .bool(true))
    let error = await caught(DBusError.self) { _ = try await kiosk.call(path, Self.name, "OpenCredential") }
    #expect(error?.is(.notReady) == true)
  }

  @Test(
    "A GetCredential call without a reply does not mark the credential as fetched",
    arguments: ["GetCredential", "OpenCredential"])
  @LoopActor
  func noAnswerWanted(method: String) async throws {
    let (kiosk, path) = try await Self.accepted("{}")
    defer { kiosk.close() }
    var message = Message.call(Kiosk.name, path, Self.name, method, [])
    message.expectsReply = false
    _ = try kiosk.client.transport?.send(message)
    // The bus keeps the order: a reply to this call follows the handling of the earlier one.
    #expect(try await kiosk.property(path, "Fetched", of: Self.name) == .bool(false))
    #expect(try await kiosk.call(path, Self.name, "GetCredential") == [.string("{}")])
  }

  @Test("Every program that opens a credential gets a memory file with the same content, positioned at its start")
  @LoopActor
  func oneFile() async throws {
    let kiosk = try await Kiosk()
    defer { kiosk.close() }
    let credential = String(repeating: "one file. ", count: 500)
    _ = try await kiosk.send(try await kiosk.start(), credential)
    let path = try await kiosk.received.next()
    var nodes: Set<UInt> = []
    for _ in 0..<3 {
      let file = try #require(try await kiosk.call(path, Self.name, "OpenCredential").first?.asDescriptor)
      var status = stat()
      #expect(fstat(file.raw, &status) == 0)
      nodes.insert(UInt(status.st_ino))
      #expect(try file.readAll(limit: 1 << 20) == Array(credential.utf8))
    }
    #expect(nodes.count == 1)
  }

  @Test("If no memory file can be created, the credential can still be fetched with GetCredential")
  func withoutFile() throws {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var none = limit
    none.rlim_cur = 3
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
    let text = CredentialText(Array("in memory".utf8))
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    #expect(text.count == 9)
    #expect(try text.bytes() == Array("in memory".utf8))
    // Each program gets a file of its own.
    for _ in 0..<2 { #expect(try text.file().readAll(limit: 100) == Array("in memory".utf8)) }
    #expect("\(text)" == "<credential of 9 bytes>")
  }

  @Test("A credential object has ReceivedAt and ExpiresAt, and ExpiresAt is 0 once the credential was fetched")
  @LoopActor
  func dates() async throws {
    let (kiosk, path) = try await Self.accepted("{}")
    defer { kiosk.close() }
    func number(_ property: String) async throws -> UInt64 {
      guard case .uint64(let number)? = try await kiosk.property(path, property, of: Self.name) else { return 0 }
      return number
    }
    let received = try await number("ReceivedAt")
    #expect(received > 1_700_000_000_000)
    let expires = try await number("ExpiresAt")
    #expect((86_399_000...86_401_000).contains(expires - received))
    _ = try await kiosk.call(path, Self.name, "GetCredential")
    try await kiosk.await(path, "ExpiresAt", .uint64(0))
    #expect(try await number("ReceivedAt") > 1_700_000_000_000)
  }
}
