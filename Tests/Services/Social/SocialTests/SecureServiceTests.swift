import ASN
import Crypto
import LocalSockets
import Loop
import Social
import TLS
import TestSupport
import Testing
import WebSocket

/// A resolver with one name.
@LoopActor
private final class OneName: HostResolving {
  let hosts: [String]

  init(_ hosts: [String]) { self.hosts = hosts }

  func resolve(_ name: String, then: @escaping @LoopActor (Result<[String], HostFailure>) -> Void) {
    let result: Result<[String], HostFailure> =
      name == "social.test" ? .success(hosts) : .failure(HostFailure("the name \(name) has no address"))
    EventLoop.shared.soon { then(result) }
  }
}

/// A client of the social server, with a record of its events.
@LoopActor
private final class Visitor {
  let client: SocialClient
  private let events = Mailbox<SocialClient.Event>()
  private(set) var end: String?

  init(_ stand: SocialStand<MemoryBlobStore>, _ url: String, hosts: [String] = ["127.0.0.1"], trust: String?) throws {
    let address = try #require(ListenAddress(url))
    client = SocialClient(
      to: address, stand.configuration(), scheduler: EventLoop.shared, resolver: OneName(hosts), trustFile: trust)
    client.onEvent = { [events] in events.put($0) }
    try client.start()
  }

  /// Whether the session is established; false if it has ended.
  func isEstablished() async throws -> Bool {
    while true {
      switch try await events.next() {
      case .state(.established): return true
      case .ended(let sentence):
        end = sentence
        return false
      default: break
      }
    }
  }

  func exec(_ words: String...) async -> String? {
    let answers = Mailbox<String?>()
    client.exec(Command(words)) { answers.put((try? $0.get())?.text) }
    return try? await answers.next()
  }
}

@Suite("An ASN server with TLS and host names", .serialized)
struct SecureServiceTests {
  init() { EventLoop.shared.runInBackground() }

  private static func identity(_ certificate: TestCertificate) throws -> TLSIdentity {
    try #require(TLSIdentity(chain: Array(certificate.chain.utf8), key: Array(certificate.key.utf8)))
  }

  @Test("A TLS certificate is accepted only with its own key, and only if both are PEM")
  func identities() {
    let (first, second) = (TestCertificate.first, TestCertificate.second)
    #expect(TLSIdentity(chain: Array(first.chain.utf8), key: Array(second.key.utf8)) == nil)
    #expect(TLSIdentity(chain: Array("nothing".utf8), key: Array(first.key.utf8)) == nil)
    #expect(TLSIdentity(chain: Array(first.chain.utf8), key: []) == nil)
    #expect(TLSIdentity(chain: Array((first.chain + "\n" + second.chain).utf8), key: Array(first.key.utf8)) != nil)
  }

  /// A port at which nothing listens.
  private static func freePort() throws -> UInt16 { try FreePort.find() }

  @LoopActor
  private static func stand(_ port: UInt16, _ address: String = "wss://social.test:PORT/asn") throws
    -> (SocialStand<MemoryBlobStore>, String)
  {
    let stand = SocialStand(MemoryBlobStore(), offloading: SerialWorker("store"))
    let url = address.replacing("PORT", with: "\(port)")
    let place = try #require(ListenAddress(url))
    try stand.service.listen(at: place, hosts: ["127.0.0.1"], using: SocketListener())
    return (stand, url)
  }

  @Test("A wss: session continues after a reload, and the next client gets another certificate")
  @LoopActor
  func reload() async throws {
    let folder = try ScratchFolder()
    try folder.write(Array(TestCertificate.first.chain.utf8), to: "first.pem")
    try folder.write(Array(TestCertificate.second.chain.utf8), to: "second.pem")
    let (stand, url) = try Self.stand(try Self.freePort())
    stand.service.identity = try Self.identity(.first)
    let early = try Visitor(stand, url, trust: folder.path("first.pem"))
    #expect(try await early.isEstablished())
    #expect(await early.exec("echo", "one") == "one\n")
    stand.service.identity = try Self.identity(.second)
    let late = try Visitor(stand, url, trust: folder.path("second.pem"))
    #expect(try await late.isEstablished())
    let wrong = try Visitor(stand, url, trust: folder.path("first.pem"))
    #expect(try await wrong.isEstablished() == false)
    #expect(wrong.end?.contains("certificate is not trusted") == true)
    #expect(await early.exec("echo", "two") == "two\n")
    #expect(await late.exec("echo", "three") == "three\n")
    let text = String(repeating: "x", count: 60_000)
    #expect(await early.exec("echo", text) == text + "\n")
    early.client.close()
    late.client.close()
    stand.service.stop()
  }

