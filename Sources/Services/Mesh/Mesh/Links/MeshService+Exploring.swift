import Bitchat
import Common
import Journal
import Loop
import Radio

/// Use of peers that initiated a link as servers too. Facts: bluez.md section 3.
///
/// On a radio that does not keep its clients apart, this covers all peers. A write reaches one peer only and
/// completely, and the peer can notify instead of writing, which loses long writes there. On other radios it covers
/// Earshot peers: writes use sockets at both ends, while a notification takes the slower way over D-Bus.
extension MeshService {
  /// Connection of an attempt; events of a replaced one are ignored.
  @LoopActor
  private final class Exploration {
    weak var link: (any Link)?
  }

  /// Expects a stream from an Earshot peer, which writes its first values one at a time (`StreamWay` of BlueZ). Phones
  /// do not.
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
      Log.shared.debug(
        "Exploring the services of a neighbour failed: \(error)", .link(port.id), .protocolName("bitchat"))
    }
  }

  private func isEarshot(_ port: MeshPort) -> Bool { port.peer.flatMap { engine?.peer($0)?.isEarshot } ?? false }

  /// Handles the same steps as for an outgoing link. A failure leaves the link unchanged.
  private func explored(_ event: LinkEvent, _ port: MeshPort, _ current: (any Link)?) {
    guard let current else { return }
    guard let link = port.exploring, link === current else {
      if port.client === current { use(event, port) }
      return
    }
    switch event {
    case .connected: link.exchangeMTU(BitchatGATT.mtu)
    case .mtuChanged(let mtu):
      // On such a radio, subscribing does not reveal the client's MTU.
      linkChanged(port.id, mtu: mtu)
      link.discover()
    case .discovered(let services) where services.contains(where: \.isNode):
      // If clients are kept apart, an Earshot peer writes to this node and need not notify it.
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

  /// Switches to writing to the peer.
  private func adopt(_ link: any Link, _ port: MeshPort) {
    (port.client, port.exploring, port.isClientReady, port.isBusy) = (link, nil, true, false)
    port.writeLimit = link.writeLimit
    open(port)
    pump(port)
  }
}

extension GATTService {
  /// Whether the service is that of a mesh node.
  var isNode: Bool {
    uuid == BitchatGATT.service
      && characteristics.contains { $0.uuid == BitchatGATT.characteristic.characteristic }
  }
}
