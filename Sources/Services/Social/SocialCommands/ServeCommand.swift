import ASN
import Bytes
import CommandLine
import Common
import Crypto
import Glibc
import LocalSockets
import Loop
import Social
import SocialStore
import Store
import Tool

/// `earshot social serve`: a server in the foreground, without systemd and without D-Bus.
@LoopActor
struct ServeCommand {
  private let line: ParsedCommand

  init(_ line: ParsedCommand) { self.line = line }

  private struct Opened: Sendable {
    let keys: ServiceKeys
    let store: SQLiteBlobStore
  }

  func run() async throws(Failure) -> ExitCode {
    // Threads inherit the blocked signals, so that this comes before the first worker.
    let ending = Ending()
    let texts = line.arguments("ADDRESS")
    var addresses: [ListenAddress] = []
    for text in texts {
      guard let address = ListenAddress(text) else {
        throw Failure(
          .usage, "\(text) is not an address: unix:/PATH, tcp:HOST:PORT, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH.")
      }
      addresses.append(address)
    }
    let certificate = CertificateFiles(chain: line.value("certificate"), key: line.value("certificate-key"))
    guard certificate != nil || (line.value("certificate") == nil && line.value("certificate-key") == nil) else {
      throw Failure(.usage, "--certificate and --certificate-key are needed together.")
    }
    if certificate == nil, let address = addresses.first(where: \.isSecure) {
      throw Failure(.usage, "\(address.text) needs --certificate and --certificate-key.")
    }
    let admin = try line.value("admin").map { (path) throws(Failure) in try KeyFile.read(path) }
    let worker = SerialWorker("store")
    let opened = try await open(try Self.directory(line.argument("DIRECTORY") ?? ""), worker)
    let service = serve(opened, admin, worker)
    let listeners = SocialListeners(
      service, addresses, certificate: certificate, resolver: HostResolver(), disk: SerialWorker("disk"))
    listeners.onReport = { report in
      switch report {
      case .listening(let address): Output.line("address   \(address.text)")
      case .certificate(let path): Output.complain("The certificate \(path) is in use.")
      case .notListening(let problem), .noCertificate(let problem): Output.complain(problem)
      }
    }
    ending.onReload = { listeners.reload(certificate) }
    service.onTrouble = { trouble in
      if let trouble { Output.complain("The blobs cannot be stored: \(trouble).") }
    }
    Output.line("key       \(opened.keys.user.hex)")
    Output.line("nonce     \(opened.keys.nonceText)")
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      listeners.start { continuation.resume() }
    }
    guard !service.addresses.isEmpty || !listeners.problems.isEmpty else {
      throw Failure(.usage, "ADDRESS is missing. Give an address at which the server listens.")
    }
    if service.addresses.isEmpty, listeners.problems.count >= addresses.count {
      throw Failure(.failed, "The server listens at no address.")
    }
    Output.complain("The server is running. Ctrl-C ends it.")
    await ending.wait()
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      service.stop { continuation.resume() }
    }
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      service.run({ engine, _ in engine.store.close() }, then: { continuation.resume() })
    }
    return .ok
  }

  /// The absolute path of a directory, which is created if it does not exist.
  private static func directory(_ path: String) throws(Failure) -> String {
    guard mkdir(path, 0o700) == 0 || errno == EEXIST, let real = realpath(path, nil) else {
      throw FileOutput.failure(path, "created", .failed)
    }
    defer { free(real) }
    return String(cString: real)
  }

  private func open(_ path: String, _ worker: SerialWorker) async throws(Failure) -> Opened {
    let result: Result<Opened, Store.StoreError> = await withCheckedContinuation { continuation in
      worker.offload(
        { () -> Result<Opened, Store.StoreError> in
          do throws(Store.StoreError) {
            let state = try StateDirectory(path: path)
            let keys = try ServiceKeys(in: state)
            do throws(ASN.StoreError) {
              return .success(Opened(keys: keys, store: try SQLiteBlobStore(in: state)))
            } catch {
              throw Store.StoreError(.failed, "The store in \(path) cannot be opened: \(error).")
            }
          } catch {
            return .failure(error)
          }
        },
        then: { continuation.resume(returning: $0) })
    }
    switch result {
    case .success(let opened): return opened
    case .failure(let error): throw Failure(.failed, error.sentence)
    }
  }

  private func serve(
    _ opened: Opened, _ admin: UserKeys?, _ worker: SerialWorker
  ) -> SocialService<SQLiteBlobStore> {
    let random = SystemRandom()
    let clock = SystemWallClock()
    let epoch: @LoopActor () -> UInt64 = { UInt64(max(0, clock.nanoseconds)) }
    var rules = CommandEngine<SQLiteBlobStore>.Configuration(
      service: opened.keys.user, serviceAuthentication: opened.keys.authentication.publicKey)
    rules.newUsers = line.value("new-users") == "admin" ? .admin : .anyone
    if let admin { (rules.admin, rules.adminAuthentication) = (admin.user, admin.authentication.publicKey) }
    let engine = CommandEngine(configuration: rules, store: opened.store, random: random)
    let session = ServerSession.Configuration(encryption: opened.keys.encryption, nonce: opened.keys.nonce)
    return SocialService(
      server: SocialServer(configuration: SocialServer.Configuration(session: session), random: random),
      worker: StoreWorker(engine, worker: worker, epoch: epoch), scheduler: EventLoop.shared, epoch: epoch)
  }
}

/// Waits for SIGINT or SIGTERM, which end the server, and reports SIGHUP as a reload.
@LoopActor
private final class Ending {
  var onReload: @LoopActor () -> Void = {}
  private var hasCome = false
  private var waiting: CheckedContinuation<Void, Never>?
  private var registrations: [Registration] = []

  init() {
    registrations = [SIGINT, SIGTERM].map { signal in
      EventLoop.shared.on(signal: signal) { [weak self] in
        self?.hasCome = true
        self?.waiting?.resume()
        self?.waiting = nil
      }
    }
    registrations.append(EventLoop.shared.on(signal: SIGHUP) { [weak self] in self?.onReload() })
  }

  func wait() async {
    if !hasCome { await withCheckedContinuation { waiting = $0 } }
  }
}
