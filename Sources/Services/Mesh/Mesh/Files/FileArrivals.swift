import Bitchat
import BitchatWire
import Common
import Journal
import MeshStore

/// Numbers of incoming files, from their first fragments until they are stored.
struct FileArrivals: Sendable {
  /// Maximum number of files that are listed while they arrive. Any other file is listed when it is stored.
  static let limit = 16
  /// Maximum number of files newly listed in a minute: each uses a number, and any peer can begin to send.
  static let perMinute = 60

  private var numbers: [FragmentSetID: UInt32] = [:]
  /// The numbers of files that are complete and not stored yet.
  private var complete: [[MeshFile.Key]: UInt32] = [:]
  private var rate = RateLimiter<Bool>(perMinute: perMinute, capacity: 1)

  /// The number of an incoming file; nil if it is not listed.
  ///
  /// - Parameter new: returns a number for a file that is listed from now on.
  mutating func number(of id: FragmentSetID, at now: Instant, new: () -> UInt32) -> UInt32? {
    if let number = numbers[id] { return number }
    guard numbers.count + complete.count < Self.limit, rate.allow(true, at: now) else { return nil }
    let number = new()
    numbers[id] = number
    return number
  }

  /// Records that a file is complete. Its number stays the same until it is stored or lost.
  mutating func completed(_ file: ReceivedFile) {
    guard let number = file.arrival.flatMap({ numbers.removeValue(forKey: $0) }) else { return }
    complete[file.keys] = number
  }

  /// The number of a complete file; nil if it has none yet.
  func number(of file: ReceivedFile) -> UInt32? { complete[file.keys] }

  /// Records that a file is stored, or cannot be stored.
  ///
  /// - Returns: its number.
  mutating func settled(_ file: ReceivedFile) -> UInt32? { complete.removeValue(forKey: file.keys) }

  /// Records that the node no longer waits for fragments of a file.
  ///
  /// - Returns: the number of a file that did not become complete.
  mutating func ended(_ id: FragmentSetID) -> UInt32? { numbers.removeValue(forKey: id) }

  /// Records that the node leaves the mesh.
  ///
  /// - Returns: the numbers of files that did not become complete.
  mutating func endAll() -> [UInt32] {
    defer { numbers = [:] }
    return numbers.values.sorted()
  }
}
