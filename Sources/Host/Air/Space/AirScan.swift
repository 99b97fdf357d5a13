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
  /// Numbers of advertisements that need no report any more.
  private var reported: Set<UInt64> = []
  private var known: [BluetoothAddress: Advertiser] = [:]
  /// Since when those who were sighted cannot be received any more.
  private var lost: [BluetoothAddress: Instant] = [:]

  private struct Advertiser {
    var reported: [UInt64] = []
    var last: UInt64 = 0
    var lastContent: [[UInt8]] = []
  }

  init(node: AirRadio, services: [BluetoothUUID], handler: @escaping Handler) {
    self.node = node
    self.services = Set(services)
    self.handler = handler
  }

  /// An advertisement was received.
  func hear(_ id: UInt64, _ advertisement: OnAir, as sighting: Sighting, in air: AirSpace) {
    guard services.isEmpty || !services.isDisjoint(with: sighting.serviceUUIDs) else { return }
    if !lost.isEmpty, let since = lost.removeValue(forKey: sighting.address),
      since.duration(to: air.agenda.now) >= Self.memory
    {
      forget(sighting.address)
    }
    guard reported.insert(id).inserted else { return }
    let content = [advertisement.data, advertisement.scanResponse]
    var advertiser = known[sighting.address] ?? Advertiser()
    let isRenewed = advertiser.lastContent == content && air.onAir[advertiser.last] == nil
    advertiser.reported.append(id)
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
    guard known[address] != nil, lost[address] == nil else { return }
    lost[address] = now
  }

  /// An advertisement has ended.
  func forget(_ id: UInt64, of address: BluetoothAddress) {
    guard reported.remove(id) != nil else { return }
    known[address]?.reported.removeAll { $0 == id }
  }

  private func forget(_ address: BluetoothAddress) {
    for id in known.removeValue(forKey: address)?.reported ?? [] { reported.remove(id) }
  }

  /// The scan begins anew.
  func restart() {
    reported = []
    known = [:]
    lost = [:]
  }
}
