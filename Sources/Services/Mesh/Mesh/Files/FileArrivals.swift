import Bitchat
import Common
import Journal
import MeshStore

/// The numbers of files that are arriving, from their first fragments until the disk has them. A value.
struct FileArrivals: Sendable {
  /// Files that are listed while they arrive; one more is listed when the disk has it.
  static let limit = 16
  /// Files that are listed anew in a minute: each uses up a number, and anybody can begin to send.
  static let perMinute = 60

  private var numbers: [FragmentSetID: UInt32] = [:]
  /// Of files that are complete and not on the disk yet.
  private var complete: [[MeshFile.Key]: UInt32] = [:]
  private var rate = RateLimiter<Bool>(perMinute: perMinute, capacity: 1)

  /// The number of a file that is arriving; nil where it is not listed.
  ///
  /// - Parameter new: takes a number for a file that is listed from now on.
  mutating func number(of id: FragmentSetID, at now: Instant, new: () -> UInt32) -> UInt32? {
    if let number = numbers[id] { return number }
    guard numbers.count + complete.count < Self.limit, rate.allow(true, at: now) else { return nil }
    let number = new()
    numbers[id] = number
    return number
  }

  /// A file has arrived as a whole: it keeps its number until it is on the disk, or lost.
  mutating func completed(_ file: ReceivedFile) {
    guard let number = file.arrival.flatMap({ numbers.removeValue(forKey: $0) }) else { return }
    complete[file.keys] = number
  }

  /// The number of a file that has arrived as a whole; nil where it has none yet.
  func number(of file: ReceivedFile) -> UInt32? { complete[file.keys] }

  /// The disk has a file, or there is no place for it.
  ///
  /// - Returns: the number that it had.
  mutating func settled(_ file: ReceivedFile) -> UInt32? { complete.removeValue(forKey: file.keys) }

  /// No more fragments are waited for.
  ///
  /// - Returns: the number of a file that is not there, and will not be.
  mutating func ended(_ id: FragmentSetID) -> UInt32? { numbers.removeValue(forKey: id) }

  /// The node leaves the mesh: nothing arrives any more.
  ///
  /// - Returns: the numbers of files that did not arrive as a whole.
  mutating func endAll() -> [UInt32] {
    defer { numbers = [:] }
    return numbers.values.sorted()
  }
}
