import Bitchat
import Common
import Journal
import Loop
import Radio

/// Peers that have made the link, and are used as servers over it as well.
///
/// On a radio that cannot tell its clients apart, all of them: what is written to a peer reaches that peer alone and whole, and what
/// the peer notifies need not be written to us, which loses long writes there. On others, nodes of this kind: a write goes through
/// sockets at both ends, a notification comes over the bus, which is slower. Facts: bluez.md section 3.
extension MeshService {
  /// The connection whose events these are: those of one that another has replaced are passed over.
  @LoopActor
  private final class Exploration {
    weak var link: (any Link)?
  }

  /// A node of this kind writes its first values one at a time (`StreamWay` of BlueZ); phones write as it comes.
  func expectStream(_ port: MeshPort) {
    if port.isServed, isEarshot(port) { server?.expectStream(from: port.id) }
  }

  func explore(_ port: MeshPort) {
    guard port.isServed, port.client == nil, port.exploring == nil, attempt?.address != port.address,
      !radio.status.traits.keepsClientsApart || isEarshot(port)
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

  private func isEarshot(_ port: MeshPort) -> Bool { port.peer.flatMap { engine?.peer($0)?.isEarshot } ?? false }

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
      // Where clients are kept apart, a node of this kind writes to this one, and need not notify it.
      if radio.status.traits.keepsClientsApart { return adopt(link, port) }
      link.subscribe(to: BitchatGATT.characteristic)
    case .discovered: link.disconnect()
    case .subscribed, .notified:
      adopt(link, port)
      use(event, port)
    case .written: break
    case .disconnected: port.exploring = nil
    }
  }

  /// From now on the peer is written to.
  private func adopt(_ link: any Link, _ port: MeshPort) {
    (port.client, port.exploring, port.isClientReady, port.isBusy) = (link, nil, true, false)
    port.writeLimit = link.writeLimit
    open(port)
    pump(port)
  }
}

extension GATTService {
  /// Whether it is a node's.
  var isNode: Bool {
    uuid == BitchatGATT.service
      && characteristics.contains { $0.uuid == BitchatGATT.characteristic.characteristic }
  }
}
