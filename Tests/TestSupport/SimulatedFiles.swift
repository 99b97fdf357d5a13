import Crypto
import Store

/// The content of a `SimulatedDisk`: as programs see it, and as it would be after a power loss.
public struct SimulatedFiles: Sendable {
  public struct Node: Sendable {
    public var kind: FileStatus.Kind
    public var mode: UInt32
    public var owner: UInt32
    public var modified: Int64 = 0
    public var bytes: [UInt8] = []
    public var synced: [UInt8] = []
    var entries: [String: Int] = [:]
    var syncedEntries: [String: Int] = [:]
    /// Changes of the entries since they were synced.
    var pending: [Change] = []
    var lock: ObjectIdentifier?
  }

  enum Change: Sendable {
    case set(String, Int)
    case remove(String)
    case move(String, String, Int)

    func apply(to entries: inout [String: Int]) {
      switch self {
      case .set(let name, let node): entries[name] = node
      case .remove(let name): entries[name] = nil
      case .move(let name, let new, let node):
        entries[name] = nil
        entries[new] = node
      }
    }
  }

  /// The nodes, the root first.
  var nodes = [Node(kind: .directory, mode: 0o755, owner: 0)]
  var clock: Int64 = 1000
  var life = 0
  var calls = 0
  var trace: [SimulatedDisk.Call] = []
  var powerEnds: Int?
  var rule: (@Sendable (SimulatedDisk.Call) -> Int32?)?

  /// Counts a call of the file system, and throws the error that the test has configured for it.
  mutating func step(_ operation: SimulatedDisk.Operation, _ name: String, life: Int? = nil) throws(StoreError) {
    guard life == nil || life == self.life else { throw StoreError(.failed, "a handle from before the restart") }
    calls += 1
    let call = SimulatedDisk.Call(number: calls, operation: operation, name: name)
    if let powerEnds, calls >= powerEnds { throw StoreError(.failed, "no power") }
    trace.append(call)
    if let number = rule?(call) { throw StoreError(errno: number, operation.rawValue, name) }
  }

  mutating func apply(_ change: Change, to node: Int) {
    change.apply(to: &nodes[node].entries)
    nodes[node].pending.append(change)
  }

  func status(_ node: Int) -> FileStatus {
    let node = nodes[node]
    return FileStatus(
      kind: node.kind, mode: node.mode, owner: node.owner, size: node.bytes.count, modified: node.modified)
  }

  func find(_ path: String) -> Int? {
    path.split(separator: "/").reduce(Optional(0)) { node, name in
      node.flatMap { nodes[$0].entries[String(name)] }
    }
  }

  mutating func place(_ path: String, _ node: Node) {
    nodes.append(node)
    nodes[nodes.count - 1].modified = clock
    link(path, nodes.count - 1)
  }

  mutating func link(_ path: String, _ node: Int?) {
    let parts = path.split(separator: "/")
    guard let name = parts.last.map(String.init), let parent = find(parts.dropLast().joined(separator: "/")) else {
      return
    }
    nodes[parent].entries[name] = node
    nodes[parent].syncedEntries[name] = node
  }

  mutating func restart(_ loss: SimulatedDisk.Loss) {
    var random: SeededRandom? = if case .some(let seed) = loss { SeededRandom(seed: seed) } else { nil }
    for index in nodes.indices {
      var node = nodes[index]
      for change in node.pending where loss == .nothing || random.map({ _ in Bool.random(using: &random!) }) == true {
        change.apply(to: &node.syncedEntries)
      }
      switch loss {
      case .everything: node.bytes = node.synced
      case .nothing: break
      case .some: node.bytes = Self.torn(node.synced, node.bytes, &random!)
      }
      node.synced = node.bytes
      node.entries = node.syncedEntries
      node.pending = []
      node.lock = nil
      nodes[index] = node
    }
    life += 1
    calls = 0
    trace = []
    powerEnds = nil
  }

  /// A random mixture of the previous sectors, the sectors being written, and empty ones.
  private static func torn(_ old: [UInt8], _ new: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
    guard old != new else { return new }
    let sector = 64
    let size = [old.count, new.count, Int.random(in: 0...new.count, using: &random)].randomElement(using: &random) ?? 0
    var bytes: [UInt8] = []
    for start in stride(from: 0, to: size, by: sector) {
      let source: ArraySlice<UInt8> =
        switch Int.random(in: 0..<3, using: &random) {
        case 0: old.dropFirst(start).prefix(sector)
        case 1: new.dropFirst(start).prefix(sector)
        default: []
        }
      bytes += source + [UInt8](repeating: 0, count: sector - source.count)
    }
    return Array(bytes.prefix(size))
  }
}
