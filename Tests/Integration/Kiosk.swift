import Air
import Checking
import Common
import Crypto
import DBus
import Hall
import Hosting
import Loop
import Radio
import TestSupport
import Transfers
import Tuvali
import Verifier
import Wallet

/// The complete service without its program: a verifier and a wallet on one bus and one simulated radio without
/// latency, in real time, and a client of both.
@LoopActor
final class Kiosk {
  static let name = "org.earshot"

  let bus: PrivateBus
  let service: BusConnection
  let client: BusConnection
  let air: AirSpace
  let verifier: VerifierService
  let wallet: WalletService
  /// Paths in CredentialReceived.
  let received = Mailbox<ObjectPath>()
  /// All signals that the client received from the service.
  private(set) var signals: [Message] = []
  private var faces: [AnyObject] = []
  private var subscriptions: [Registration] = []

  init(
    decision: VerifierService.Settings.Decision = .client, verifierRandom: any RandomSource & Sendable = SystemRandom(),
    walletRandom: any RandomSource & Sendable = SystemRandom(), limits: BusLimits = BusLimits(),
    checker: WordChecker? = nil
  ) async throws {
    bus = try PrivateBus()
    service = BusConnection(address: .address(bus.address), limits: limits)
    client = BusConnection(address: .address(bus.address))
    air = AirSpace(scheduler: EventLoop.shared, seed: 1, conditions: AirConditions(latency: .zero))
    let radio = air.addNode().tenant(EventLoop.shared)
    var settings = VerifierService.Settings(engine: .init(name: "OVPMOSIP"), decision: decision)
    settings.check = CheckPolicy(isOn: checker != nil)
    verifier = VerifierService(
      radio: radio, scheduler: EventLoop.shared, settings: settings, checker: checker, random: verifierRandom)
    wallet = WalletService(
      radio: air.addNode().tenant(EventLoop.shared), scheduler: EventLoop.shared, random: { walletRandom })
    faces = [
      ManagerAdaptor(radio, services: ["Verifier", "Wallet"], on: service.objects),
      VerifierAdaptor(verifier, on: service.objects, manager: ManagerAdaptor.path),
      WalletAdaptor(wallet, on: service.objects, manager: ManagerAdaptor.path),
    ]
    service.objects.access = ServiceAccess.rule()
    client.connect()
    try await client.ready()
    subscriptions = [
      client.subscribe(SignalMatch(sender: Self.name)) { [weak self] in self?.signals.append($0) },
      client.subscribe(SignalMatch(sender: Self.name, member: "CredentialReceived")) { [received] in
        if let path = $0.arguments.first?.asObjectPath { received.put(path) }
      },
    ]
    service.connect(name: Self.name)
    try await service.ready()
  }

  func close() {
    verifier.stop()
    wallet.stop()
    subscriptions = []
    client.close()
    service.close()
    bus.stop()
  }

  func call(
    _ path: ObjectPath, _ interface: String, _ method: String, _ arguments: [DBusValue] = []
  ) async throws(DBusError) -> [DBusValue] {
    try await client.call(Self.name, path, interface, method, arguments)
  }

  func start() async throws -> String {
    try await call(VerifierAdaptor.path, VerifierAdaptor.interfaceName, "Start").first?.asString ?? ""
  }

  /// - Returns: the path of the outgoing transfer.
  func send(_ uri: String, _ credential: String) async throws -> ObjectPath {
    let values = try await call(
      WalletAdaptor.path, WalletAdaptor.interfaceName, "Send", [.string(uri), .string(credential)])
    return values.first?.asObjectPath ?? "/"
  }

  func property(_ path: ObjectPath, _ name: String, of interface: String) async throws -> DBusValue? {
    try await call(path, "org.freedesktop.DBus.Properties", "Get", [.string(interface), .string(name)]).first?.unwrapped
  }

  /// Waits until a property of a transfer has a value.
  func await(_ path: ObjectPath, _ name: String, _ value: DBusValue) async throws {
    let came = Mailbox<Bool>()
    let watch = client.subscribe(SignalMatch(sender: Self.name, path: path, member: "PropertiesChanged")) { message in
      if message.arguments.count == 3, message.arguments[1][name] == value { came.put(true) }
    }
    defer { watch.cancel() }
    if try await property(path, name, of: CredentialObjects.interfaceName) == value { return }
    _ = try await came.next()
  }
}

/// A checker that finds a text valid if it contains a word.
@LoopActor
final class WordChecker: CredentialChecker {
  static let claims = #"{"fullName":"Asha Example"}"#
  /// Whether verdicts are sent; otherwise they are held back.
  var isReady = true {
    didSet { if isReady { for give in waiting { give() } } }
  }
  let absence: String? = nil
  private let word: String
  private var waiting: [@LoopActor () -> Void] = []

  init(_ word: String) { self.word = word }

  func check(_ credential: [UInt8], then: @escaping @LoopActor (CheckVerdict) -> Void) -> Registration {
    let isValid = String(decoding: credential, as: UTF8.self).contains(word)
    let line =
      StandInChecker.verdict(
        isValid ? "valid" : "invalid", reasons: isValid ? [] : ["signatureWrong"],
        issuer: isValid ? "Residents Office" : nil,
        claims: isValid ? Self.claims : "null") + "\n"
    var isOver = false
    let give: @LoopActor () -> Void = {
      guard !isOver, let verdict = try? CheckReply.verdict(Array(line.utf8)) else { return }
      isOver = true
      then(verdict)
    }
    if isReady { EventLoop.shared.soon(give) } else { waiting.append(give) }
    return Registration { isOver = true }
  }
}
