import Common
import DBus
import Journal
import Loop
import Network
import Radio

/// RFCOMM profiles that are served: one registered D-Bus object `org.bluez.Profile1` for each. bluetoothd makes the
/// service record, accepts connections without authentication and hands over their sockets.
@LoopActor
final class StreamServer {
  private final class Served {
    let registration: KeptRegistration
    var object: ExportedObject?

    init(_ registration: KeptRegistration) { self.registration = registration }
  }

  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let onChange: @LoopActor () -> Void
  private var served: [BluetoothUUID: Served] = [:]
  private var place: Place?
  private var lastNumber = 0
  private var streams: [ObjectIdentifier: (device: ObjectPath, stream: SocketRadioStream)] = [:]

  /// - Parameter onChange: called when `problem` may have changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, onChange: @escaping @LoopActor () -> Void
  ) {
    (self.bus, self.scheduler, self.counters, self.onChange) = (bus, scheduler, counters, onChange)
  }

  var isEmpty: Bool { served.isEmpty }

  /// Whether bluetoothd has all profiles.
  var isRegistered: Bool { !served.isEmpty && served.values.allSatisfy(\.registration.isRegistered) }

  /// The reason why a profile is not registered, and what to do.
  var problem: String? { served.values.lazy.compactMap(\.registration.problem).min() }

  func owns(_ path: ObjectPath) -> Bool { served.values.contains { path.isWithin($0.registration.path) } }

  /// Whether a peer has open streams.
  func isUsed(by device: ObjectPath) -> Bool { streams.values.contains { $0.device == device } }

  func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    let service = profile.registered
    guard served[service] == nil else { throw .refused("The profile is registered already.") }
    lastNumber += 1
    let options: [String: DBusValue] = [
      "Name": .string(profile.name), "Role": .string("server"),
      // bluetoothd chooses a free channel.
      "Channel": .uint16(0),
      "RequireAuthentication": .bool(false), "RequireAuthorization": .bool(false), "AutoConnect": .bool(false),
    ]
    let registration = KeptRegistration(
      .profile, BlueZName.ownRoot.child("profile\(lastNumber)"), bus: bus, scheduler: scheduler,
      arguments: [.string(service.description), .options(options)],
      onRegistered: { [weak self] _ in self?.onChange() }, onChange: onChange)
    let entry = Served(registration)
    served[service] = entry
    entry.object = bus.objects.export(registration.path, interfaces: [interface(registration, handler)])
    registration.aim(at: place)
    return Registration { [weak self] in
      guard let self, let entry = served.removeValue(forKey: service) else { return }
      entry.registration.close()
      entry.object?.cancel()
      onChange()
    }
  }

  func aim(at place: Place?) {
    if place != self.place { for entry in streams.values { entry.stream.lose("The Bluetooth adapter is gone.") } }
    self.place = place
    for entry in served.values { entry.registration.aim(at: place) }
  }

  // MARK: What bluetoothd calls

  private func interface(
    _ registration: KeptRegistration, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) -> Interface {
    Interface(
      BlueZName.profile,
      methods: [
        Method(
          "NewConnection",
          in: [Argument("device", "o"), Argument("descriptor", "h"), Argument("properties", "a{sv}")],
          returning: { [weak self] call throws(DBusError) in
            guard let self else { throw .failed("The profile has ended.") }
            try connected(call, handler)
            return []
          }),
        Method(
          "RequestDisconnection", in: [Argument("device", "o")],
          returning: { [weak self] call throws(DBusError) in
            let device = call.arguments.first?.asObjectPath
            for entry in self?.streams.values.filter({ $0.device == device }) ?? [] {
              entry.stream.lose("bluetoothd has ended the stream.")
            }
            return []
          }),
        Method(
          "Release",
          returning: { [weak registration] _ throws(DBusError) in
            registration?.released()
            return []
          }),
      ])
  }

  private func connected(
    _ call: MethodCall, _ handler: @LoopActor (any RadioStream) -> Void
  ) throws(DBusError) {
    guard call.arguments.count == 3, let path = call.arguments[0].asObjectPath, let device = Device(path),
      let place, path.isWithin(place.adapter), let descriptor = call.arguments[1].asDescriptor?.take()
    else {
      counters.malformed += 1
      throw DBusError(name: "org.bluez.Error.Rejected", message: "The device or the descriptor is not valid.")
    }
    let stream = SocketRadioStream(SocketStream(owning: descriptor), device.address, on: scheduler)
    let id = ObjectIdentifier(stream)
    streams[id] = (path, stream)
    stream.onEnd = { [weak self] in self?.streams[id] = nil }
    handler(stream)
  }
}

/// A stream over a socket of the kernel.
@LoopActor
final class SocketRadioStream: RadioStream {
  /// Maximum time for sending the last bytes of a stream that was closed.
  private static let lingerTime = Duration.seconds(5)

  let address: BluetoothAddress
  private let socket: SocketStream
  private let scheduler: any Scheduler
  private var handler: (@LoopActor (RadioStreamEvent) -> Void)?
  private var linger: Registration?
  /// Called once, when the socket is closed.
  var onEnd: @LoopActor () -> Void = {}

  init(_ socket: SocketStream, _ address: BluetoothAddress, on scheduler: any Scheduler) {
    (self.socket, self.address, self.scheduler) = (socket, address, scheduler)
  }

  func start(_ handler: @escaping @LoopActor (RadioStreamEvent) -> Void) {
    self.handler = handler
    socket.start { [weak self] event in
      switch event {
      case .connected: break
      case .received(let bytes): self?.handler?(.received(bytes))
      case .writable: self?.handler?(.writable)
      // Reading is paused, and bytes still wait. The end comes behind them.
      case .hungUp: break
      // RFCOMM ends both directions together.
      case .ended: self?.lose("The peer closed the stream.")
      case .closed(let error): self?.lose(error?.sentence ?? "The peer closed the stream.")
      }
    }
  }

  func send(_ bytes: ArraySlice<UInt8>) -> Int { socket.send(bytes) }

  func pauseReading(_ isPaused: Bool) { socket.pauseReading(isPaused) }

  func close() {
    handler = nil
    guard !socket.isDrained else { return takeDown() }
    // The kernel ends RFCOMM when the sending side is shut down, after the bytes that were written.
    socket.finish()
    linger = scheduler.schedule(after: Self.lingerTime) { self.takeDown() }
  }

  /// Ends the stream, and reports it.
  func lose(_ reason: String) {
    let report = handler
    handler = nil
    takeDown()
    report?(.closed(reason: reason))
  }

  private func takeDown() {
    linger = nil
    socket.close()
    let report = onEnd
    onEnd = {}
    report()
  }
}