  @Test("A client refuses an untrusted certificate, and the server refuses a wrong path over TLS")
  @LoopActor
  func untrusted() async throws {
    let folder = try ScratchFolder()
    try folder.write(Array(TestCertificate.first.chain.utf8), to: "first.pem")
    let port = try Self.freePort()
    let (stand, _) = try Self.stand(port)
    stand.service.identity = try Self.identity(.first)
    let numeric = try Visitor(stand, "wss://127.0.0.1:\(port)/asn", trust: folder.path("first.pem"))
    #expect(try await numeric.isEstablished())
    let system = try Visitor(stand, "wss://social.test:\(port)/asn", trust: nil)
    #expect(try await system.isEstablished() == false)
    #expect(system.end?.contains("certificate is not trusted") == true)
    let lost = try Visitor(stand, "wss://social.test:\(port)/other", trust: folder.path("first.pem"))
    #expect(try await lost.isEstablished() == false)
    #expect(lost.end == "The server refused the connection with the HTTP status 404.")
    numeric.client.close()
    stand.service.stop()
  }

  @Test("A client tries the addresses of a host name in order, and a name without addresses is in the error")
  @LoopActor
  func names() async throws {
    let port = try Self.freePort()
    let (stand, url) = try Self.stand(port, "ws://social.test:PORT/asn")
    let visitor = try Visitor(stand, url, hosts: ["127.0.0.2", "127.0.0.1"], trust: nil)
    #expect(try await visitor.isEstablished())
    let unknown = try Visitor(stand, "ws://unknown.test:\(port)/asn", trust: nil)
    #expect(try await unknown.isEstablished() == false)
    #expect(unknown.end == "The server cannot be reached: the name unknown.test has no address.")
    visitor.client.close()
    stand.service.stop()
  }

  @Test("Listening on an address in use is tried again, for example at a reload")
  @LoopActor
  func inUse() async throws {
    let stand = SocialStand(MemoryBlobStore(), offloading: SerialWorker("store"))
    let port = try Self.freePort()
    let address = try #require(ListenAddress("tcp:127.0.0.1:\(port)"))
    var other: Registration? = try SocketListener().listen(atHost: "127.0.0.1", port: port) { _, _ in }
    let listeners = SocialListeners(
      stand.service, [address], certificate: nil, resolver: OneName([]), disk: SerialWorker("disk"))
    let reports = Mailbox<String>()
    listeners.onReport = { report in
      switch report {
      case .listening(let address): reports.put("listening \(address.text)")
      case .notListening(let sentence): reports.put(sentence)
      case .certificate, .noCertificate: break
      }
    }
    listeners.start {}
    let problem = try await reports.next()
    #expect(problem.contains("is used by another program") && problem.contains("tries again every 30 s"))
    other?.cancel()
    other = nil
    listeners.reload(nil)
    #expect(try await reports.next() == "listening \(address.text)")
    #expect(listeners.problems == [])
    stand.service.stop()
  }

  @Test("Listeners read the certificate from files, and continue with the previous one if a reload finds none")
  @LoopActor
  func files() async throws {
    let folder = try ScratchFolder()
    try folder.write(Array(TestCertificate.first.chain.utf8), to: "chain")
    try folder.write(Array(TestCertificate.first.key.utf8), to: "key")
    let stand = SocialStand(MemoryBlobStore(), offloading: SerialWorker("store"))
    let port = try Self.freePort()
    let address = try #require(ListenAddress("wss://localhost:\(port)/asn"))
    let files = CertificateFiles(chain: folder.path("chain"), key: folder.path("key"))
    let listeners = SocialListeners(
      stand.service, [address], certificate: files, resolver: OneName([]), disk: SerialWorker("disk"))
    let reports = Mailbox<String>()
    listeners.onReport = { report in
      switch report {
      case .listening(let address): reports.put("listening \(address.text)")
      case .notListening(let sentence): reports.put(sentence)
      case .certificate(let path): reports.put("certificate \(path)")
      case .noCertificate(let sentence): reports.put(sentence)
      }
    }
    listeners.start {}
    #expect(try await reports.next() == "certificate \(files.chain)")
    #expect(try await reports.next() == "listening \(address.text)")
    let visitor = try Visitor(stand, address.text, trust: files.chain)
    #expect(try await visitor.isEstablished())
    try folder.write(Array(TestCertificate.second.key.utf8), to: "key")
    listeners.reload(files)
    let problem = try await reports.next()
    #expect(problem.contains("do not belong together") && problem.contains("The previous certificate stays in use"))
    #expect(listeners.problems == [problem])
    #expect(await visitor.exec("echo", "still") == "still\n")
    try folder.write(Array(TestCertificate.second.chain.utf8), to: "chain")
    listeners.reload(files)
    #expect(try await reports.next() == "certificate \(files.chain)")
    #expect(listeners.problems == [])
    visitor.client.close()
    stand.service.stop()
  }
}
