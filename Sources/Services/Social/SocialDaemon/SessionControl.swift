import ASN
import Bytes
import Common
import Crypto
import DBus
import LocalSockets
import Loop
import Social
import Store

/// The client sessions that programs on this machine have with servers, each an object `org.earshot.SocialSession1`.
@LoopActor
final class SessionControl {
  nonisolated static let interfaceName = "org.earshot.SocialSession1"
  /// Maximum number of sessions that programs have at a time.
  private static let limit = 16

  private let directory: any Directory
  private let disk: any Offloading
  private let resolver: any HostResolving
  /// The trusted certificates for `wss:` servers, in PEM; nil means those of the system.
  var trustFile: String?
  private let bus: BusConnection
  private let manager: ObjectPath
  private var sessions: [UInt64: SocialSession] = [:]
  /// Number of calls of Connect that wait until the keys are read.
  private var opening = 0
  private var last: UInt64 = 0
  /// Memory that blobs and requests of all programs' sessions use.
  fileprivate var memory = SessionMemory()

  /// - Parameters:
  ///   - directory: the state directory.
  ///   - disk: reads the files of keys.
  ///   - resolver: finds the addresses of servers.
  init(
    _ directory: any Directory, disk: any Offloading, resolver: any HostResolving, bus: BusConnection,
    manager: ObjectPath
  ) {
    (self.directory, self.disk, self.resolver, self.bus, self.manager) = (directory, disk, resolver, bus, manager)
  }

  /// Sends signals about objects of the group to the caller.
  func watch(_ call: MethodCall) throws(DBusError) { try bus.objects.watch(call) }

  /// Stores the keys of a user under a name.
  func importKeys(_ name: String, _ text: [UInt8], then: @escaping SocialControl.Answer) {
    guard UserKeys.isName(name) else {
      return then(.failure(.invalidArgs("A key name has 1 to 64 letters, digits, dots, dashes and underscores.")))
    }
    let user: UserKey
    do throws(UserKeys.Malformed) {
      user = try UserKeys(text).user
    } catch {
      return then(.failure(.invalidArgs(error.sentence)))
    }
    disk.offload(
      { [directory] () -> Store.StoreError? in
        do throws(Store.StoreError) {
          let folder = try directory.openDirectory(making: UserKeys.folder)
          // The dot distinguishes the temporary name from names of keys.
          try folder.replace(name, with: text, temporary: ".\(name).new")
          return nil
        } catch {
          return error
        }
      },
      then: { error in
        if let error { then(.failure(.failed(error.sentence))) } else { then(.success([.string(user.hex)])) }
      })
  }

  /// Connects to a server as a user whose keys are stored.
  ///
  /// - Parameters:
  ///   - service: the service's public encryption key and its nonce, 64 and 48 digits, separated by a colon.
  ///   - user: the name of the stored keys.
  func connect(_ url: String, _ service: String, _ user: String, _ call: MethodCall) {
    let parts = service.split(separator: ":").map { try? Hex.decode(String($0)) }
    guard let address = ListenAddress(url) else {
      return call.fail(
        .invalidArgs("The URL is unix:PATH, tcp:HOST:PORT, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH."))
    }
    guard parts.count == 2, let bytes = parts[0], let nonce = parts[1], nonce.count == 24,
      let key = try? X25519.PublicKey(bytes)
    else {
      return call.fail(
        .invalidArgs("The service key is ServiceKey, 64 digits, a colon, and ServiceNonce, 48 digits."))
    }
    guard UserKeys.isName(user) else { return call.fail(.invalidArgs("\(user) is not a valid key name.")) }
    guard sessions.count + opening < Self.limit else {
      return call.fail(.limitExceeded("The maximum of \(Self.limit) sessions is open. End one first."))
    }
    opening += 1
    disk.offload(
      { [directory] () -> Result<UserKeys, DBusError> in
        do {
          guard try directory.status(of: UserKeys.folder) != nil,
            let text = try directory.openDirectory(UserKeys.folder).contents(of: user, limit: UserKeys.limit)
          else { return .failure(.notFound("There are no keys with the name \(user). Import them first.")) }
          return .success(try UserKeys(text))
        } catch let error as UserKeys.Malformed {
          return .failure(.failed(error.sentence))
        } catch {
          return .failure(.failed("The keys \(user) cannot be read: \(error)."))
        }
      },
      then: { [weak self] result in
        guard let self else { return call.fail(.notReady("The server is stopping.")) }
        opening -= 1
        switch result {
        case .failure(let error): call.fail(error)
        case .success(let keys):
          open(
            address,
            ClientSession.Configuration(
              service: key, nonce: nonce, user: keys.user, authentication: keys.authentication), call)
        }
      })
  }

