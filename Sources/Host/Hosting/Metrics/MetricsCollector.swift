import DBus
import Loop

/// Collects the metrics of all services from their objects on the bus.
///
/// An object with a property `Counters` is a service's own object. Its counters, numbers, truth values and states are
/// metrics, if every program may read them. A new service therefore has metrics without code of its own, and no metric
/// shows more than the bus shows to everybody.
@LoopActor
public struct MetricsCollector {
  private static let house = "earshot"

  private let tree: ObjectTree
  private let meanings: [String: [String: String]]
  private let version: String
  private let clock: any WallClock
  /// Start of the service, in seconds since 1970-01-01 UTC.
  private let started: Int64

  /// - Parameter meanings: the meaning of each counter, by interface and name.
  public init(
    _ tree: ObjectTree, meanings: [String: [String: String]], version: String,
    clock: any WallClock = SystemWallClock()
  ) {
    (self.tree, self.meanings, self.version, self.clock) = (tree, meanings, version, clock)
    started = clock.seconds
  }

  /// The metrics now, sorted by service.
  public func metrics() -> [Metric] {
    var metrics = [
      Metric(
        "\(Self.house)_build_info", .gauge, help: "The version of the service; the value is always 1.",
        [.init(1, .init("version", version))]),
      Metric(
        "\(Self.house)_start_time_seconds", .gauge,
        help: "Start of the service by the clock at that time, in seconds since 1970-01-01 UTC.",
        [.init(UInt64(clamping: started))]),
      Metric(
        "\(Self.house)_written_time_seconds", .gauge,
        help: "Time of this text, in seconds since 1970-01-01 UTC.", [.init(UInt64(clamping: clock.seconds))]),
    ]
    for (_, interface) in tree.publicInterfaces() where interface.property("Counters") != nil {
      metrics += self.metrics(of: interface)
    }
    return metrics
  }

  /// The name before the names of a service's metrics: `earshot_example` for `org.earshot.Example1`.
  private static func prefix(of interface: Interface) -> String {
    let name = interface.name.split(separator: ".").last.map(String.init) ?? ""
    let base = String(name.prefix { !$0.isNumber })
    return "\(house)_" + (interface.name == ManagerAdaptor.interfaceName ? "service" : MetricsText.snake(base))
  }

  private func metrics(of interface: Interface) -> [Metric] {
    let prefix = Self.prefix(of: interface)
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    return interface.properties.filter { $0.audience == .everybody }.flatMap { property -> [Metric] in
      guard case .variant(let value)? = try? property.read() else { return [] }
      return metrics(of: property, value, "\(prefix)_\(MetricsText.snake(property.name))", interface, prefix)
    }
  }

  private func metrics(
    of property: Property, _ value: DBusValue, _ name: String, _ interface: Interface, _ prefix: String
  ) -> [Metric] {
    let help = property.documentation
    switch value {
    case .dictionary where property.name == "Counters":
      return counters(value, prefix, meanings[interface.name] ?? [:])
    case .bool(let isTrue): return [Metric(name, .gauge, help: help, [.init(isTrue ? 1 : 0)])]
    case .string(let state) where property.name == "State" || property.name == "RadioState":
      return [Metric(name, .gauge, help: "\(help) The value is always 1.", [.init(1, .init("state", state))])]
    case .structure(let numbers) where property.name == "AdvertisingSlots" && numbers.count == 2:
      return [
        Metric(
          "\(name)_used", .gauge, help: "Used advertising slots of the adapter.", [.init(Self.number(numbers[0]))]),
        Metric("\(name)", .gauge, help: "Advertising slots of the adapter.", [.init(Self.number(numbers[1]))]),
      ]
    case .byte, .uint16, .uint32, .uint64: return [Metric(name, .gauge, help: help, [.init(Self.number(value))])]
    default: return []
    }
  }

  private func counters(_ value: DBusValue, _ prefix: String, _ meanings: [String: String]) -> [Metric] {
    (value.asDictionary ?? [:]).sorted { $0.key < $1.key }.map { name, count in
      let meaning = meanings[name].map { "Number of \($0)." } ?? "Counter \(name) of the service."
      return Metric("\(prefix)_\(MetricsText.snake(name))_total", .counter, help: meaning, [.init(Self.number(count))])
    }
  }

  private static func number(_ value: DBusValue) -> UInt64 { UInt64(clamping: value.asInteger ?? 0) }
}
