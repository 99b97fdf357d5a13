import Common
import Loop
import Radio

/// A scan that is running, and what it has reported.
@LoopActor
final class AirScan {
  /// How long an advertiser is remembered after it was last in the air, as BlueZ does.
  static let memory = Duration.seconds(30)

  typealias Handler = @LoopActor (_ sighting: Sighting, _ data: [UInt8], _ scanResponse: [UInt8]) -> Void

  let node: AirRadio
  private let services: Set<BluetoothUUID>
  private let handler: Handler
  private var known: [BluetoothAddress: Advertiser] = [:]

  private struct Advertiser {
    /// Numbers of advertisements that need no report any more.
    var reported: Set<UInt64> = []
    var last: UInt64 = 0
    var lastContent: [[UInt8]] = []
    var goneSince: Instant?
  }

  init(node: AirRadio, services: [BluetoothUUID], handler: @escaping Handler) {
    self.node = node
    self.services = Set(services)
    self.handler = handler
  }

  /// An advertisement was received.
  func hear(_ id: UInt64, _ advertisement: OnAir, as sighting: Sighting, in air: AirSpace) {
    guard services.isEmpty || !services.isDisjoint(with: sighting.serviceUUIDs) else { return }
    var advertiser = known[sighting.address] ?? Advertiser()
    if let gone = advertiser.goneSince, gone.duration(to: air.agenda.now) >= Self.memory { advertiser = Advertiser() }
    advertiser.goneSince = nil
    let isNew = advertiser.reported.insert(id).inserted
    known[sighting.address] = advertiser
    guard isNew else { return }
    let content = [advertisement.data, advertisement.scanResponse]
    let isRenewed = advertiser.lastContent == content && air.onAir[advertiser.last] == nil
    advertiser.last = id
    advertiser.lastContent = content
    known[sighting.address] = advertiser
    guard !isRenewed else { return }
    var sighting = sighting
    sighting.rssi = air.range == nil ? nil : advertisement.node.position.rssi(at: node.position)
    handler(sighting, advertisement.data, advertisement.scanResponse)
  }

  /// Nothing of an advertiser can be received any more, for now.
  func lose(_ address: BluetoothAddress, at now: Instant) {
    guard known[address] != nil, known[address]?.goneSince == nil else { return }
    known[address]?.goneSince = now
  }

  func forget(_ id: UInt64, of address: BluetoothAddress) {
    known[address]?.reported.remove(id)
  }

  /// The scan begins anew.
  func restart() {
    known = [:]
  }
}
