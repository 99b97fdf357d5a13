import Common
import Loop
import Radio

/// A simulated air: the nodes in it, who hears whom, and how well.
///
/// Everything that happens is an event of the scheduler, and chance comes from the seed: in `VirtualTime` the same calls
/// with the same seed lead to the same events at the same times.
@LoopActor
public final class AirSpace {
  public let scheduler: any Scheduler
  /// For all links that have none of their own.
  public var conditions: AirConditions

  let agenda: Agenda
  var generator: SplitMix64
  private(set) var nodes: [AirRadio] = []
  private var byAddress: [BluetoothAddress: AirRadio] = [:]
  private var byLink: [LinkID: AirConnection] = [:]
  private var pairs: [Set<BluetoothAddress>: AirConditions] = [:]
  var connecting: [AirConnection] = []
  var onAir: Roster<OnAir> = Roster()
  var scans: Roster<AirScan> = Roster()
  private var lastLink: UInt64 = 0

  public init(scheduler: any Scheduler, seed: UInt64, conditions: AirConditions = .init()) {
    self.scheduler = scheduler
    self.conditions = conditions
    agenda = Agenda(scheduler)
    generator = SplitMix64(seed: seed)
  }

  // MARK: Nodes

  /// Adds a node, which stays until `removeNode`, or until the air goes.
  ///
  /// - Parameters:
  ///   - address: must not be taken; nil chooses one (`C0:00:00:00:00:01` and up).
  ///   - adapter: what the node calls its adapter.
  public func addNode(
    address: BluetoothAddress? = nil, adapter: String = "air0", position: AirPosition = .init()
  ) -> AirRadio {
    let address = address ?? freeAddress()
    precondition(!isTaken(address), "two nodes with the address \(address)")
    let node = AirRadio(air: self, address: address, adapter: adapter, position: position)
    nodes.append(node)
    byAddress[address] = node
    return node
  }

  /// Takes a node away for good: it is as if its adapter had gone and never came back.
  public func removeNode(_ node: AirRadio) {
    guard byAddress[node.address] === node else { return }
    node.power = false
    node.isRemoved = true
    byAddress[node.address] = nil
    nodes.removeAll { $0 === node }
  }

  public func isTaken(_ address: BluetoothAddress) -> Bool { byAddress[address] != nil }

  private var lastAddress: UInt64 = 0xC000_0000_0000

  private func freeAddress() -> BluetoothAddress {
    repeat { lastAddress += 1 } while isTaken(BluetoothAddress(lastAddress))
    return BluetoothAddress(lastAddress)
  }

  func node(_ address: BluetoothAddress) -> AirRadio? { byAddress[address] }

  // MARK: Range

  /// How far a node is heard, in metres; nil: everywhere.
  public var range: Double? {
    didSet { rangeChanged() }
  }

  /// Decides in place of positions who is in range of whom. Call `rangeChanged()` when its mind changes.
  public var isInRange: (@LoopActor (BluetoothAddress, BluetoothAddress) -> Bool)? {
    didSet { rangeChanged() }
  }

  /// Looks anew at who is in range: links between nodes that are not any more end.
  public func rangeChanged() {
    for connection in allConnections {
      guard let peripheral = connection.peripheral, !hears(connection.central, peripheral) else { continue }
      connection.close(reason: "The peer went out of range.", by: nil)
    }
    audienceChanged()
  }

  func hears(_ one: AirRadio, _ other: AirRadio) -> Bool {
    if let isInRange { return isInRange(one.address, other.address) }
    guard let range else { return true }
    return one.position.distance(to: other.position) <= range
  }

  // MARK: Links

  /// Sets the conditions between two nodes; nil goes back to those of the air.
  public func setConditions(_ conditions: AirConditions?, between one: BluetoothAddress, and other: BluetoothAddress) {
    pairs[[one, other]] = conditions
  }

  func conditions(between one: BluetoothAddress, and other: BluetoothAddress) -> AirConditions {
    guard !pairs.isEmpty else { return conditions }
    return pairs[[one, other]] ?? conditions
  }

  /// Cuts a link as if the nodes had lost each other; either side's number will do.
  ///
  /// - Returns: whether there was such a link.
  @discardableResult
  public func cut(_ link: LinkID) -> Bool {
    guard let connection = byLink[link] else { return false }
    connection.close(reason: "The connection was lost.", by: nil)
    return true
  }

  /// The links that are up or coming up, as their centrals number them, oldest first.
  public var links: [LinkID] { allConnections.map(\.clientID) }

  private var allConnections: [AirConnection] {
    byLink.filter { $0.key == $0.value.clientID }.sorted { $0.key.number < $1.key.number }.map(\.value)
  }

  func newLinkID() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  func connection(_ link: LinkID) -> AirConnection? { byLink[link] }

  func keep(_ connection: AirConnection) {
    byLink[connection.clientID] = connection
    byLink[connection.serverID] = connection
  }

  func forget(_ connection: AirConnection) {
    byLink[connection.clientID] = nil
    byLink[connection.serverID] = nil
  }
}
