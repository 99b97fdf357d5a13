import Journal
import Loop

/// The wait for all services, until each has done what it was asked for. It ends once.
@LoopActor
final class ServiceWait {
  private var missing: [Int: String]
  private var then: (@LoopActor () -> Void)?
  private var timer: Registration?

  private let complaint: String

  /// - Parameter complaint: what the journal says of those that take too long, before their names.
  init(_ names: [String], _ complaint: String, _ then: @escaping @LoopActor () -> Void) {
    self.complaint = complaint
    missing = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($0.offset, $0.element) })
    self.then = then
  }

  /// Waits from now on; ends at once where no service is missing.
  func begin(_ scheduler: any Scheduler, atMost limit: Duration) {
    guard !missing.isEmpty else { return end() }
    timer = scheduler.schedule(after: limit) {
      let names = self.missing.sorted { $0.key < $1.key }.map(\.value).joined(separator: ", ")
      Log.shared.warning("\(self.complaint): \(names)")
      self.end()
    }
  }

  func isOver(_ index: Int) {
    missing[index] = nil
    // Before `begin` others have not been asked yet.
    if missing.isEmpty, timer != nil { end() }
  }

  private func end() {
    let then = then
    self.then = nil
    timer = nil
    then?()
  }
}
