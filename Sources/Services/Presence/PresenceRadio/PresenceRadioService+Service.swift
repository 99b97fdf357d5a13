import Config
import DBus
import Hosting
import Journal
import Loop
import Radio

extension PresenceRadioService: Service {
  public nonisolated static let name = "PresenceRadio"
  public nonisolated static let sections: [any SettingsSection.Type] = [PresenceRadioSettings.self]
  /// The share of the service: RFCOMM links do not count as LE links. The priority decides whether it may connect while
  /// other services need the radio.
  public nonisolated static let linkShare = LinkShare.nothing
  public nonisolated static let messages: [MessageID] = []
  public nonisolated static let checkedInterfaces = [PresenceRadioAdaptor.interfaceName]

  public static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let service = PresenceRadioService(radio: radio, scheduler: scheduler, settings: PresenceRadioSettings())
    return [DescribedObject(PresenceRadioAdaptor.path.string, PresenceRadioAdaptor.interface(service))]
  }

  public static func make(_ context: ServiceContext) -> PresenceRadioService? {
    let settings = context.configuration[PresenceRadioSettings.self]
    guard settings.enabled else { return nil }
    let service = PresenceRadioService(radio: context.radio, scheduler: context.scheduler, settings: settings)
    service.bus = context.bus
    service.changes.addForGood { context.statusChanged() }
    return service
  }

  public func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    guard let bus else { return [] }
    return [PresenceRadioAdaptor(self, on: bus, tree: tree, manager: manager)]
  }

  public func apply(_ configuration: Configuration) { apply(configuration[PresenceRadioSettings.self]) }

  public var statusLine: String {
    guard isAttached else { return "" }
    return isComplete ? "" : "Private presence by Bluetooth: \(reason)"
  }
}
