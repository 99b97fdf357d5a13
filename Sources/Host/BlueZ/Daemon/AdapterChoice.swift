import DBus

/// The choice of the adapter to use.
enum AdapterChoice: Equatable {
  /// There is no adapter.
  case none
  /// The configured adapter does not exist.
  case missing
  case switchedOff(Adapter)
  /// The adapter is on, but can neither advertise nor serve.
  case unfit(Adapter)
  case usable(Adapter)

  /// - Parameters:
  ///   - wanted: a name or an address; nil for the first usable adapter.
  ///   - current: the adapter in use, which is preferred while it is usable.
  init(among adapters: some Collection<Adapter>, wanted: String?, current: ObjectPath?) {
    guard !adapters.isEmpty else {
      self = .none
      return
    }
    let candidates = adapters.filter { wanted.map($0.isNamed) ?? true }
      .sorted { ($0.path == current ? 0 : 1, $0.path.string) < ($1.path == current ? 0 : 1, $1.path.string) }
    let choices = candidates.map(Self.init(judging:))
    self = choices.first { $0.adapterInUse != nil } ?? choices.first ?? .missing
  }

  private init(judging adapter: Adapter) {
    if !adapter.isPowered {
      self = .switchedOff(adapter)
    } else {
      self = adapter.canBePeripheral ? .usable(adapter) : .unfit(adapter)
    }
  }

  var adapterInUse: Adapter? {
    if case .usable(let adapter) = self { adapter } else { nil }
  }
}
