import ASN
import Bytes
import CommandLine
import Common
import Crypto
import DBus
import Glibc
import LocalSockets
import Loop
import Social
import Tool

/// A server and a user of it, from the options of a command.
struct RemoteTarget: Sendable {
  let address: ListenAddress
  /// The service's public encryption key and nonce.
  let service: X25519.PublicKey
  let nonce: [UInt8]
  /// The trusted certificates for `wss:` servers; nil means those of the system.
  let trustFile: String?

  /// Parses the options.
  ///
  /// - Parameters:
  ///   - url: unix:PATH, tcp:HOST:PORT, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH.
  ///   - service: the key and the nonce, 64 and 48 digits, separated by a colon.
  init(url: String, service: String, trustFile: String?) throws(Failure) {
    guard let address = ListenAddress(url) else {
      throw Failure(
        .usage, "\(url) is not a URL: unix:PATH, tcp:HOST:PORT, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH.")
    }
    let parts = service.split(separator: ":", omittingEmptySubsequences: false).map { try? Hex.decode(String($0)) }
    guard parts.count == 2, let bytes = parts[0], let nonce = parts[1], nonce.count == 24,
      let key = try? X25519.PublicKey(bytes)
    else {
      throw Failure(
        .usage, "The service is a key of 64 digits, a colon, and a nonce of 48 digits: see earshot social status.")
    }
    (self.address, self.service, self.nonce, self.trustFile) = (address, key, nonce, trustFile)
  }

  var serviceKey: UserKey { UserKey(service) }
}

/// A file with the secret keys of a user.
enum KeyFile {
  /// Reads a file that only its owner can read. A name without a slash is first looked up among systemd's credentials.
  static func read(_ path: String) throws(Failure) -> UserKeys {
    if !path.contains("/"), let folder = getenv("CREDENTIALS_DIRECTORY") {
      let credential = "\(String(cString: folder))/\(path)"
      if access(credential, R_OK) == 0 { return try keys(credential) }
    }
    var status = stat()
    if path != "-", stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_mode & 0o077 != 0 {
      throw Failure(.usage, "Other users have access to \(path), which has secret keys. Try: chmod 600 \(path)")
    }
    return try keys(path)
  }

  private static func keys(_ path: String) throws(Failure) -> UserKeys {
    let file = try InputFile(path, name: "keys")
    do {
      return try UserKeys(try file.descriptor.contents())
    } catch let error as UserKeys.Malformed {
      throw Failure(.usage, "\(path): \(error.sentence)")
    } catch {
      throw Failure(.failed, "\(path) cannot be read: \(error).")
    }
  }
}

/// A session of the tool itself with a server, without the daemon.
@LoopActor
final class RemoteSession {
  private let client: SocialClient
  private var opening: CheckedContinuation<Failure?, Never>?
  private var blobs = Fifo<Blob>()
  private var waiting: CheckedContinuation<Void, Never>?
  private var reason: String?
  private var advice = ""

  /// Connects and logs in.
  ///
  /// - Parameter isNewUser: whether this is the user's first login, which uploads the authentication key.
  init(_ target: RemoteTarget, _ keys: UserKeys, isNewUser: Bool = false) async throws(Failure) {
    var configuration = ClientSession.Configuration(
      service: target.service, nonce: target.nonce, user: keys.user, authentication: keys.authentication)
    configuration.isNewUser = isNewUser
    client = SocialClient(to: target.address, configuration, scheduler: EventLoop.shared, trustFile: target.trustFile)
    client.onEvent = { [weak self] event in self?.handle(event) }
    do throws(SocialClient.Failure) {
      try client.start()
    } catch {
      throw Failure(.failed, error.sentence)
    }
    if let failure = await withCheckedContinuation({ opening = $0 }) { throw failure }
  }

  private func handle(_ event: SocialClient.Event) {
    switch event {
    case .state(.established): open(nil)
    case .state: break
    case .arrived(let blob):
      blobs.append(blob)
      wake()
    case .redirected(let url):
      advice = url.isEmpty ? " Connect again after ten seconds." : " Connect to \(url) instead."
    case .ended(let sentence):
      reason = sentence + advice
      open(Failure(.failed, sentence + advice))
      wake()
    }
  }

  private func open(_ failure: Failure?) {
    opening?.resume(returning: failure)
    opening = nil
  }

  private func wake() {
    waiting?.resume()
    waiting = nil
  }

  /// Executes a command of the protocol.
  ///
  /// - Returns: the data of the positive acknowledgement.
  func exec(_ words: [String], input: [UInt8]? = nil) async throws(Failure) -> [UInt8] {
    let result = await withCheckedContinuation { continuation in
      client.exec(Command(words, input: input)) { continuation.resume(returning: $0) }
    }
    switch result {
    case .failure(let failure): throw Failure(.failed, failure.sentence)
    case .success(let answer) where answer.result != .success:
      throw Failure(.failed, "\(SocialCommand.clean(answer.text)) (result \(answer.result.rawValue))")
    case .success(let answer): return answer.data
    }
  }

  /// The next blob that arrives; nil when the session has ended.
  func next() async -> Blob? {
    while true {
      if let blob = blobs.popFirst() { return blob }
      if reason != nil { return nil }
      await withCheckedContinuation { waiting = $0 }
    }
  }

  /// The reason why the session has ended.
  var end: String { reason ?? "The session has ended." }

  /// Ends the session, and waits for the server's acknowledgement.
  func quit() async {
    _ = await withCheckedContinuation { continuation in
      client.quit { continuation.resume(returning: $0) }
    }
    client.close()
  }
}
