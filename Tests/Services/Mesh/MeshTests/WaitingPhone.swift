import Air
import Common
import Loop
import Radio
import TestSupport

@testable import Mesh

/// A phone that advertises as a node, and waits for connections.
@LoopActor
final class WaitingPhone: GATTServerDelegate {
  let address: BluetoothAddress
  private let radio: any Radio
  private var server: (any GATTServer)?
  private var advertisement: Registration?
  /// Links with a subscription, in their order.
  private(set) var subscribers: [LinkID] = []

  /// - Parameter isNode: whether it has the GATT service that it advertises.
  init(on village: Village, isNode: Bool) throws {
    let node = village.air.addNode(position: AirPosition(x: 1))
    address = node.address
    radio = node.tenant(village.time)
    if isNode { server = radio.serve(BitchatGATT.application, delegate: self) }
    let data = AdvertisingData(flags: 6, serviceUUIDs: [BitchatGATT.service])
    advertisement = try radio.advertise(Advertisement(data: data), AdvertisingTerms(), for: server)
  }

  /// Notifies the latest subscriber.
  func notify(_ value: [UInt8]) {
    guard let link = subscribers.last else { return }
    server?.notify(value, of: BitchatGATT.characteristic, to: .link(link))
  }

  func leave() {
    advertisement?.cancel()
    server?.close()
  }

  func linkOpened(_ link: LinkID, address: BluetoothAddress, since: Instant) {}
  func linkChanged(_ link: LinkID, mtu: Int) {}
  func subscribed(_ link: LinkID, to characteristic: CharacteristicID, _ isSubscribed: Bool) {
    if isSubscribed { subscribers.append(link) }
  }
  func written(_ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID) throws(ATTError) {}
  func linkClosed(_ link: LinkID) {}
}
