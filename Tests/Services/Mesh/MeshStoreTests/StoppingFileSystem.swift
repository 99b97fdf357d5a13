import Common
import Store

/// The real file system up to a chosen call; later calls do nothing, as if the process had been killed there.
final class StoppingFileSystem: FileSystem {
  private let real = SystemFileSystem()
  private let calls = Locked<(count: Int, end: Int)>((0, .max))

  var user: UInt32 { real.user }
  var count: Int { calls.withLock { $0.count } }

  /// Stops before the call with this number, counted from now.
  func stop(at number: Int) { calls.withLock { $0 = (0, number) } }

  func openDirectory(_ path: String) throws(StoreError) -> any Directory {
    StoppingDirectory(try real.openDirectory(path), self)
  }

  func step() throws(StoreError) {
    try calls.withLock { (calls) throws(StoreError) in
      calls.count += 1
      if calls.count >= calls.end { throw StoreError(.failed, "killed") }
    }
  }
}

private struct StoppingDirectory: Directory {
  let real: any Directory
  let system: StoppingFileSystem

  init(_ real: any Directory, _ system: StoppingFileSystem) { (self.real, self.system) = (real, system) }

  var path: String { real.path }
  func status() throws(StoreError) -> FileStatus { try real.status() }
  func status(of name: String) throws(StoreError) -> FileStatus? { try real.status(of: name) }
  func names() throws(StoreError) -> [String] { try real.names() }
  func open(_ name: String) throws(StoreError) -> any OpenFile {
    StoppingFile(real: try real.open(name), system: system)
  }
  func create(_ name: String) throws(StoreError) -> any OpenFile {
    try system.step()
    return StoppingFile(real: try real.create(name), system: system)
  }
  func openForOverwriting(_ name: String) throws(StoreError) -> any OpenFile {
    StoppingFile(real: try real.openForOverwriting(name), system: system)
  }
  func rename(_ name: String, to new: String) throws(StoreError) {
    try system.step()
    try real.rename(name, to: new)
  }
  func unlink(_ name: String) throws(StoreError) {
    try system.step()
    try real.unlink(name)
  }
  func link(_ name: String, as new: String, in directory: any Directory) throws(StoreError) {
    try system.step()
    try real.link(name, as: new, in: (directory as? StoppingDirectory)?.real ?? directory)
  }
  func makeDirectory(_ name: String) throws(StoreError) { try real.makeDirectory(name) }
  func openDirectory(_ name: String) throws(StoreError) -> any Directory {
    StoppingDirectory(try real.openDirectory(name), system)
  }
  func sync() throws(StoreError) {
    try system.step()
    try real.sync()
  }
  func lock() throws(StoreError) { try real.lock() }
}

private struct StoppingFile: OpenFile {
  let real: any OpenFile
  let system: StoppingFileSystem

  func status() throws(StoreError) -> FileStatus { try real.status() }
  func read(atMost count: Int) throws(StoreError) -> [UInt8] { try real.read(atMost: count) }
  func write(_ bytes: [UInt8], at offset: Int) throws(StoreError) {
    try system.step()
    try real.write(bytes, at: offset)
  }
  func sync() throws(StoreError) {
    try system.step()
    try real.sync()
  }
}
