import Config
import DBus
import Hosting
import Journal
import Loop
import Radio
import Transfers

extension WalletService: Service {
  public nonisolated static let name = "Wallet"
  public nonisolated static let sections: [any SettingsSection.Type] = [Settings.self]
  public nonisolated static let linkShare = LinkShare(needs: 1, may: 64, priority: 5)
  public nonisolated static let messages = MessageID.transfers

  public static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let service = WalletService(radio: radio, scheduler: scheduler)
    let transfer = service.transfers.add(.outgoing, .searching)
    return [
      DescribedObject(WalletFace.path.string, WalletFace.interface(service, path: { _ in WalletFace.path })),
      DescribedObject(
        "\(WalletFace.path.string)/credentialN", CredentialFaces.interface(transfer, WalletFace.actions(service))),
    ]
  }

  public static func make(_ context: ServiceContext) -> WalletService? {
    let settings = context.configuration[Settings.self]
    guard settings.enabled else { return nil }
    let service = WalletService(
      radio: context.radio, scheduler: context.scheduler, settings: settings, numbers: .shared)
    service.onChange = context.statusChanged
    return service
  }

  public func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject] {
    [WalletFace(self, on: tree, manager: manager)]
  }

  /// Does nothing: a wallet acts only on calls.
  public func begin() {}

  public func apply(_ configuration: Configuration) { apply(configuration[Settings.self]) }

  public var statusLine: String {
    switch active {
    case 0: ""
    case 1: "Sending a credential to a verifier."
    default: "Sending \(active) credentials to verifiers."
    }
  }
}
