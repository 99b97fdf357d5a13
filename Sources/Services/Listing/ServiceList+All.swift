import Broadcast
import BroadcastCommands
import Chat
import Commands
import Mesh
import MeshCommands
import PresenceCommands
import PresenceRadio
import Verifier
import Wallet

extension ServiceList {
  /// All services of the daemon. A new service is added only here, besides its own folder.
  public static let all = ServiceList(
    [
      ListedService(VerifierService.self, tool: VerifierTool.part),
      ListedService(WalletService.self, tool: WalletTool.part),
      ListedService(MeshService.self, tool: MeshTool.part),
      ListedService(BroadcastService.self, tool: NearbyTool.part),
      ListedService(PresenceRadioService.self, tool: PresenceTool.part),
    ], tools: [ChatTool.part, MeshTool.uplinkPart, PresenceTool.daemonPart])
}
