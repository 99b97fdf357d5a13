import Common
import DBus
import Loop
import Radio

/// The D-Bus object of the whole service: `org.earshot.Manager1`, and the object manager that lists all objects.
@LoopActor
public final class ManagerAdaptor {
  public nonisolated static let interfaceName = "org.earshot.Manager1"
  public nonisolated static let path: ObjectPath = "/org/earshot"
  /// The version of this service and its interfaces.
  public nonisolated static let version = "0.1.0"

  private let object: ExportedObject
  private var statusWatch: Registration?

  /// - Parameters:
  ///   - services: the names of the enabled services.
  ///   - metrics: returns the text of the metrics; nil if there are none.
  public init(
    _ radio: any Radio, services: [String], on tree: ObjectTree, metrics: (@LoopActor () -> String)? = nil
  ) {
    tree.exportManager(Self.path)
    let interface = Self.interface(radio, services: services, on: tree, metrics: metrics ?? { "" }) { [weak tree] in
      tree?.tallies ?? []
    }
    let object = tree.export(Self.path, interfaces: [interface])
    self.object = object
    statusWatch = radio.onStatus { [weak object] _ in
      object?.changed("RadioState", "RadioReason", "Adapters", "RadioStack", "RadioLimits")
    }
  }

  /// - Parameters:
  ///   - tree: the tree whose signals `Watch` requests; nil if the interface is only described.
  ///   - metrics: returns the text of the metrics.
  ///   - calls: counts of refused calls.
  public static func interface(
    _ radio: any Radio, services: [String], on tree: ObjectTree? = nil,
    metrics: @escaping @LoopActor () -> String = { "" }, calls: @escaping @LoopActor () -> [Tally]
  ) -> Interface {
    Interface(
      interfaceName, documentation: "The service as a whole.", audience: .everybody,
      methods: WatchMethods.methods(tree) + [
        Method(
          "GetMetrics", out: [Argument("metrics", "s")],
          documentation:
            "Returns the metrics of the service as text, in the format of the file metrics.prom. docs/metrics.md lists "
            + "them. The members of the group earshot-view may call it, too.",
          audience: .viewers,
          returning: { _ throws(DBusError) in [.string(metrics())] })
      ],
      properties: [
        Property(
          "Version", "s", documentation: "The version of the service.", audience: .everybody, emits: .const,
          get: { .string(version) }),
        Property(
          "Services", "as", documentation: "The names of the services that are on.", audience: .everybody,
          emits: .const,
          get: { .strings(services) }),
        Property(
          "Adapters", "as", documentation: "The Bluetooth adapters; the one in use is first.",
          audience: .everybody, get: { .strings(radio.status.adapters) }),
        Property(
          "RadioState", "s",
          documentation: "ready, waiting (for an adapter or the Bluetooth service) or degraded (something is missing).",
          audience: .everybody, get: { .string(radio.status.state.rawValue) }),
        Property(
          "RadioReason", "s", documentation: "What is missing, and what to do; empty when ready.",
          audience: .everybody, get: { .string(radio.status.reason) }),
        Property(
          "RadioStack", "s",
          documentation:
            "The Bluetooth stack, its version, and how it transports values: BlueZ 5.82, sockets for each client.",
          audience: .everybody, get: { .string(radio.status.stack) }),
        Property(
          "RadioLimits", "as",
          documentation:
            "Consequences of the version and configuration of BlueZ, and what to do about them, in sentences.",
          audience: .everybody, get: { .strings(radio.status.limits) }),
        Property(
          "AdvertisingSlots", "(uu)",
          documentation:
            "The number of used advertising slots and the total number of slots; both include slots of other programs. "
            + "A service may use several slots.",
          audience: .everybody, emits: .none,
          get: {
            let use = radio.advertisingUse
            return .structure([.uint32(UInt32(clamping: use.used)), .uint32(UInt32(clamping: use.places))])
          }),
        Property(
          "AdvertisingServices", "as",
          documentation:
            "The service that uses each advertising slot; a service with several slots is listed once for each slot.",
          audience: .everybody, emits: .none, get: { .strings(radio.advertisingUse.onAir) }),
        Property(
          "Waiting", "as",
          documentation:
            "The services that wait for an advertising slot; the longest waiting service is first.",
          audience: .everybody, emits: .none, get: { .strings(radio.advertisingUse.waiting) }),
        Property(
          "Counters", "a{st}",
          documentation:
            "Counters of refused calls and peers, and of faults, since the service started.",
          audience: .everybody, emits: .none, get: { .tallies(calls() + radio.tallies) }),
      ])
  }
}

/// The methods by which programs of the group request signals.
@LoopActor
public enum WatchMethods {
  /// - Parameter tree: the tree whose signals `Watch` requests; nil if the methods are only described.
  public static func methods(_ tree: ObjectTree?) -> [Method] {
    [
      Method(
        "Watch",
        documentation:
          "Sends the caller the signals about objects that are for the group: InterfacesAdded, InterfacesRemoved, "
          + "PropertiesChanged and the objects' own signals. Each is addressed to the caller's connection, so no match rule "
          + "is needed. Call Watch before GetManagedObjects. The signals end with the connection, or with Unwatch.",
        errors: [.limitExceeded],
        returning: { [weak tree] call throws(DBusError) in
          try tree?.watch(call)
          return []
        }),
      Method(
        "Unwatch", documentation: "Stops the signals that Watch requested.",
        returning: { [weak tree] call throws(DBusError) in
          tree?.unwatch(call)
          return []
        }),
    ]
  }
}
