import ASN
import Glibc
import LocalSockets
import Loop
import TLS

/// Paths of the PEM files of a `wss:` server.
public struct CertificateFiles: Hashable, Sendable {
  /// File with the certificate, followed by its chain.
  public let chain: String
  /// File with the private key that belongs to the certificate.
  public let key: String

  public init(chain: String, key: String) { (self.chain, self.key) = (chain, key) }

  /// Makes the pair of paths; nil unless both are given.
  public init?(chain: String?, key: String?) {
    guard let chain, let key else { return nil }
    self.init(chain: chain, key: key)
  }
}

/// The addresses at which a server listens, the names in them, and the certificate of those with TLS.
@LoopActor
public final class SocialListeners<Store: BlobStore> {
  public enum Report: Sendable {
    case listening(ListenAddress)
    /// Listening at an address failed. The reason is a sentence.
    case notListening(String)
    /// A certificate is in use from now on; with its path.
    case certificate(String)
    /// There is no valid certificate; the reason is a sentence.
    case noCertificate(String)
  }

  /// Time after which a failed address is tried again, and a name without an address is looked up again.
  private static var retryTime: Duration { .seconds(30) }

  private let service: SocialService<Store>
  private let resolver: any HostResolving
  private let disk: any Offloading
  private let addresses: [ListenAddress]
  private var certificate: CertificateFiles?
  /// Called with each change, including changes of `problems`.
  public var onReport: @LoopActor (Report) -> Void = { _ in }
  private var failures: [ListenAddress: String] = [:]
  private var socketProblems: [String] = []
  private var certificateProblem: String?
  private var timers: [ListenAddress: Registration] = [:]

  /// Makes listeners.
  ///
  /// - Parameters:
  ///   - certificate: the files for TLS; nil if no address uses TLS.
  ///   - disk: reads the certificate.
  public init(
    _ service: SocialService<Store>, _ addresses: [ListenAddress], certificate: CertificateFiles?,
    resolver: any HostResolving, disk: any Offloading
  ) {
    (self.service, self.addresses, self.certificate) = (service, addresses, certificate)
    (self.resolver, self.disk) = (resolver, disk)
  }

  /// Sentences about addresses and certificates that do not work.
  public var problems: [String] {
    failures.sorted { $0.key.text < $1.key.text }.map(\.value) + socketProblems + [certificateProblem].compactMap { $0 }
  }

  /// Begins to listen.
  ///
  /// - Parameter then: called when the service listens at all addresses that need no lookup of a name.
  public func start(then: @escaping @LoopActor () -> Void) {
    loadCertificate { [weak self] in
      guard let self else { return }
      for address in addresses { open(address) }
      takeInherited()
      then()
    }
  }

  /// Reads the certificate again, and tries the addresses that failed.
  public func reload(_ certificate: CertificateFiles?) {
    self.certificate = certificate
    loadCertificate {}
    for address in Array(timers.keys) { open(address) }
  }

  // MARK: Addresses

  private func open(_ address: ListenAddress) {
    timers[address] = nil
    guard let (host, _) = address.target else { return listen(at: address, hosts: []) }
    if let hosts = HostResolver.known(host) { return listen(at: address, hosts: hosts) }
    resolver.resolve(host) { [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let hosts): listen(at: address, hosts: hosts)
      case .failure(let failure):
        retry(address)
        fail(address, "\(address.text) cannot be listened at: \(failure). The server tries again every 30 s.")
      }
    }
  }

  private func listen(at address: ListenAddress, hosts: [String]) {
    do throws(ListenError) {
      try service.listen(at: address, hosts: hosts, using: SocketListener())
      failures[address] = nil
      onReport(.listening(address))
    } catch {
      // An address of which one host works is not tried again: the machine may lack IPv6, for example.
      guard !service.addresses.contains(address) else { return fail(address, error.description) }
      retry(address)
      fail(address, "\(error.description) The server tries again every 30 s.")
    }
  }

  private func retry(_ address: ListenAddress) {
    timers[address] = EventLoop.shared.schedule(after: Self.retryTime) { [weak self] in self?.open(address) }
  }

  private func fail(_ address: ListenAddress, _ sentence: String) {
    guard failures[address] != sentence else { return }
    failures[address] = sentence
    onReport(.notListening(sentence))
  }

  private func takeInherited() {
    for (name, descriptor) in ServiceManager.takeListeners() {
      guard let address = ListenAddress(socketName: name) else {
        let problem =
          "The socket \(name) of systemd has no known name: FileDescriptorName= is asn, ws or wss, or one with -2015."
        socketProblems.append(problem)
        onReport(.notListening(problem))
        close(descriptor)
        continue
      }
      if address.isSecure, certificate == nil {
        let problem = "The socket \(name) of systemd needs Certificate= and CertificateKey=."
        socketProblems.append(problem)
        onReport(.notListening(problem))
      }
      service.listen(on: descriptor, address: address)
      onReport(.listening(address))
    }
  }

  // MARK: The certificate

  private func loadCertificate(then: @escaping @LoopActor () -> Void) {
    guard let certificate else { return then() }
    disk.offload(
      { () -> Result<PEMPair, PEMFile.Unreadable> in
        do throws(PEMFile.Unreadable) {
          return .success(
            PEMPair(chain: try PEMFile.contents(certificate.chain), key: try PEMFile.contents(certificate.key)))
        } catch {
          return .failure(error)
        }
      },
      then: { [weak self] result in
        self?.use(result, certificate.chain)
        then()
      })
  }

  private func use(_ result: Result<PEMPair, PEMFile.Unreadable>, _ path: String) {
    let kept = service.identity == nil ? "Connections to wss: are closed." : "The previous certificate stays in use."
    switch result {
    case .failure(let error): certificateProblem = "\(error.sentence) \(kept)"
    case .success(let certificate):
      if let identity = TLSIdentity(chain: certificate.chain, key: certificate.key) {
        service.identity = identity
        certificateProblem = nil
        onReport(.certificate(path))
      } else {
        certificateProblem = "\(path) and its key cannot be used: they are not PEM, or do not belong together. \(kept)"
      }
    }
    if let certificateProblem { onReport(.noCertificate(certificateProblem)) }
  }
}

private struct PEMPair: Sendable {
  let chain: [UInt8]
  let key: [UInt8]
}

/// Reads a file with a certificate or a key.
private enum PEMFile {
  struct Unreadable: Error {
    let sentence: String
  }

  private static let limit = 256 << 10

  static func contents(_ path: String) throws(Unreadable) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      throw Unreadable(sentence: "\(path) cannot be read: \(String(cString: strerror(errno))).")
    }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    while true {
      let count = read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else {
        throw Unreadable(sentence: "\(path) cannot be read: \(String(cString: strerror(errno))).")
      }
      if count == 0 { return bytes }
      bytes += buffer[..<count]
      guard bytes.count <= limit else {
        throw Unreadable(sentence: "\(path) has more than 256 KiB, and is not a certificate or a key.")
      }
    }
  }
}
