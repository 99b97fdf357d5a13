import Common
import Loop
import Radio

/// What a program knows of an application that it serves: its delegate, and the links under the hub's and under our numbers.
@LoopActor
final class RemoteApplication {
  private weak var delegate: (any GATTServerDelegate)?
  private var ours: [LinkID: LinkID] = [:]
  private(set) var theirs: [LinkID: LinkID] = [:]

  init(_ delegate: any GATTServerDelegate) {
    self.delegate = delegate
  }

  func opened(_ link: LinkID, _ address: BluetoothAddress) {
    guard ours[link] == nil else { return }
    let own = RemoteAir.newLinkID()
    ours[link] = own
    theirs[own] = link
    delegate?.linkOpened(own, address: address)
  }

  func changed(_ link: LinkID, _ mtu: Int) {
    if let own = ours[link] { delegate?.linkChanged(own, mtu: mtu) }
  }

  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, on link: LinkID
  ) -> Result<Void, ATTError> {
    guard let own = ours[link], let delegate else { return .failure(.unlikely) }
    do throws(ATTError) {
      try delegate.written(value, to: characteristic, on: own)
      return .success(())
    } catch {
      return .failure(error)
    }
  }

  func closed(_ link: LinkID) {
    guard let own = ours.removeValue(forKey: link) else { return }
    theirs[own] = nil
    delegate?.linkClosed(own)
  }

  /// No call to the delegate comes after this.
  func close() {
    delegate = nil
  }

  /// The hub is gone, and all links with it.
  func closeLinks() {
    for link in ours.keys.sorted(by: { $0.number < $1.number }) { closed(link) }
  }
}

/// The handle on an application that is served through the hub; dropping it closes it.
@LoopActor
final class RemoteServer: GATTServer {
  private let air: RemoteAir
  private let id: UInt32
  private let state: RemoteApplication
  private let registration: Registration

  init(air: RemoteAir, id: UInt32, _ state: RemoteApplication, _ registration: Registration) {
    self.air = air
    self.id = id
    self.state = state
    self.registration = registration
  }

  func notify(_ value: [UInt8], of characteristic: CharacteristicID, to link: LinkID) {
    if let link = state.theirs[link] { air.send(.notify(id: id, link, characteristic, value)) }
  }

  func disconnect(_ link: LinkID) {
    if let link = state.theirs[link] { air.send(.disconnectClient(id: id, link)) }
  }

  func close() {
    registration.cancel()
  }
}
