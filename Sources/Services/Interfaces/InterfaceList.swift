import DBus
import Loop
import Manager
import Radio
import Transfers
import Verifier
import Wallet

/// Every interface that the service has on the bus, for files and documentation that are written from them.
@LoopActor
public enum InterfaceList {
  /// Descriptions need something that they describe: services that are never started.
  ///
  /// - Parameter radio: any radio; nothing is done with it.
  public static func all(radio: any Radio, scheduler: any Scheduler) -> [Interface] {
    let verifier = VerifierService(radio: radio, scheduler: scheduler, settings: .init(engine: .init(name: "name")))
    let wallet = WalletService(radio: radio, scheduler: scheduler)
    let transfer = verifier.transfers.add(.incoming, .connected)
    return [
      ManagerFace.interface(radio, services: [], calls: { [] }), VerifierFace.interface(verifier),
      WalletFace.interface(wallet, path: { _ in WalletFace.path }),
      CredentialFaces.interface(transfer, VerifierFace.actions(verifier)),
    ]
  }
}
