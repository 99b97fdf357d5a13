import Config
import DBus
import Hosting
import Journal
import Loop
import PBLEC
import Radio

extension BroadcastService: Service {
  public nonisolated static let name = "Broadcast"
  public nonisolated static let sections: [any SettingsSection.Type] = [Settings.self]
  /// The channel uses no links.
  public nonisolated static let linkShare = LinkShare.nothing
  public nonisolated static let messages = Journal.MessageID.broadcast

  public nonisolated static func takesDegradedRadio(in configuration: Configuration) -> Bool {
    let settings = configuration[Settings.self]
    return settings.enabled && settings.degraded
  }

  public static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let keeper = LedgerKeeper(directory: "", scheduler: scheduler, disk: scheduler)
    let service = BroadcastService(radio: radio, scheduler: scheduler, settings: Settings(), keeper: keeper)
    return [DescribedObject(BroadcastFace.path.string, BroadcastFace.interface(service))]
  }

  public static func make(_ context: ServiceContext) -> BroadcastService? {
    let settings = context.configuration[Settings.self]
    guard settings.enabled else { return nil }
    let keeper = LedgerKeeper(
      directory: context.stateDirectory, scheduler: context.scheduler, disk: context.makeWorker())
    let service = BroadcastService(
      radio: context.radio, scheduler: context.scheduler, settings: settings, keeper: keeper)
    service.changes.addForGood { context.statusChanged() }
    return service
  }

  public func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    [BroadcastFace(self, on: tree, manager: manager)]
  }

  public func begin() { start() }

  public func apply(_ configuration: Configuration) { apply(configuration[Settings.self]) }

  public var statusLine: String {
    switch state {
    case .stopped: ""
    case .waiting, .degraded: reason
    case .listening:
      switch peersNearby {
      case 0: "Local broadcast: no peers nearby."
      case 1: "Local broadcast: one peer nearby."
      default: "Local broadcast: \(peersNearby) peers nearby."
      }
    }
  }

  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    keeper.whenIdle(within: limit, then: then)
  }

  // MARK: For the D-Bus adaptor

  /// Received messages with a number above `number`, oldest first, at most `limit`.
  func messages(after number: UInt64, limit: Int) -> [HeardMessage] {
    engine?.messages(after: number, limit: limit) ?? []
  }

  var peersNearby: Int { engine?.peersNearby ?? 0 }
  var notifyLimit: Int { engine?.notifyLimit ?? settings.notifyLimit }
}
