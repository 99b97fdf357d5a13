import DBus
import Foundation
import Loop
import TestSupport
import Testing
import Transfers
import Verifier
import Wallet

/// A verifier as a separate process that can be killed, and a wallet in this process.
@LoopActor
final class Counter {
  private let service: ServiceProcess
  private let wallet: WalletService
  /// The texts of the QR code, each as it appears.
  private let invitations = Mailbox<String>()
  private var lastInvitation = ""
  private var watch: Registration?

  init(_ decision: String) async throws {
    service = try await ServiceProcess("Decision=\(decision)")
    wallet = WalletService(radio: service.radio(), scheduler: EventLoop.shared)
    let changes = SignalMatch(sender: "org.earshot", path: VerifierAdaptor.path, member: "PropertiesChanged")
    watch = service.client.subscribe(changes) { [invitations] message in
      if message.arguments.count == 3, let text = message.arguments[1]["ConnectionUri"]?.asString, !text.isEmpty {
        invitations.put(text)
      }
    }
    try await start()
  }

  func start() async throws {
    try await service.start()
    // Invitations of the killed service are invalid.
    invitations.forget()
    invitations.put(try await service.invitation())
  }

  var processID: pid_t? { service.processID }

  func close() {
    watch = nil
    wallet.stop()
    service.close()
  }

  // MARK: Transfers

  /// The moment in a transfer at which the service is killed.
  struct Moment {
    /// The number of the packet after which it is killed; in a shorter transfer, after the wallet was notified of
    /// success.
    let packet: Int
    /// Delay after that packet.
    let pause: Duration
  }

  /// The result of a transfer.
  struct Visit {
    /// Whether the wallet was notified that the credential was received.
    var toldSuccess = false
    /// The idle time of the radio before each packet.
    var pauses: [Duration] = []
  }

  /// Runs a transfer during which the service is killed.
  ///
  /// - Parameter moment: nil for as soon as the wallet was notified of success.
  func visit(_ credential: String, killAt moment: Moment?) async throws -> Visit {
    var visit = Visit()
    let over = Mailbox<Bool>()
    var timer: Registration?
    func end() {
      guard timer == nil else { return }
      timer = EventLoop.shared.schedule(after: moment?.pause ?? .zero) { over.put(true) }
    }
    var last = EventLoop.shared.now
    service.air.conditions.filter = { _ in
      let now = EventLoop.shared.now
      visit.pauses.append(last.duration(to: now))
      last = now
      if visit.pauses.count == moment?.packet { end() }
      return .deliver
    }
    defer { service.air.conditions.filter = nil }
    let transfer = try await send(credential)
    transfer.onChange {
      guard $0.state == .received || $0.state == .accepted else { return }
      visit.toldSuccess = true
      end()
    }
    _ = try await over.next()
    timer?.cancel()
    service.end(SIGKILL)
    _ = wallet.disconnect(transfer)
    return visit
  }

  /// Runs a transfer until the verifier has the credential.
  func deliver(_ credential: String) async throws {
    let received = Mailbox<Bool>()
    try await send(credential).onChange { if $0.state == .received { received.put(true) } }
    _ = try await received.next()
  }

  /// Runs a transfer in which the wallet disconnects while it sends.
  func loseVisitor(_ credential: String) async throws {
    let isGone = Mailbox<Bool>()
    try await send(credential).onChange { [wallet] in
      if $0.state == .transferring { _ = wallet.disconnect($0) }
      if !$0.isLive { isGone.put(true) }
    }
    _ = try await isGone.next()
  }

  /// Starts a transfer to the verifier of the QR code, whose key differs for each client.
  private func send(_ credential: String) async throws -> Transfer {
    lastInvitation = try await invitations.first { [lastInvitation] in !$0.isEmpty && $0 != lastInvitation }
    return try wallet.send(lastInvitation, Array(credential.utf8))
  }

  // MARK: Programs

