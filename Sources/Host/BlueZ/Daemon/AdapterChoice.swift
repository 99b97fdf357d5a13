import DBus

/// Which adapter to use, of those there are.
enum AdapterChoice: Equatable {
  /// There is none.
  case none
  /// The one that was asked for is not there.
  case missing
  case switchedOff(Adapter)
  /// It is on, and can neither advertise nor serve.
  case unfit(Adapter)
  case usable(Adapter)

  /// - Parameters:
  ///   - wanted: a name or an address; nil for the first one that is usable.
  ///   - current: the one in use, which is kept as long as it can be.
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
