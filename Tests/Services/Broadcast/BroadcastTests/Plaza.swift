import Air
import Common
import Crypto
import DBus
import Loop
import PBLEC
import Radio
import Sharing
import TestSupport

@testable import Broadcast

/// Machines with the broadcast service on one simulated radio, in virtual time.
@LoopActor
final class Plaza {
  /// 2026-03-09 12:00 UTC, in milliseconds since 1970.
  static let start: Int64 = 1_773_057_600_000

  /// A machine, and the reports of its service to local programs.
  @LoopActor
  final class Stall {
    let node: AirRadio
    let shared: SharedRadio
    let clock: VirtualWallClock
    var service: BroadcastService
    private(set) var outcomes: [UInt64: BroadcastError?] = [:]
    private(set) var notifications = 0
    private(set) var calls: [BroadcastError?] = []

    init(_ node: AirRadio, _ shared: SharedRadio, _ clock: VirtualWallClock, _ service: BroadcastService) {
      (self.node, self.shared, self.clock, self.service) = (node, shared, clock, service)
    }

    func observe() {
      service.outcomes.addForGood { [weak self] in self?.outcomes[$0.number] = .some($0.error) }
      service.notifications.addForGood { [weak self] in self?.notifications += 1 }
      service.callOutcomes.addForGood { [weak self] in self?.calls.append($0) }
    }

    /// The received texts, in order.
    var texts: [String] { service.messages(after: 0, limit: 1000).map(\.text.string) }
    /// The alias words of the senders.
    var peers: [String] { service.messages(after: 0, limit: 1000).map { PeerWord.word($0.alias) } }

    func count(_ name: String) -> UInt64 { service.tallies.first { $0.name == name }?.count ?? 0 }

    func send(_ text: String) throws(BroadcastService.Refusal) -> UInt64 { try service.send(text) }

    /// The error code with which sending is refused; empty on success.
    func refusal(_ text: String) -> String {
      do throws(BroadcastService.Refusal) { _ = try service.send(text) } catch { return DBusError(error).name }
      return ""
    }
  }

  let time = VirtualTime()
  let air: AirSpace
  private(set) var stalls: [Stall] = []
  private let seed: UInt64

  init(seed: UInt64 = 1, conditions: AirConditions = AirConditions()) {
    self.seed = seed
    air = AirSpace(scheduler: time, seed: seed, conditions: conditions)
  }

  @discardableResult
  func add(
    directory: String = "", disk: (any Offloading)? = nil, slots: Int = 4,
    _ adjust: (inout BroadcastService.Settings) -> Void = { _ in }
  ) -> Stall {
    let node = air.addNode(controller: AirController(advertisingSlots: slots))
    let shared = SharedRadio(driver: node, scheduler: time)
    let clock = VirtualWallClock(time, from: Self.start)
    let stall = Stall(node, shared, clock, service(shared, clock, directory, disk ?? time, adjust))
    stalls.append(stall)
    stall.observe()
    stall.service.start()
    time.advance(by: .milliseconds(10))
    return stall
  }

  private func service(
    _ shared: SharedRadio, _ clock: VirtualWallClock, _ directory: String, _ disk: any Offloading,
    _ adjust: (inout BroadcastService.Settings) -> Void
  ) -> BroadcastService {
    var settings = BroadcastService.Settings()
    settings.enabled = true
    adjust(&settings)
    let own = seed &* 1000 &+ UInt64(stalls.count)
    return BroadcastService(
      radio: shared.tenant("broadcast", share: BroadcastService.linkShare), scheduler: time, settings: settings,
      keeper: NotificationStore(directory: directory, scheduler: time, disk: disk), clock: clock,
      localDay: { CalendarDay(Int($0 / 86_400_000)) }, random: { SeededRandom(seed: own) })
  }

  /// Stops the service of a machine, and starts a new one with the same radio and files.
  func restart(
    _ stall: Stall, directory: String, disk: (any Offloading)? = nil,
    _ adjust: (inout BroadcastService.Settings) -> Void = { _ in }
  ) {
    stall.service.stop()
    time.advance(by: .seconds(1))
    stall.service = service(stall.shared, stall.clock, directory, disk ?? time, adjust)
    stall.observe()
    stall.service.start()
    time.advance(by: .milliseconds(10))
  }

  /// Delivers a packet of a peer that is not a machine of the plaza.
  func hear(_ data: [UInt8], from address: UInt64, rssi: Int? = -60) {
    air.send(
      AdvertisingPacket(
        address: BluetoothAddress(address), addressKind: .randomAddress, kind: .connectable, rssi: rssi, time: time.now,
        data: data))
  }

  func hear(_ name: String, from address: UInt64, rssi: Int? = -60) {
    hear([2, 1, 0x1A, UInt8(1 + name.utf8.count), 9] + Array(name.utf8), from: address, rssi: rssi)
  }

  func hear(_ beacon: NotifyBeacon) { hear(beacon.bytes, from: 0xBEAC) }

  /// Creates a node that records each received packet.
  func listen(on node: AirRadio? = nil) throws -> Ear {
    let node = node ?? air.addNode()
    let ear = Ear(SharedRadio(driver: node, scheduler: time))
    let tenant = ear.radio.tenant("ear", share: .nothing)
    ear.registration = try tenant.listen(for: []) { [weak ear] in ear?.packets.append($0) }
    return ear
  }

  @LoopActor
  final class Ear {
    let radio: SharedRadio
    var registration: Registration?
    var packets: [AdvertisingPacket] = []

    init(_ radio: SharedRadio) { self.radio = radio }

    /// The packets that carry a name, grouped by name in the order of first reception.
    var names: [(name: String, packets: [AdvertisingPacket])] {
      var found: [(name: String, packets: [AdvertisingPacket])] = []
      for packet in packets {
        guard let name = AdvertisingData(decoding: packet.data).localName else { continue }
        if let index = found.firstIndex(where: { $0.name == name }) {
          found[index].packets.append(packet)
        } else {
          found.append((name, [packet]))
        }
      }
      return found
    }
  }
}
