import Bitchat
import Common
import Journal
import Loop
import Radio

/// Peers that have made the link, and are used as servers over it as well. That is for radios that cannot tell their clients apart:
/// what is written to a peer reaches that peer alone and whole, and what the peer notifies need not be written to us, which
/// loses long writes there. Facts: bluez.md section 3.
extension MeshService {
  /// What a connection's events are told apart by: one that another has taken the place of says nothing about the port.
  @LoopActor
  private final class Exploration {
    weak var link: (any Link)?
  }

  func explore(_ port: MeshPort) {
    guard !radio.status.traits.keepsClientsApart, port.client == nil, port.exploring == nil,
      attempt?.address != port.address
    else { return }
    let exploration = Exploration()
    do throws(RadioError) {
      port.exploring = try radio.connect(to: port.address) { [weak self, weak port] event in
        guard let self, let port, ports[port.id] === port else { return }
        explored(event, port, exploration.link)
      }
      exploration.link = port.exploring
    } catch {
      Log.shared.debug("A neighbour is not explored: \(error)", .link(port.id), .protocolName("bitchat"))
    }
  }

  /// The same steps as over a link that this node makes; what fails leaves the link as it was.
  private func explored(_ event: LinkEvent, _ port: MeshPort, _ current: (any Link)?) {
    guard let current else { return }
    guard let link = port.exploring, link === current else {
      if port.client === current { use(event, port) }
      return
    }
    switch event {
    case .connected: link.exchangeMTU(BitchatGATT.mtu)
    case .mtuChanged(let mtu):
      // A client that subscribes does not say its MTU to such a radio.
      linkChanged(port.id, mtu: mtu)
      link.discover()
    case .discovered(let services) where services.contains(where: \.isNode):
      link.subscribe(to: BitchatGATT.characteristic)
    case .discovered: link.disconnect()
    case .subscribed, .notified:
      (port.client, port.exploring, port.isClientReady, port.isBusy) = (link, nil, true, false)
      port.writeLimit = link.writeLimit
      open(port)
      pump(port)
      use(event, port)
    case .written: break
    case .disconnected: port.exploring = nil
    }
  }
}

extension GATTService {
  /// Whether it is a node's.
  var isNode: Bool {
    uuid == BitchatGATT.service
      && characteristics.contains { $0.uuid == BitchatGATT.characteristic.characteristic }
  }
}