  /// Judges the only credential, and kills the service.
  ///
  /// - Parameter moment: delay after the call; nil for as soon as it is answered.
  /// - Returns: whether it was answered.
  func judge(_ verdict: String, takes: Bool, killAfter moment: Duration?) async throws -> Bool {
    if takes { _ = try await take() }
    let answer = try await judge(verdict)
    let timer = moment.map { EventLoop.shared.schedule(after: $0) { answer.put(false) } }
    let isAnswered = try await answer.next()
    timer?.cancel()
    service.end(SIGKILL)
    return isAnswered
  }

  /// Calls `Accept` or `Reject` for the only credential.
  ///
  /// - Returns: a mailbox that gets `true` with the reply.
  func judge(_ verdict: String) async throws -> Mailbox<Bool> {
    let waiting = try await transfers().first { $0.state == "received" }
    let path = try #require(waiting?.path)
    let answer = Mailbox<Bool>()
    service.client.call("org.earshot", path, CredentialObjects.interfaceName, verdict) { result in
      if case .success = result { answer.put(true) }
    }
    return answer
  }

  /// Restarts the service, and fetches and accepts all its credentials.
  func restartAndTake() async throws -> [String] {
    try await start()
    let found = try await take()
    for transfer in try await transfers() where transfer.state == "received" {
      _ = try await service.client.call("org.earshot", transfer.path, CredentialObjects.interfaceName, "Accept")
    }
    // An accepted credential's file is erased after it was fetched.
    let spool = service.directory.appendingPathComponent("state/spool").path
    try await until { ((try? FileManager.default.contentsOfDirectory(atPath: spool)) ?? []).isEmpty }
    return found
  }

  /// Fetches all credentials.
  ///
  /// - Parameter asFile: whether by `OpenCredential`.
  func take(asFile: Bool = false) async throws -> [String] {
    var found: [String] = []
    for transfer in try await transfers() where ["received", "accepted"].contains(transfer.state) {
      // A credential that was fetched before and is accepted no longer exists.
      let values = try? await service.client.call(
        "org.earshot", transfer.path, CredentialObjects.interfaceName, asFile ? "OpenCredential" : "GetCredential")
      if let text = values?.first?.asString { found.append(text) }
      if let file = values?.first?.asDescriptor {
        found.append(String(decoding: try file.readAll(limit: 1 << 20), as: UTF8.self))
      }
    }
    return found
  }

  /// Makes a program request everything and exit before the replies.
  func callAndVanish() async throws {
    let program = BusConnection(address: .address(service.bus.address))
    program.connect()
    try await program.ready()
    // The service knows the caller from now on: its calls are carried out, although the caller is gone.
    _ = try await program.call("org.earshot", VerifierAdaptor.path, VerifierAdaptor.interfaceName, "Start")
    program.call(
      "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", then: { _ in })
    for transfer in try await transfers() {
      program.call("org.earshot", transfer.path, CredentialObjects.interfaceName, "OpenCredential", then: { _ in })
    }
    program.close()
  }

  func transfers() async throws -> [(path: ObjectPath, state: String)] {
    let objects = try await service.client.call(
      "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    return (objects.first?.asDictionary ?? [:]).compactMap { path, interfaces in
      guard let path = ObjectPath(path), path.isWithin(VerifierAdaptor.path),
        let state = interfaces[CredentialObjects.interfaceName]?["State"]?.asString
      else { return nil }
      return (path, state)
    }
  }

  // MARK: Size

  /// The resources of the service: memory without a file behind it, and descriptors.
  func size() throws -> (anonymousKiB: Int, descriptors: Int) {
    let process = "/proc/\(try #require(service.processID))"
    let status = try String(contentsOfFile: "\(process)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
    let number = try #require(line.split { !$0.isNumber }.first.flatMap { Int($0) })
    return (number, try FileManager.default.contentsOfDirectory(atPath: "\(process)/fd").count)
  }
}
