import Common
import DBus
import Hosting
import Journal
import Loop
import Radio
import Thali

/// D-Bus adaptor of Bluetooth for private presence: `org.earshot.PresenceRadio1`, for `earshot-presenced` alone.
@LoopActor
final class PresenceRadioAdaptor {
  nonisolated static let interfaceName = "org.earshot.PresenceRadio1"
  nonisolated static let path: ObjectPath = "/org/earshot/radio/presence"
  /// The object and the interface of the program that uses the radio.
  nonisolated static let sinkPath: ObjectPath = "/org/earshot/presence/sink"
  nonisolated static let sinkInterface = "org.earshot.PresenceSink1"
  /// The user of `earshot-presenced`.
  nonisolated static let userName = "earshot-presence"

  private let service: PresenceRadioService
  private let bus: BusConnection
  private let caller: SoleCaller<BusSink>
  private var object: ExportedObject?

  /// - Parameter users: returns the users that may call; nil: the users of `earshot-presenced` and of this service.
  init(
    _ service: PresenceRadioService, on bus: BusConnection, tree: ObjectTree, manager: ObjectPath,
    users: (@LoopActor () -> Set<UInt32>)? = nil
  ) {
    (self.service, self.bus) = (service, bus)
    caller = SoleCaller(
      Self.userName, on: bus, users: users, denied: "Only the user \(Self.userName) may do this.",
      busy: "Another program uses the radio for private presence.")
    caller.onLeave = { service.detach() }
    object = tree.export(
      Self.path,
      interfaces: [
        Self.interface(service, denied: { [weak self] in self?.caller.deniedCalls ?? 0 }) { [weak self] in
          self?.check($0, $1)
        }
      ], manager: manager)
    service.changes.addForGood { [weak self] in self?.object?.changed("State", "Reason", "Announcing", "Reachable") }
  }

  // MARK: The caller

  /// Runs `body` if the caller is permitted, and makes the caller the program that uses the radio.
  private func check(_ call: MethodCall, _ body: @escaping @LoopActor (MethodCall) -> Void) {
    if caller.sink(of: call) != nil { return body(call) }
    caller.admit(call) { [weak self] call in
      guard let self else { return call.fail(.notReady("The service stops.")) }
      attach(call)
      body(call)
    }
  }

  private func attach(_ call: MethodCall) {
    guard caller.sink(of: call) == nil else { return }
    let sink = BusSink(call.sender, bus)
    caller.attach(sink, as: call.sender)
    service.attach(sink)
  }

  // MARK: The interface

  typealias Check = @LoopActor (MethodCall, @escaping @LoopActor (MethodCall) -> Void) -> Void

  /// - Parameter check: runs a method if its caller is permitted.
  static func interface(
    _ service: PresenceRadioService, denied: @escaping @LoopActor () -> UInt64 = { 0 },
    check: @escaping Check = { call, _ in call.fail(.notReady("The service stops.")) }
  ) -> Interface {
    Interface(
      interfaceName,
      documentation:
        "Bluetooth for private presence. Only the user earshot-presence may call. The first call makes the caller the "
        + "program that uses the radio, until it leaves the bus: it gets the calls Sighted and Accept of "
        + "org.earshot.PresenceSink1 at /org/earshot/presence/sink. Another program gets Busy meanwhile.",
      audience: .everybody, methods: methods(service, check), properties: properties(service, denied))
  }

  private static func methods(_ service: PresenceRadioService, _ check: @escaping Check) -> [Method] {
    [
      Method(
        "Announce", in: [Argument("generation", "y")],
        documentation:
          "Advertises that the program has beacons of this generation, and accepts RFCOMM links. Each generation is "
          + "advertised from a new address.",
        errors: [.denied, .busy, .notReady],
        handler: { call in
          check(call) { call in
            guard let generation = call.arguments.first?.asByte else {
              return call.fail(.invalidArgs("Announce takes a byte."))
            }
            do throws(PresenceRadioService.Refusal) {
              try service.announce(generation)
              call.reply()
            } catch {
              call.fail(DBusError(error))
            }
          }
        }),
      Method(
        "Silence", documentation: "Ends the advertisement, and accepts no more links. Open links stay.",
        errors: [.denied, .busy],
        handler: { call in
          check(call) { call in
            service.silence()
            call.reply()
          }
        }),
      Method(
        "Scan", in: [Argument("wanted", "b")],
        documentation: "Starts or stops the calls of Sighted, which report the advertisements of peers.",
        errors: [.denied, .busy],
        handler: { call in
          check(call) { call in
            guard let isWanted = call.arguments.first?.asBool else {
              return call.fail(.invalidArgs("Scan takes a boolean."))
            }
            service.scan(isWanted)
            call.reply()
          }
        }),
      Method(
        "Connect", in: [Argument("address", "s")], out: [Argument("link", "h")],
        documentation:
          "Opens an RFCOMM link to a device, and returns a stream socket that carries its bytes. The link ends with "
          + "the socket, and the socket with the link.",
        errors: [.denied, .busy, .invalidArgs, .notReady, .notSupported, .peerLost, .limitExceeded, .failed],
        handler: { call in
          check(call) { call in
            guard let address = call.arguments.first?.asString.flatMap({ BluetoothAddress($0) }) else {
              return call.fail(DBusError(.badAddress))
            }
            service.connect(to: DeviceAddress(address.value)) { result in
              switch result {
              case .success(let descriptor): call.reply(.descriptor(FileDescriptor(owning: descriptor)))
              case .failure(let refusal): call.fail(DBusError(refusal))
              }
            }
          }
        }),
    ]
  }

