import Common
import Glibc
import Store

@testable import MeshStore

/// A disk that the test removes and restores.
final class FlakyDisk: MeshDisk {
  private let files: MeshFiles
  private let lost = Locked(false)

  init(_ path: String, environment: @escaping @Sendable (String) -> String? = { _ in nil }) {
    files = MeshFiles(path: path, environment: environment)
  }

  var isLost: Bool {
    get { lost.withLock { $0 } }
    set { lost.withLock { $0 = newValue } }
  }

  private func check() throws(StoreError) {
    if isLost { throw StoreError(errno: EIO, "written", "the disk") }
  }

  func open() throws(StoreError) -> DiskContents {
    try check()
    return try files.open()
  }

  func commit(_ writes: MeshWrites) throws(StoreError) {
    try check()
    try files.commit(writes)
  }

  func write(_ content: [UInt8], to place: UInt64) throws(StoreError) {
    try check()
    try files.write(content, to: place)
  }

  func read(_ place: UInt64) throws(StoreError) -> [UInt8] {
    try check()
    return try files.read(place)
  }

  func erase(_ place: UInt64) {
    if !isLost { files.erase(place) }
  }

  func wipe(keeping number: UInt32) throws(StoreError) -> Bool {
    try check()
    return try files.wipe(keeping: number)
  }
}
