import Common
import Loop
import Radio

/// A simulated radio: its nodes, which of them are in range of each other, and the quality of their links.
///
/// Everything happens as an event of the scheduler, and randomness comes from the seed. In `VirtualTime`, equal calls
/// with equal seeds lead to equal events at equal times.
@LoopActor
public final class AirSpace {
  public let scheduler: any Scheduler
  /// The conditions of all links without conditions of their own.
  public var conditions: AirConditions
  /// The capabilities of nodes that are added later.
  public var controller: AirController

  let agenda: Agenda
  var generator: SplitMix64
  private(set) var nodes: [AirRadio] = []
  private var byAddress: [BluetoothAddress: AirRadio] = [:]
  private var byLink: [LinkID: AirEnd] = [:]
  private var pairs: [Set<BluetoothAddress>: AirConditions] = [:]
  var attempts: [AirAttempt] = []
  var onAir: Roster<OnAir> = Roster()
  var scans: Roster<AirScan> = Roster()
  private var lastLink: UInt64 = 0

  public init(
    scheduler: any Scheduler, seed: UInt64, conditions: AirConditions = .init(), controller: AirController = .init()
  ) {
    self.scheduler = scheduler
    self.conditions = conditions
    self.controller = controller
    agenda = Agenda(scheduler)
    generator = SplitMix64(seed: seed)
  }

  // MARK: Nodes

  /// Adds a node, which stays until `removeNode`, or until this object ends.
  ///
  /// - Parameters:
  ///   - address: an unused address; nil chooses one (`C0:00:00:00:00:01` and up).
  ///   - adapter: the name of the node's adapter.
  ///   - controller: the node's capabilities; nil: those of this simulated radio.
  public func addNode(
    address: BluetoothAddress? = nil, adapter: String = "air0", position: AirPosition = .init(),
    controller: AirController? = nil
  ) -> AirRadio {
    let address = address ?? freeAddress()
    precondition(!isTaken(address), "two nodes with the address \(address)")
    let node = AirRadio(
      air: self, address: address, adapter: adapter, position: position, controller: controller ?? self.controller)
    nodes.append(node)
    byAddress[address] = node
    return node
  }

  /// Removes a node permanently, as if its adapter had been unplugged.
  public func removeNode(_ node: AirRadio) {
    guard byAddress[node.address] === node else { return }
    node.leave()
    byAddress[node.address] = nil
    nodes.removeAll { $0 === node }
  }

  public func isTaken(_ address: BluetoothAddress) -> Bool { byAddress[address] != nil }

  private var lastAddress: UInt64 = 0xC000_0000_0000

  private func freeAddress() -> BluetoothAddress {
    repeat { lastAddress += 1 } while isTaken(BluetoothAddress(lastAddress))
    return BluetoothAddress(lastAddress)
  }

  /// Gives a node a random resolvable private address (Core 5.4 Vol 6 Part B 1.3.2.2).
  func moveToNewAddress(_ node: AirRadio) {
    var address: BluetoothAddress
    repeat {
      address = BluetoothAddress(generator.next() & 0x3FFF_FFFF_FFFF | 0x4000_0000_0000)
    } while isTaken(address)
    byAddress[node.address] = nil
    node.address = address
    byAddress[address] = node
  }

  func node(_ address: BluetoothAddress) -> AirRadio? { byAddress[address] }

  // MARK: Range

  /// The range of a node, in metres; nil means unlimited.
  public var range: Double? {
    didSet { rangeChanged() }
  }

  /// Decides, instead of positions, whether two nodes are in range of each other. Call `rangeChanged()` when its
  /// results change.
  public var isInRange: (@LoopActor (BluetoothAddress, BluetoothAddress) -> Bool)? {
    didSet { rangeChanged() }
  }

  /// Determines again which nodes are in range of each other, and ends links between nodes that are not.
  public func rangeChanged() {
    for end in centralEnds {
      guard let peer = end.peer, !hears(end.node, peer.node) else { continue }
      end.close("The peer went out of range.", atOnce: true)
    }
    audienceChanged()
  }

  func hears(_ one: AirRadio, _ other: AirRadio) -> Bool {
    if let isInRange { return isInRange(one.address, other.address) }
    guard let range else { return true }
    return one.position.distance(to: other.position) <= range
  }

  // MARK: Links

  /// Sets the conditions between two nodes; nil restores the common conditions.
  public func setConditions(_ conditions: AirConditions?, between one: BluetoothAddress, and other: BluetoothAddress) {
    pairs[[one, other]] = conditions
  }

  func conditions(between one: BluetoothAddress, and other: BluetoothAddress) -> AirConditions {
    guard !pairs.isEmpty else { return conditions }
    return pairs[[one, other]] ?? conditions
  }

  /// Ends a link as if the nodes had lost each other, or ends an attempt. Either node's number identifies the link.
  ///
  /// - Returns: whether the link or attempt existed.
  @discardableResult
  public func cut(_ link: LinkID) -> Bool {
    let reason = "The connection was lost."
    if let end = byLink[link] {
      end.close(reason, atOnce: true)
    } else if let attempt = attempts.first(where: { $0.id == link }) {
      attempt.end(reason)
    } else {
      return false
    }
    return true
  }

  /// The links that are up or coming up, by their centrals' numbers, oldest first.
  public var links: [LinkID] {
    (centralEnds.map(\.id) + attempts.map(\.id)).sorted { $0.number < $1.number }
  }

  private var centralEnds: [AirEnd] {
    byLink.values.filter { $0.origin == .here }.sorted { $0.id.number < $1.id.number }
  }

  func newLinkID() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  func end(_ link: LinkID) -> AirEnd? { byLink[link] }

  func keep(_ end: AirEnd) {
    byLink[end.id] = end
    end.node.connected(end)
  }

  func forget(_ end: AirEnd) {
    byLink[end.id] = nil
  }
}