  private static func properties(
    _ service: PresenceRadioService, _ denied: @escaping @LoopActor () -> UInt64
  ) -> [Property] {
    [
      Property(
        "State", "s",
        documentation: "idle: no program uses the radio; ready; or degraded: Reason names what is missing.",
        audience: .everybody,
        get: { .string(!service.isAttached ? "idle" : service.isComplete ? "ready" : "degraded") }),
      Property(
        "Reason", "s", documentation: "What is missing, and what to do; empty if nothing is.", audience: .everybody,
        get: { .string(service.reason) }),
      Property(
        "Announcing", "b", documentation: "Whether beacons are advertised.", audience: .everybody,
        get: { .bool(service.isAnnouncing) }),
      Property(
        "Reachable", "b",
        documentation:
          "Whether peers can open links. The adapter is connectable meanwhile, and the kernel sends advertisements from "
          + "the adapter's own address.",
        audience: .everybody, get: { .bool(service.isReachable) }),
      Property(
        "Links", "u", documentation: "Number of open RFCOMM links.", emits: .none,
        get: { .uint32(UInt32(clamping: service.links)) }),
      Property(
        "Counters", "a{st}",
        documentation: "Counters since the service started, including everything that was dropped, by reason.",
        emits: .none, get: { .tallies(service.tallies + [Tally("DeniedCalls", denied())]) }),
    ]
  }
}

/// The program that uses the radio, as an object on the bus.
@LoopActor
final class BusSink: PresenceSink {
  /// Maximum number of scan results without an answer of the program; further ones are dropped. The bus limits the
  /// unanswered calls of a connection, and `earshotd` needs its connection for other calls.
  private static let unansweredLimit = 32

  let name: String
  private let bus: BusConnection
  /// Number of scan results that the program has not answered.
  private var unanswered = 0

  init(_ name: String, _ bus: BusConnection) { (self.name, self.bus) = (name, bus) }

  func sighted(_ device: DeviceAddress, generation: UInt8) -> Bool {
    guard unanswered < Self.unansweredLimit else { return false }
    unanswered += 1
    call("Sighted", [.string(BluetoothAddress(device.value).description), .byte(generation)]) { [weak self] in
      self?.unanswered -= 1
    }
    return true
  }

  func accept(_ device: DeviceAddress, descriptor: Int32) {
    call(
      "Accept",
      [
        .string(BluetoothAddress(device.value).description), .descriptor(FileDescriptor(owning: descriptor)),
      ])
  }

  /// Calls a method of the program. A program that refuses a link closes its socket, which ends the link.
  ///
  /// - Parameter then: called once, later, with or without an answer.
  private func call(_ method: String, _ arguments: [DBusValue], then: @escaping @LoopActor () -> Void = {}) {
    bus.call(name, PresenceRadioAdaptor.sinkPath, PresenceRadioAdaptor.sinkInterface, method, arguments) { result in
      then()
      if case .failure(let error) = result { Log.shared.debug("\(method) was refused: \(error.name)") }
    }
  }
}

extension DBusError {
  init(_ refusal: PresenceRadioService.Refusal) {
    let sentence = refusal.sentence
    switch refusal {
    case .stopped: self = .notReady(sentence)
    case .tooManyLinks: self = .limitExceeded(sentence)
    case .badAddress: self = .invalidArgs(sentence)
    case .noDescriptors: self = .failed(sentence)
    case .radio(let error):
      switch error {
      case .notReady: self = .notReady(sentence)
      case .notSupported: self = DBusError(.notSupported, sentence)
      case .peerLost, .timedOut: self = .peerLost(sentence)
      case .advertisementTooLong, .refused, .noSlot: self = .failed(sentence)
      }
    }
  }
}
