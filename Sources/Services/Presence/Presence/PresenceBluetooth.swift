import Common
import DBus
import Journal
import Loop
import Thali

/// Bluetooth as private presence uses it. It is a protocol, because `earshotd` owns the radio; `BusBluetooth` is the
/// implementation over D-Bus.
@LoopActor
protocol PresenceBluetooth: AnyObject {
  var onEvent: (@LoopActor (PresenceBluetoothEvent) -> Void)? { get set }
  /// Whether the radio can be used in any way.
  var isUsable: Bool { get }
  /// Whether peers can open links now.
  var isReachable: Bool { get }
  /// The missing parts and the remedy; empty if everything works.
  var reason: String { get }

  /// Begins to use the radio and to scan.
  func start()
  /// Advertises beacons of a generation, and accepts links.
  func advertise(generation: UInt8)
  func silence()
  func scan(_ isWanted: Bool)
  /// Opens a link.
  ///
  /// - Parameter then: called once, later, with the descriptor of a stream socket, which the receiver owns; nil if the
  ///   peer cannot be reached.
  func connect(to device: DeviceAddress, then: @escaping @LoopActor (Int32?) -> Void)
  func stop()
}

enum PresenceBluetoothEvent {
  case sighted(DeviceAddress, generation: UInt8)
  /// A peer has opened a link: the descriptor of a stream socket, which the receiver owns.
  case link(DeviceAddress, descriptor: Int32)
  /// `isUsable`, `isReachable` or `reason` has changed.
  case changed
}

/// Bluetooth that is never available, because the settings exclude it.
@LoopActor
final class NoBluetooth: PresenceBluetooth {
  var onEvent: (@LoopActor (PresenceBluetoothEvent) -> Void)?
  let isUsable = false
  let isReachable = false
  let reason = ""

  func start() {}
  func advertise(generation: UInt8) {}
  func silence() {}
  func scan(_ isWanted: Bool) {}
  func connect(to device: DeviceAddress, then: @escaping @LoopActor (Int32?) -> Void) {
    EventLoop.shared.soon { then(nil) }
  }
  func stop() {}
}

extension DeviceAddress {
  /// Parses `00:11:22:33:44:55`; nil for any other text.
  init?(text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    let octets = parts.compactMap { $0.utf8.count == 2 ? UInt8(digits: $0, radix: 16) : nil }
    guard octets.count == Self.size, parts.count == Self.size else { return nil }
    self.init(octets.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }

  /// The address in the form `00:11:22:33:44:55`, for calls of `earshotd` only.
  var text: String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined(separator: ":")
  }
}

/// Bluetooth through `org.earshot.PresenceRadio1` of `earshotd`. Requests are repeated when `earshotd` returns.
@LoopActor
final class BusBluetooth: PresenceBluetooth {
  nonisolated static let radioPath: ObjectPath = "/org/earshot/radio/presence"
  nonisolated static let radioInterface = "org.earshot.PresenceRadio1"
  nonisolated static let sinkPath: ObjectPath = "/org/earshot/presence/sink"
  nonisolated static let sinkInterface = "org.earshot.PresenceSink1"
  /// Maximum time until a link is open.
  private static let connectTime = Duration.seconds(15)
  /// The pause before a refused request is repeated.
  private static let pause = Duration.seconds(5)

  var onEvent: (@LoopActor (PresenceBluetoothEvent) -> Void)?
  private let bus: BusConnection
  private let name: String
  private let scheduler: any Scheduler
  private var owner: String?
  private var registrations: [Registration] = []
  private var object: ExportedObject?
  private var retry: Registration?
  private var generation: UInt8?
  /// Whether `earshotd` must still confirm the request to stop advertising.
  private var mustSilence = false
  private var isScanning = true
  private var isStopped = false
  /// The error in the answer to the last request; nil if there is none.
  private var refusal: DBusError?
  private var isAccepted = false
  private(set) var isReachable = false
  /// The property `Reason` of the radio.
  private var radioReason = ""

  /// - Parameter name: the bus name of `earshotd`.
  init(_ name: String, on bus: BusConnection, scheduler: any Scheduler) {
    (self.name, self.bus, self.scheduler) = (name, bus, scheduler)
  }

  var isUsable: Bool { isAccepted }

  var reason: String {
    if owner == nil {
      return "Bluetooth is not used, because earshotd does not run. Start it with systemctl start earshotd."
    }
    if let refusal { return "Bluetooth is not used: \(refusal.message)" }
    return radioReason
  }

  func start() {
    object = bus.objects.export(Self.sinkPath, interfaces: [Self.sink(self)])
    registrations = [
      bus.watchName(name) { [weak self] in self?.ownerChanged($0) },
      bus.subscribe(
        SignalMatch(sender: name, path: Self.radioPath, member: "PropertiesChanged")
      ) { [weak self] _ in self?.readState() },
    ]
  }

  func stop() {
    if owner != nil { ask("Silence") }
    (object, registrations, retry, isStopped, onEvent) = (nil, [], nil, true, nil)
  }

