import Journal
import Loop

/// Waits until all services have completed an operation. It ends once.
@LoopActor
final class ServiceWait {
  private var missing: [Int: String]
  private var then: (@LoopActor () -> Void)?
  private var timer: Registration?

  private let complaint: String

  /// - Parameter complaint: the journal's text about services that take too long, before their names.
  init(_ names: [String], _ complaint: String, _ then: @escaping @LoopActor () -> Void) {
    self.complaint = complaint
    missing = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($0.offset, $0.element) })
    self.then = then
  }

  /// Starts the wait; ends immediately if no service is pending.
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
    // Before `begin` other services may not have been called yet.
    if missing.isEmpty, timer != nil { end() }
  }

  private func end() {
    let then = then
    self.then = nil
    timer = nil
    then?()
  }
}
