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
    let registration: PersistentRegistration
    var object: ExportedObject?

    init(_ registration: PersistentRegistration) { self.registration = registration }
  }

  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let streams: OpenStreams
  private let onChange: @LoopActor () -> Void
  private var served: [BluetoothUUID: Served] = [:]
  private var place: Place?
  private var lastNumber = 0

  /// - Parameter onChange: called when `problem` may have changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, streams: OpenStreams,
    onChange: @escaping @LoopActor () -> Void
  ) {
    (self.bus, self.scheduler, self.counters) = (bus, scheduler, counters)
    (self.streams, self.onChange) = (streams, onChange)
  }

  var isEmpty: Bool { served.isEmpty }

  /// Whether bluetoothd has accepted the registration of each served profile.
  var isRegistered: Bool { !served.isEmpty && served.values.allSatisfy(\.registration.isRegistered) }

  /// The reason why a profile is not registered, and what to do.
  var problem: String? { served.values.lazy.compactMap(\.registration.problem).min() }

  func owns(_ path: ObjectPath) -> Bool { served.values.contains { path.isWithin($0.registration.path) } }

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
    let registration = PersistentRegistration(
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
    self.place = place
    for entry in served.values { entry.registration.aim(at: place) }
  }

  // MARK: What bluetoothd calls

  private func interface(
    _ registration: PersistentRegistration, _ handler: @escaping @LoopActor (any RadioStream) -> Void
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
            if let device { self?.streams.lose(of: device, "bluetoothd has ended the stream.") }
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
    streams.add(stream, of: path)
    handler(stream)
  }
}
