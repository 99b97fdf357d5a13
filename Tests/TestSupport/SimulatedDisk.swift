import Common
import Crypto
import Glibc
import Store

/// A file system in memory that loses unsynced data when its power is lost, like the worst of real ones:
/// a file becomes any mixture of old and new sectors, and any of the changed names may have changed.
public final class SimulatedDisk: FileSystem {
  public enum Operation: String, CaseIterable, Sendable {
    case status, names, open, create, openForOverwriting, rename, unlink, link, makeDirectory, openDirectory, sync, lock
    case read, write

    public var writes: Bool {
      switch self {
      case .create, .openForOverwriting, .rename, .unlink, .link, .makeDirectory, .write: true
      default: false
      }
    }
  }

  public struct Call: Sendable {
    /// Number of the call from 1, since the start or the last restart.
    public let number: Int
    public let operation: Operation
    public let name: String
  }

  /// The unsynced data that a power loss leaves.
  public enum Loss: Hashable, Sendable {
    case everything, nothing
    case some(seed: UInt64)

    public static let all: [Loss] = [.everything, .nothing] + (0..<10).map { .some(seed: $0) }
  }

  public let user: UInt32 = 990
  let model = Locked(SimulatedFiles())

  public init() {}

  // MARK: For tests

  /// A copy of the disk in its present state.
  public func copy() -> SimulatedDisk {
    let copy = SimulatedDisk()
    let files = model.withLock { $0 }
    copy.model.withLock { $0 = files }
    return copy
  }

  /// Stops at call `number`, which has no effect, until `restart`.
  public func losePower(at number: Int) { model.withLock { $0.powerEnds = number } }

  /// Makes calls fail with the error number that `rule` returns for them.
  public func fail(_ rule: (@Sendable (Call) -> Int32?)?) { model.withLock { $0.rule = rule } }

  /// Restores the power; all earlier handles are invalid, and all locks released.
  public func restart(_ loss: Loss) { model.withLock { $0.restart(loss) } }

  /// The modification time of later writes.
  public var clock: Int64 {
    get { model.withLock { $0.clock } }
    set { model.withLock { $0.clock = newValue } }
  }

  public var calls: Int { model.withLock { $0.calls } }
  public var trace: [Call] { model.withLock { $0.trace } }

  /// The bytes of the file at a path that begins with `/`.
  public func content(_ path: String) -> [UInt8]? {
    model.withLock { model in model.find(path).map { model.nodes[$0].bytes } }
  }

  public func names(in path: String) -> [String] {
    model.withLock { model in model.find(path).map { model.nodes[$0].entries.keys.sorted() } ?? [] }
  }

  public func change(_ path: String, _ body: (inout SimulatedFiles.Node) -> Void) {
    model.withLock { model in
      guard let node = model.find(path) else { return }
      body(&model.nodes[node])
      model.nodes[node].synced = model.nodes[node].bytes
    }
  }

  /// Places a file there, as another program would.
  public func place(_ path: String, _ bytes: [UInt8], mode: UInt32 = 0o600) {
    model.withLock { $0.place(path, .init(kind: .file, mode: mode, owner: user, bytes: bytes, synced: bytes)) }
  }

  public func placeDirectory(_ path: String, mode: UInt32 = 0o700) {
    model.withLock { $0.place(path, .init(kind: .directory, mode: mode, owner: user)) }
  }

  public func move(_ path: String, to new: String) {
    model.withLock { model in
      guard let node = model.find(path) else { return }
      model.link(new, node)
      model.link(path, nil)
    }
  }

  /// Whether any sector of the disk, deleted or not, has a part of these bytes.
  public func holds(anyOf bytes: [UInt8]) -> Bool {
    let pieces = stride(from: 0, to: bytes.count - 16, by: 16).map { bytes[$0..<$0 + 16] }
    return model.withLock { model in
      model.nodes.contains { node in
        [node.bytes, node.synced].contains { held in
          stride(from: 0, to: max(0, held.count - 16), by: 1).contains { pieces.contains(held[$0..<$0 + 16]) }
        }
      }
    }
  }

  // MARK: As a file system

  public func openDirectory(_ path: String) throws(StoreError) -> any Directory {
    try model.withLock { (model) throws(StoreError) in
      try model.step(.openDirectory, path)
      guard let node = model.find(path) else { throw StoreError(errno: ENOENT, "opened", path) }
      return SimulatedDirectory(self, node, path, life: model.life)
    }
  }
}

final class SimulatedDirectory: Directory {
  private let disk: SimulatedDisk
  private let node: Int
  private let life: Int
  let path: String

  init(_ disk: SimulatedDisk, _ node: Int, _ path: String, life: Int) {
    self.disk = disk
    self.node = node
    self.path = path
    self.life = life
  }

  deinit {
    disk.model.withLock { if $0.nodes[node].lock == ObjectIdentifier(self) { $0.nodes[node].lock = nil } }
  }

  private func call<Value: Sendable>(
    _ operation: SimulatedDisk.Operation, _ name: String,
    _ body: (inout SimulatedFiles) throws(StoreError) -> Value
  ) throws(StoreError) -> Value {
    try disk.model.withLock { (model) throws(StoreError) in
      try model.step(operation, name, life: life)
      return try body(&model)
    }
  }

  private func child(_ name: String, _ model: SimulatedFiles) throws(StoreError) -> Int {
    guard let child = model.nodes[node].entries[name] else { throw StoreError(errno: ENOENT, "found", name) }
    return child
  }

  func status() throws(StoreError) -> FileStatus {
    try call(.status, ".") { (model) throws(StoreError) in model.status(node) }
  }

