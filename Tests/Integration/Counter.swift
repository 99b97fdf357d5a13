import DBus
import Foundation
import Loop
import TestSupport
import Testing
import Transfers
import Verifier
import Wallet

/// A verifier as a process of its own that can be killed, and a wallet here.
@LoopActor
final class Counter {
  private let service: ServiceProcess
  private let wallet: WalletService
  /// The texts of the QR code, each as it is shown.
  private let invitations = Mailbox<String>()
  private var lastInvitation = ""
  private var watch: Registration?

  init(_ decision: String) async throws {
    service = try await ServiceProcess("Decision=\(decision)")
    wallet = WalletService(radio: service.radio(), scheduler: EventLoop.shared)
    let changes = SignalMatch(sender: "org.earshot", path: VerifierFace.path, member: "PropertiesChanged")
    watch = service.client.subscribe(changes) { [invitations] message in
      if message.arguments.count == 3, let text = message.arguments[1]["ConnectionUri"]?.asString, !text.isEmpty {
        invitations.put(text)
      }
    }
    try await start()
  }

  func start() async throws {
    try await service.start()
    // Those of the service that was killed are good for nothing.
    invitations.forget()
    invitations.put(try await service.invitation())
  }

  var processID: pid_t? { service.processID }

  func close() {
    watch = nil
    wallet.stop()
    service.close()
  }

  // MARK: Visitors

  /// When the service is killed in a visit.
  struct Moment {
    /// The packet on the air after which it is; where the visit has fewer, after the wallet knows of its success.
    let packet: Int
    /// How long after that.
    let pause: Duration
  }

  /// What a visit was.
  struct Visit {
    /// Whether the wallet was told that the credential is received.
    var toldSuccess = false
    /// How long before each packet nothing was on the air.
    var pauses: [Duration] = []
  }

  /// A visit in which the service is killed.
  ///
  /// - Parameter moment: nil for as soon as the wallet knows of its success.
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

  /// A visit up to the moment when the verifier has the credential.
  func deliver(_ credential: String) async throws {
    let received = Mailbox<Bool>()
    try await send(credential).onChange { if $0.state == .received { received.put(true) } }
    _ = try await received.next()
  }

  /// A visit that the wallet leaves when its credential is on the way.
  func loseVisitor(_ credential: String) async throws {
    let isGone = Mailbox<Bool>()
    try await send(credential).onChange { [wallet] in
      if $0.state == .transferring { _ = wallet.disconnect($0) }
      if !$0.isLive { isGone.put(true) }
    }
    _ = try await isGone.next()
  }

  /// The wallet's transfer to whom the QR code shows, which is another for each visitor.
  private func send(_ credential: String) async throws -> Transfer {
    lastInvitation = try await invitations.first { [lastInvitation] in !$0.isEmpty && $0 != lastInvitation }
    return try wallet.send(lastInvitation, Array(credential.utf8))
  }

  // MARK: Programs

  /// Judges the one credential that there is, and kills the service.
  ///
  /// - Parameter moment: so long after the call; nil for as soon as it is answered.
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

  /// Calls `Accept` or `Reject` of the one credential that there is.
  ///
  /// - Returns: where `true` comes when it is answered.
  func judge(_ verdict: String) async throws -> Mailbox<Bool> {
    let waiting = try await transfers().first { $0.state == "received" }
    let path = try #require(waiting?.path)
    let answer = Mailbox<Bool>()
    service.client.call("org.earshot", path, CredentialFaces.interfaceName, verdict) { result in
      if case .success = result { answer.put(true) }
    }
    return answer
  }

  /// Starts the service again, and takes and accepts every credential that it has.
  func restartAndTake() async throws -> [String] {
    try await start()
    let found = try await take()
    for transfer in try await transfers() where transfer.state == "received" {
      _ = try await service.client.call("org.earshot", transfer.path, CredentialFaces.interfaceName, "Accept")
    }
    // Where the service has accepted it, its file goes after it was taken.
    let spool = service.directory.appendingPathComponent("state/spool").path
    try await until { ((try? FileManager.default.contentsOfDirectory(atPath: spool)) ?? []).isEmpty }
    return found
  }

  /// Fetches every credential there is.
  ///
  /// - Parameter asFile: by `OpenCredential`.
  func take(asFile: Bool = false) async throws -> [String] {
    var found: [String] = []
    for transfer in try await transfers() where ["received", "accepted"].contains(transfer.state) {
      // One that was taken before, and is accepted, is no longer there.
      let values = try? await service.client.call(
        "org.earshot", transfer.path, CredentialFaces.interfaceName, asFile ? "OpenCredential" : "GetCredential")
      if let text = values?.first?.asString { found.append(text) }
      if let file = values?.first?.asDescriptor {
        found.append(String(decoding: try file.readAll(limit: 1 << 20), as: UTF8.self))
      }
    }
    return found
  }

  /// A program that asks for all there is, and is gone before it has an answer.
  func callAndVanish() async throws {
    let program = BusConnection(address: .address(service.bus.address))
    program.connect()
    try await program.ready()
    // Who calls is known from now on: what follows is carried out, although there is nobody to answer.
    _ = try await program.call("org.earshot", VerifierFace.path, VerifierFace.interfaceName, "Start")
    program.call(
      "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", then: { _ in })
    for transfer in try await transfers() {
      program.call("org.earshot", transfer.path, CredentialFaces.interfaceName, "OpenCredential", then: { _ in })
    }
    program.close()
  }

  func transfers() async throws -> [(path: ObjectPath, state: String)] {
    let objects = try await service.client.call(
      "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
    return (objects.first?.asDictionary ?? [:]).compactMap { path, interfaces in
      guard let path = ObjectPath(path), path.isWithin(VerifierFace.path),
        let state = interfaces[CredentialFaces.interfaceName]?["State"]?.asString
      else { return nil }
      return (path, state)
    }
  }

  // MARK: Size

  /// What the service occupies: memory that no file backs, and descriptors.
  func size() throws -> (anonymousKiB: Int, descriptors: Int) {
    let process = "/proc/\(try #require(service.processID))"
    let status = try String(contentsOfFile: "\(process)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
    let number = try #require(line.split { !$0.isNumber }.first.flatMap { Int($0) })
    return (number, try FileManager.default.contentsOfDirectory(atPath: "\(process)/fd").count)
  }
}
