import Common
import Loop
import Radio

extension RemoteAir {
  /// Passes an event of the node on to the delegate.
  func happened(_ frame: HubFrame) {
    switch frame {
    case .sighting(let address, let rssi, let data, let scanResponse):
      heard(Sighting(address: address, data: data, scanResponse: scanResponse, rssi: rssi.map { Int($0) }))
    case .packet(let packet):
      if listening?.wants(packet.data[...]) == true { delegate?.heard(packet) }
    case .served(let number, let isServed): served(ApplicationID(Int(number)), isServed)
    case .linkUp(let link, let address, let since, let traits): linkUp(link, address, since, traits)
    case .linkChanged(let link, let mtu):
      if let own = links[link] { delegate?.linkChanged(own, mtu: Int(mtu)) }
    case .linkDown(let link): linkDown(link)
    case .used(let number, let link, let use):
      guard let own = links[link], application(ApplicationID(Int(number))) != nil else { return }
      peers[own]?.used(ApplicationID(Int(number)), use)
      delegate?.used(ApplicationID(Int(number)), by: own, use)
    case .written(let number, let link, let characteristic, let answer, let value):
      let error = written(value, to: characteristic, of: ApplicationID(Int(number)), on: link)
      if answer != 0 { send(.answer(answer, error)) }
    case .gone(let link, let count):
      guard let own = links[link] else { return }
      peers[own]?.gone(Int(count))
      makeRoom()
    case .event(let number, let event):
      guard let connection = connections[number] else { return }
      if case .disconnected = event { connections[number] = nil }
      connection.happened(event)
    case .welcome, .refused, .status, .abilities, .addressChanged: break
    }
  }

  private func served(_ number: ApplicationID, _ isServed: Bool) {
    guard let index = applications.firstIndex(where: { $0.number == number }),
      applications[index].isServed != isServed
    else { return }
    applications[index].isServed = isServed
    if !isServed { for link in peers.keys { peers[link]?.ended(number) } }
    delegate?.applicationChanged(number, isServed: isServed)
  }

  private func linkUp(_ link: LinkID, _ address: BluetoothAddress, _ since: Instant, _ traits: AirLinkTraits) {
    guard links[link] == nil else { return }
    // A connection that this program requested keeps the identity that it was given then.
    let asked = connections.sorted { $0.key < $1.key }.map(\.value).first {
      $0.target == address && !$0.isConnected && peers[$0.id] == nil
    }
    let own = asked?.id ?? Self.newLinkID()
    links[link] = own
    peers[own] = RemotePeer(link, address, traits)
    delegate?.linkUp(DriverLink(id: own, address: address, since: since))
  }

  private func linkDown(_ link: LinkID) {
    guard let own = links.removeValue(forKey: link) else { return }
    peers[own] = nil
    // The hub may have treated a connection that was to share this link as a new one.
    for (number, connection) in connections.sorted(by: { $0.key < $1.key }) where connection.id == own {
      connections[number] = nil
      send(.disconnect(connection: number))
      connection.end(AirEnd.peerDisconnected)
    }
    delegate?.linkDown(own)
  }

  private func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of number: ApplicationID, on link: LinkID
  ) -> ATTError? {
    guard let own = links[link], application(number) != nil, let delegate else { return .unlikely }
    do throws(ATTError) {
      try delegate.written(value, to: characteristic, of: number, on: own)
      return nil
    } catch {
      return error
    }
  }
}
