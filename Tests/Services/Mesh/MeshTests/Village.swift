import Air
import BitchatWire
import Common
import Crypto
import Loop
import Radio
import Sharing
import TestSupport

@testable import Mesh
@testable import MeshStore

/// Nodes of the mesh on one simulated radio, in virtual time.
@LoopActor
final class Village {
  /// A machine with a node, and the reports of its service to local programs.
  @LoopActor
  final class House {
    let radio: AirRadio
    let shared: SharedRadio
    var mesh: MeshService
    var waiting: [UInt32] = []
    var progress: [UInt32: [MeshMessage.State]] = [:]

    init(_ radio: AirRadio, _ shared: SharedRadio, _ mesh: MeshService) {
      (self.radio, self.shared, self.mesh) = (radio, shared, mesh)
    }

    func observe() {
      mesh.messages.arrivals.addForGood { [weak self] in self?.waiting.append($0) }
      mesh.messages.progress.addForGood { [weak self] in self?.progress[$0.number, default: []].append($0.state) }
    }

    var id: PeerID { mesh.node.ownID }
    /// The texts from other nodes, public and private, in order.
    var texts: [String] { mesh.messages.log.messages.filter { $0.sender != id }.map(\.text) }
  }

  let time = VirtualTime()
  let air: AirSpace
  private(set) var houses: [House] = []
  let seed: UInt64

  init(seed: UInt64 = 1, conditions: AirConditions = AirConditions()) {
    self.seed = seed
    air = AirSpace(scheduler: time, seed: seed, conditions: conditions)
    air.range = 10
  }

  /// Adds a house at this position along the street, at this distance from it.
  @discardableResult
  func add(
    _ name: String, at metres: Double = 0, off street: Double = 0, directory: String? = nil,
    disk: (any Offloading)? = nil, clock: VirtualWallClock? = nil, store: (any MeshDisk)? = nil,
    scheduler: (any Scheduler)? = nil, _ adjust: (inout MeshSettings) -> Void = { _ in }
  ) -> House {
    let radio = air.addNode(position: AirPosition(x: metres, y: street))
    let scheduler = scheduler ?? time
    let shared = SharedRadio(driver: radio, scheduler: scheduler)
    let house = House(
      radio, shared,
      service(name, shared, directory, disk ?? time, clock ?? VirtualWallClock(time), store, scheduler, adjust))
    houses.append(house)
    house.observe()
    house.mesh.start()
    return house
  }

  private func service(
    _ name: String, _ shared: SharedRadio, _ directory: String?, _ disk: any Offloading, _ clock: VirtualWallClock,
    _ store: (any MeshDisk)?, _ scheduler: any Scheduler, _ adjust: (inout MeshSettings) -> Void
  ) -> MeshService {
    var settings = MeshSettings()
    settings.nickname = name
    adjust(&settings)
    let first = seed &* 1000 &+ UInt64(houses.count)
    var made: UInt64 = 0
    let kept = settings.kept
    let keeper =
      store.map { NodeStore($0, settings: kept, scheduler: scheduler, worker: disk, clock: clock) }
      ?? NodeStore(directory: directory, settings: kept, scheduler: scheduler, disk: disk, clock: clock)
    return MeshService(
      radio: shared.tenant("mesh", share: MeshService.linkShare), scheduler: scheduler, settings: settings,
      keeper: keeper, clock: clock,
      random: {
        made += 1
        return SeededRandom(seed: first &* 100 &+ made)
      })
  }

  /// Ends the service of a house, and starts another one on the same machine.
  func restart(
    _ house: House, _ name: String, directory: String, disk: (any Offloading)? = nil, store: (any MeshDisk)? = nil,
    _ adjust: (inout MeshSettings) -> Void = { _ in }
  ) {
    house.mesh.stop()
    time.advance(by: .seconds(1))
    house.mesh = service(
      name, SharedRadio(driver: house.radio, scheduler: time), directory, disk ?? time, VirtualWallClock(time), store,
      time,
      adjust)
    (house.waiting, house.progress) = ([], [:])
    house.observe()
    house.mesh.start()
  }

  /// Advances time until a condition holds.
  func wait(_ limit: Duration = .seconds(60), until condition: () -> Bool) -> Bool {
    time.run(until: condition, limit: limit)
  }

  /// Whether each of the houses knows all others.
  var isAcquainted: Bool {
    houses.allSatisfy { house in houses.allSatisfy { $0 === house || house.mesh.node.engine?.peer($0.id) != nil } }
  }
}

extension MeshPeers {
  /// Edits the marks of a marked peer without a change in the store.
  func edit(_ peer: PeerID, _ change: (inout PeerMarks) -> Void) {
    guard var marks = marks[peer] else { return }
    change(&marks)
    remember(marks)
  }
}