  private func open(_ address: ListenAddress, _ configuration: ClientSession.Configuration, _ call: MethodCall) {
    last += 1
    let number = last
    let session = SocialSession(
      SocialClient(
        to: address, configuration, scheduler: EventLoop.shared, resolver: resolver, trustFile: trustFile),
      address: address, user: configuration.user, owner: call.sender, control: self)
    session.onLogin = { [weak session] error in
      guard let session, !call.isAnswered else { return }
      if let error { call.fail(error) } else { call.reply(.objectPath(session.path)) }
    }
    session.onEnd = { [weak self] in self?.sessions[number] = nil }
    sessions[number] = session
    session.start(
      on: bus, at: ObjectPath("\(SocialAdaptor.path.string)/session\(number)") ?? SocialAdaptor.path, manager)
  }
}

/// One session of a program. It ends with the program's connection to the bus.
@LoopActor
final class SocialSession {
  /// Maximum calls of Exec without an answer.
  private static let requestLimit = 16

  private(set) var path = SocialAdaptor.path
  /// Called once when the login has succeeded or failed.
  var onLogin: @LoopActor (DBusError?) -> Void = { _ in }
  /// Called once when the session has ended.
  var onEnd: @LoopActor () -> Void = {}

  private let client: SocialClient
  private let address: ListenAddress
  private let user: UserKey
  private let owner: String
  private weak var control: SessionControl?
  private var object: ExportedObject?
  private var watch: Registration?
  private var blobs = ArrivedBlobs()
  /// Number of calls of Exec without an answer.
  private var requests = 0
  /// Bytes of the inputs of these calls.
  private var requestBytes = 0
  private var reason = ""

  init(_ client: SocialClient, address: ListenAddress, user: UserKey, owner: String, control: SessionControl) {
    (self.client, self.address, self.user, self.owner, self.control) = (client, address, user, owner, control)
  }

  func start(on bus: BusConnection, at path: ObjectPath, _ manager: ObjectPath) {
    self.path = path
    object = bus.objects.export(path, interfaces: [Self.interface(self)], manager: manager)
    watch = bus.watchName(owner) { [weak self] owner in if owner == nil { self?.end() } }
    client.onEvent = { [weak self] event in self?.handle(event) }
    do throws(SocialClient.Failure) {
      try client.start()
    } catch {
      onLogin(.peerLost(error.sentence))
      end()
    }
  }

  private func handle(_ event: SocialClient.Event) {
    switch event {
    case .state(let state):
      object?.changed("State")
      if state == .established { onLogin(nil) }
    case .arrived(let blob):
      // A blob without memory is announced too: the program can still ask for it with Exec.
      if let control { _ = blobs.add(blob, other: requestBytes, &control.memory) }
      object?.emit(SessionControl.interfaceName, "BlobArrived", [.string(blob.sum.hex)], to: owner)
    case .redirected(let url):
      reason = url.isEmpty ? "Connect again after ten seconds." : "Connect to \(url) instead."
    case .ended(let sentence):
      onLogin(.peerLost(reason.isEmpty ? sentence : "\(sentence) \(reason)"))
      end()
    }
  }

  private func end() {
    client.close()
    if let control { blobs.removeAll(&control.memory) }
    watch = nil
    object = nil
    let report = onEnd
    onEnd = {}
    report()
  }

  // MARK: Requests

  private func exec(_ call: MethodCall) {
    guard let arguments = call.arguments.first?.asStrings, let file = call.arguments.last?.asDescriptor else {
      return call.fail(.invalidArgs("Exec takes words and a file."))
    }
    guard !arguments.isEmpty, arguments.count <= Limits.arguments,
      arguments.reduce(arguments.count, { $0 + $1.utf8.count }) <= Limits.argumentBytes
    else { return call.fail(.invalidArgs("A command has 1 to 256 words, and 64 KiB at most.")) }
    guard requests < Self.requestLimit else {
      return call.fail(.busy("\(Self.requestLimit) commands of the session have no answer; wait for one."))
    }
    requests += 1
    call.read(file, limit: Limits.largestBlob) { [weak self] result in
      guard let self else { return call.fail(.peerLost("The session has ended.")) }
      switch result {
      case .failure(let error):
        requests -= 1
        call.fail(error)
      case .success(let input): exec(arguments, input, call)
      }
    }
  }

