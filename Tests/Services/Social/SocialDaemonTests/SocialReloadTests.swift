import ASN
import Bytes
import Crypto
import Foundation
import LocalSockets
import Loop
import Social
import TestSupport
import Testing

@testable import SocialDaemon

@Suite("TLS certificates of the social server", .serialized)
struct SocialReloadTests {
  init() { EventLoop.shared.runInBackground() }

  /// A client of a new user.
  @LoopActor
  private final class Visitor {
    let client: SocialClient
    private let events = Mailbox<SocialClient.Event>()

    init(_ process: SocialProcess, _ url: String, trust: String) async throws {
      let service = try await process.property("ServiceKey").asString ?? ""
      let nonce = try await process.property("ServiceNonce").asString ?? ""
      var random = SystemRandom()
      let made = UserKeys.make(random: &random)
      var configuration = ClientSession.Configuration(
        service: try X25519.PublicKey(try Hex.decode(service)), nonce: try Hex.decode(nonce), user: made.keys.user,
        authentication: made.keys.authentication)
      configuration.isNewUser = true
      let address = try #require(ListenAddress(url))
      client = SocialClient(to: address, configuration, scheduler: EventLoop.shared, trustFile: trust)
      client.onEvent = { [events] in events.put($0) }
      try client.start()
    }

    func isEstablished() async throws -> Bool {
      while true {
        switch try await events.next() {
        case .state(.established): return true
        case .ended: return false
        default: break
        }
      }
    }

    func echo(_ text: String) async throws -> String? {
      let answers = Mailbox<String?>()
      client.exec(Command(["echo", text])) { answers.put((try? $0.get())?.text) }
      return try await answers.next()
    }
  }

  @Test("After SIGHUP new wss: clients get the new certificate, and existing sessions continue")
  @LoopActor
  func reload() async throws {
    let folder = try ScratchFolder()
    let (first, second) = (TestCertificate.first, TestCertificate.second)
    try folder.write(Array(first.chain.utf8), to: "chain.pem")
    try folder.write(Array(first.key.utf8), to: "key.pem")
    try folder.write(Array(first.chain.utf8), to: "first.pem")
    try folder.write(Array(second.chain.utf8), to: "second.pem")
    let url = "wss://localhost:\(try FreePort.find())/asn"
    let process = try await SocialProcess(
      """
      Listen=\(url)
      Certificate=\(folder.path("chain.pem"))
      CertificateKey=\(folder.path("key.pem"))
      """)
    defer { process.close() }
    try await process.start()
    let early = try await Visitor(process, url, trust: folder.path("first.pem"))
    #expect(try await early.isEstablished())
    try folder.write(Array(second.chain.utf8), to: "chain.pem")
    try folder.write(Array(second.key.utf8), to: "key.pem")
    process.signal(SIGHUP)
    // Connections that are accepted before the files are read get the first certificate, and the client refuses it.
    var late = try await Visitor(process, url, trust: folder.path("second.pem"))
    var isNew = try await late.isEstablished()
    for _ in 0..<500 where !isNew {
      late = try await Visitor(process, url, trust: folder.path("second.pem"))
      isNew = try await late.isEstablished()
    }
    #expect(isNew)
    #expect(try await early.echo("early") == "early\n")
    #expect(try await late.echo("late") == "late\n")
    early.client.close()
    late.client.close()
  }

  @Test("A configured TLS address requires a certificate, and a certificate requires its key")
  func settings() {
    var settings = SocialSettings()
    settings.listen = [ListenAddress("wss://localhost/asn")].compactMap { $0 }
    #expect(settings.problem?.contains("wss://localhost:443/asn") == true)
    settings.certificate = "/a"
    #expect(settings.problem?.contains("CertificateKey=") == true)
    settings.certificateKey = "/b"
    #expect(settings.problem == nil)
  }
}