  func status(of name: String) throws(StoreError) -> FileStatus? {
    try call(.status, name) { (model) throws(StoreError) in model.nodes[node].entries[name].map { model.status($0) } }
  }

  func names() throws(StoreError) -> [String] {
    try call(.names, ".") { (model) throws(StoreError) in Array(model.nodes[node].entries.keys) }
  }

  func open(_ name: String) throws(StoreError) -> any OpenFile { try open(name, .open) }
  func openForOverwriting(_ name: String) throws(StoreError) -> any OpenFile { try open(name, .openForOverwriting) }

  private func open(_ name: String, _ operation: SimulatedDisk.Operation) throws(StoreError) -> any OpenFile {
    try call(operation, name) { (model) throws(StoreError) in
      let child = try child(name, model)
      guard model.nodes[child].kind == .file else { throw StoreError(errno: EISDIR, "opened", name) }
      return SimulatedFile(disk, child, name, life: life)
    }
  }

  func create(_ name: String) throws(StoreError) -> any OpenFile {
    try call(.create, name) { (model) throws(StoreError) in
      guard model.nodes[node].entries[name] == nil else { throw StoreError(errno: EEXIST, "made", name) }
      model.nodes.append(.init(kind: .file, mode: 0o600, owner: disk.user, modified: model.clock))
      model.apply(.set(name, model.nodes.count - 1), to: node)
      return SimulatedFile(disk, model.nodes.count - 1, name, life: life)
    }
  }

  func rename(_ name: String, to new: String) throws(StoreError) {
    try call(.rename, "\(name) \(new)") { (model) throws(StoreError) in
      model.apply(.move(name, new, try child(name, model)), to: node)
    }
  }

  func unlink(_ name: String) throws(StoreError) {
    try call(.unlink, name) { (model) throws(StoreError) in
      guard model.nodes[try child(name, model)].kind != .directory else { throw StoreError(errno: EISDIR, "", name) }
      model.apply(.remove(name), to: node)
    }
  }

  func link(_ name: String, as new: String, in directory: any Directory) throws(StoreError) {
    guard let other = directory as? SimulatedDirectory else { throw StoreError(errno: EXDEV, "linked", name) }
    try call(.link, "\(name) \(new)") { (model) throws(StoreError) in
      guard model.nodes[other.node].entries[new] == nil else { throw StoreError(errno: EEXIST, "linked", new) }
      model.apply(.set(new, try child(name, model)), to: other.node)
    }
  }

  func makeDirectory(_ name: String) throws(StoreError) {
    try call(.makeDirectory, name) { (model) throws(StoreError) in
      model.nodes.append(.init(kind: .directory, mode: 0o700, owner: disk.user))
      model.apply(.set(name, model.nodes.count - 1), to: node)
    }
  }

  func openDirectory(_ name: String) throws(StoreError) -> any Directory {
    try call(.openDirectory, name) { (model) throws(StoreError) in
      let child = try child(name, model)
      guard model.nodes[child].kind == .directory else { throw StoreError(errno: ENOTDIR, "opened", name) }
      return SimulatedDirectory(disk, child, "\(path)/\(name)", life: life)
    }
  }

  func sync() throws(StoreError) {
    try call(.sync, ".") { (model) throws(StoreError) in
      model.nodes[node].syncedEntries = model.nodes[node].entries
      model.nodes[node].pending = []
    }
  }

  func lock() throws(StoreError) {
    try call(.lock, ".") { (model) throws(StoreError) in
      guard model.nodes[node].lock == nil else { throw StoreError(errno: EWOULDBLOCK, "locked", path) }
      model.nodes[node].lock = ObjectIdentifier(self)
    }
  }
}

final class SimulatedFile: OpenFile {
  private let disk: SimulatedDisk
  private let node: Int
  private let name: String
  private let life: Int

  init(_ disk: SimulatedDisk, _ node: Int, _ name: String, life: Int) {
    self.disk = disk
    self.node = node
    self.name = name
    self.life = life
  }

  func status() throws(StoreError) -> FileStatus {
    try disk.model.withLock { (model) throws(StoreError) in
      try model.step(.status, name, life: life)
      return model.status(node)
    }
  }

  func read(atMost count: Int) throws(StoreError) -> [UInt8] {
    try disk.model.withLock { (model) throws(StoreError) in
      try model.step(.read, name, life: life)
      return Array(model.nodes[node].bytes.prefix(count))
    }
  }

  func write(_ bytes: [UInt8], at offset: Int) throws(StoreError) {
    try disk.model.withLock { (model) throws(StoreError) in
      var count = bytes.count
      let failure = caughtError { () throws(StoreError) in try model.step(.write, name, life: life) }
      // Half of the bytes are written before the disk is found to be full.
      if failure?.reason == .diskFull { count /= 2 } else if let failure { throw failure }
      let missing = offset + count - model.nodes[node].bytes.count
      if missing > 0 { model.nodes[node].bytes += [UInt8](repeating: 0, count: missing) }
      model.nodes[node].bytes.replaceSubrange(offset..<offset + count, with: bytes[..<count])
      model.nodes[node].modified = model.clock
      if let failure { throw failure }
    }
  }

  func sync() throws(StoreError) {
    try disk.model.withLock { (model) throws(StoreError) in
      try model.step(.sync, name, life: life)
      model.nodes[node].synced = model.nodes[node].bytes
    }
  }
}

/// The error of a body with one error type; nil if it throws none.
public func caughtError(_ body: () throws(StoreError) -> Void) -> StoreError? {
  do throws(StoreError) {
    try body()
    return nil
  } catch {
    return error
  }
}