  private func exec(_ arguments: [String], _ input: [UInt8], _ call: MethodCall) {
    let bytes = input.count
    guard let control, control.memory.take(bytes, own: requestBytes + blobs.bytes) else {
      requests -= 1
      return call.fail(.busy("The inputs and blobs of the sessions use all of their memory; fetch blobs, or wait."))
    }
    requestBytes += bytes
    client.exec(Command(arguments, input: input.isEmpty ? nil : input)) { [weak self, weak control] answer in
      control?.memory.giveBack(bytes)
      self?.requestBytes -= bytes
      self?.requests -= 1
      Self.finish(call, answer)
    }
  }

  private static func finish(
    _ call: MethodCall, _ answer: Result<Acknowledgement, SocialClient.Failure>
  ) {
    switch answer {
    case .failure(let failure): call.fail(.peerLost(failure.sentence))
    case .success(let acknowledgement):
      do throws(DBusError) {
        let file = try FileDescriptor.sealed(acknowledgement.data, name: "answer")
        call.reply(.byte(acknowledgement.result.rawValue), .descriptor(file))
      } catch {
        call.fail(error)
      }
    }
  }

  private static func confirm(
    _ call: MethodCall, _ answer: Result<Acknowledgement, SocialClient.Failure>
  ) {
    switch answer {
    case .failure(let failure): call.fail(.peerLost(failure.sentence))
    case .success(let acknowledgement) where acknowledgement.result != .success:
      call.fail(.failed("\(acknowledgement.text)."))
    case .success: call.reply()
    }
  }

  // MARK: The interface

  /// The D-Bus interface of a session.
  ///
  /// - Parameter session: nil if the interface is only described.
  static func interface(_ session: SocialSession?) -> Interface {
    func method(
      _ name: String, in input: [Argument] = [], out: [Argument] = [], _ documentation: String,
      errors: [DBusError.Name] = [], _ body: @escaping @LoopActor (SocialSession, MethodCall) -> Void
    ) -> Method {
      Method(
        name, in: input, out: out, documentation: documentation, errors: errors + [.peerLost],
        handler: { [weak session] call in
          // Only the program that connected uses the session.
          guard let session, session.owner == call.sender else {
            return call.fail(.denied("The session belongs to another program."))
          }
          body(session, call)
        })
    }
    return Interface(
      SessionControl.interfaceName,
      documentation:
        "A session of a program, as a client, with a social server. The object exists while the session does, and ends with the "
        + "program's connection to the bus. Other programs cannot use it.",
      methods: [
        method(
          "Exec", in: [Argument("argv", "as"), Argument("input", "h")],
          out: [Argument("result", "y"), Argument("output", "h")],
          "Carries out a command of the protocol. An empty file is no input. Returns the result code, 0 for success, and the "
            + "output or a sentence in a sealed memory file. A session has at most 16 commands without an answer.",
          errors: [.invalidArgs, .busy, .limitExceeded, .timeout]
        ) { $0.exec($1) },
        method(
          "Fetch", in: [Argument("sum", "s")], out: [Argument("blob", "h")],
          "Returns a blob that BlobArrived announced, with its header. The last 64 are available, each once, or fewer if they "
            + "and the inputs of Exec have more than 32 MiB.",
          errors: [.notFound]
        ) { session, call in
          guard let sum = call.arguments.first?.asString, let blob = session.blobs.blob(sum) else {
            return call.fail(.notFound("No blob with this sum is waiting."))
          }
          do throws(DBusError) {
            call.reply(.descriptor(try FileDescriptor.sealed(blob.bytes, name: "blob")))
            if let control = session.control { session.blobs.remove(blob.sum, &control.memory) }
          } catch {
            call.fail(error)
          }
        },
        method("Pause", "Suspends the session: the server pushes nothing until Resume.", errors: [.failed]) {
          session, call in
          session.client.pause { confirm(call, $0) }
        },
        method("Resume", "Ends a pause.", errors: [.failed]) { session, call in
          session.client.resume { confirm(call, $0) }
        },
        method("Quit", "Ends the session, and removes the object.", errors: [.failed]) { session, call in
          session.client.quit { confirm(call, $0) }
        },
      ],
      properties: [
        Property(
          "State", "s", documentation: "opened, provisional, established, suspended, quitting or closed.",
          get: { [weak session] in .string((session?.client.state ?? .closed).rawValue) }),
        Property(
          "Url", "s", documentation: "The address of the server.", emits: .const,
          get: { [weak session] in .string(session?.address.text ?? "") }),
        Property(
          "User", "s", documentation: "The public encryption key of the user, 64 digits.", emits: .const,
          get: { [weak session] in .string(session?.user.hex ?? "") }),
      ],
      signals: [
        Signal(
          "BlobArrived", [Argument("sum", "s")],
          documentation: "The server sent a blob: Fetch returns it. The signal goes to the session's program alone.")
      ])
  }
}
