import BitchatWire
import Config
import DBus
import Hosting
import Journal
import Loop
import MeshStore
import Radio

extension MeshService: Service {
  public nonisolated static let name = "Mesh"
  public nonisolated static let sections: [any SettingsSection.Type] = [MeshSettings.self]
  public nonisolated static let linkShare = LinkShare(needs: 1, may: 64, priority: 2)
  public nonisolated static let messages = Journal.MessageID.mesh
  public nonisolated static let checkedInterfaces = [MeshUplinkAdaptor.interfaceName]

  public static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let keeper = NodeStore(directory: nil, scheduler: scheduler, disk: scheduler)
    let service = MeshService(radio: radio, scheduler: scheduler, settings: MeshSettings(), keeper: keeper)
    return [
      DescribedObject(MeshAdaptor.path.string, MeshAdaptor.interface(service)),
      DescribedObject("\(MeshAdaptor.path.string)/peerID", MeshPeerObjects.interface(PeerID(rawValue: 0), service)),
      DescribedObject(MeshUplinkAdaptor.path.string, MeshUplinkAdaptor.interface(service)),
      DescribedObject(
        "\(MeshAdaptor.path.string)/fileN", MeshFileObjects.interface(0, service, OpenFiles(of: service))),
    ]
  }

  public static func make(_ context: ServiceContext) -> MeshService? {
    let settings = MeshSettings(context.configuration)
    guard settings.enabled else { return nil }
    let keeper = NodeStore(
      directory: context.stateDirectory, settings: settings.kept,
      scheduler: context.scheduler, disk: context.makeWorker())
    let service = MeshService(
      radio: context.radio, scheduler: context.scheduler, settings: settings, keeper: keeper)
    service.use(context.bus)
    service.node.changes.addForGood { context.statusChanged() }
    return service
  }

  public func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    let mesh = MeshAdaptor(self, on: tree, manager: manager)
    guard let connection else { return [mesh] }
    return [mesh, MeshUplinkAdaptor(self, on: connection, tree: tree, manager: manager)]
  }

  public func begin() {
    start { [weak self] in self?.reportRestored() }
  }

  public func apply(_ configuration: Configuration) { apply(MeshSettings(configuration)) }

  public var statusLine: String {
    switch state {
    case .stopped: reason
    case .waitingForClock: "The mesh waits for the clock to be set."
    case .alone: "The mesh has no neighbour in range."
    // Every user can read the line. The number of neighbours is for the group.
    case .connected: "The mesh has neighbours in range."
    }
  }
}