  func advertise(generation: UInt8) {
    (self.generation, mustSilence) = (generation, false)
    ask("Announce", [.byte(generation)])
  }

  func silence() {
    (generation, mustSilence) = (nil, true)
    ask("Silence")
  }

  func scan(_ isWanted: Bool) {
    isScanning = isWanted
    ask("Scan", [.bool(isWanted)])
  }

  func connect(to device: DeviceAddress, then: @escaping @LoopActor (Int32?) -> Void) {
    guard let owner else { return scheduler.soon { then(nil) } }
    bus.call(
      owner, Self.radioPath, Self.radioInterface, "Connect", [.string(device.text)], timeout: Self.connectTime
    ) { result in
      guard case .success(let values) = result else { return then(nil) }
      then(values.first?.asDescriptor?.take())
    }
  }

  // MARK: earshotd

  private func ownerChanged(_ owner: String?) {
    guard owner != self.owner, !isStopped else { return }
    self.owner = owner
    (refusal, isAccepted, isReachable, radioReason, retry) = (nil, false, false, "", nil)
    // A restarted `earshotd` advertises nothing, so no request to stop is pending.
    mustSilence = false
    if owner != nil { askAll() }
    onEvent?(.changed)
  }

  /// Sends the present requests again to an `earshotd` that has restarted or has refused them.
  private func askAll() {
    ask("Scan", [.bool(isScanning)])
    if let generation { ask("Announce", [.byte(generation)]) } else if mustSilence { ask("Silence") }
    readState()
  }

  private func ask(_ method: String, _ arguments: [DBusValue] = []) {
    guard let owner else { return }
    bus.call(owner, Self.radioPath, Self.radioInterface, method, arguments) { [weak self] in
      self?.answered($0, to: method, by: owner)
    }
  }

  private func answered(_ result: Result<[DBusValue], DBusError>, to method: String, by owner: String) {
    guard owner == self.owner, !isStopped else { return }
    let before = (isAccepted, reason)
    switch result {
    case .success:
      (refusal, isAccepted) = (nil, true)
      if method == "Silence" { mustSilence = false }
    case .failure(let error):
      (refusal, isAccepted) = (error, false)
      retry = scheduler.schedule(after: Self.pause) { [weak self] in self?.askAll() }
    }
    if before != (isAccepted, reason) { onEvent?(.changed) }
  }

  private func readState() {
    guard let owner else { return }
    bus.call(
      owner, Self.radioPath, "org.freedesktop.DBus.Properties", "GetAll", [.string(Self.radioInterface)]
    ) { [weak self] result in
      guard let self, owner == self.owner, !isStopped, case .success(let answer) = result else { return }
      let values = answer.first?.asDictionary ?? [:]
      isReachable = values["Reachable"]?.asBool ?? false
      radioReason = values["Reason"]?.asString ?? ""
      onEvent?(.changed)
    }
  }

  // MARK: Calls of earshotd

  /// The D-Bus interface that receives scan results and links.
  ///
  /// - Parameter port: nil if the interface is only described.
  static func sink(_ port: BusBluetooth?) -> Interface {
    Interface(
      sinkInterface,
      documentation:
        "Receives scan results and links of org.earshot.PresenceRadio1. Only earshotd may call these methods.",
      methods: [
        Method(
          "Sighted", in: [Argument("address", "s"), Argument("generation", "y")],
          documentation:
            "Reports that the device with this address advertises beacons of this generation.",
          errors: [.denied, .invalidArgs],
          returning: { [weak port] call throws(DBusError) in
            let device = try Self.device(call, port)
            guard let generation = call.arguments.last?.asByte else {
              throw .invalidArgs("Sighted takes an address and a byte.")
            }
            port?.onEvent?(.sighted(device, generation: generation))
            return []
          }),
        Method(
          "Accept", in: [Argument("address", "s"), Argument("link", "h")],
          documentation:
            "Reports that the device with this address has opened an RFCOMM link. The stream socket link carries the "
            + "bytes of the device.",
          errors: [.denied, .invalidArgs],
          returning: { [weak port] call throws(DBusError) in
            let device = try Self.device(call, port)
            guard let descriptor = call.arguments.last?.asDescriptor?.take() else {
              throw .invalidArgs("Accept takes an address and a descriptor.")
            }
            if let onEvent = port?.onEvent {
              onEvent(.link(device, descriptor: descriptor))
            } else {
              FileDescriptor(owning: descriptor).close()
            }
            return []
          }),
      ])
  }

  /// Reads the device in a call, and checks that the caller is the `earshotd` in use.
  private static func device(_ call: MethodCall, _ port: BusBluetooth?) throws(DBusError) -> DeviceAddress {
    guard let port, call.sender == port.owner else { throw .denied("Only earshotd may do this.") }
    guard let device = call.arguments.first?.asString.flatMap({ DeviceAddress(text: $0) }) else {
      throw .invalidArgs("An address has the form 00:11:22:33:44:55.")
    }
    return device
  }
}
