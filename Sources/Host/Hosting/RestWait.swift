import Journal
import Loop

/// The wait until all services are at rest. It ends once.
@LoopActor
final class RestWait {
  private var missing: [Int: String]
  private var then: (@LoopActor () -> Void)?
  private var timer: Registration?

  init(_ names: [String], _ then: @escaping @LoopActor () -> Void) {
    missing = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($0.offset, $0.element) })
    self.then = then
  }

  /// Waits from now on; ends at once where all services are at rest already.
  func begin(_ scheduler: any Scheduler, atMost limit: Duration) {
    guard !missing.isEmpty else { return end() }
    timer = scheduler.schedule(after: limit) {
      let names = self.missing.sorted { $0.key < $1.key }.map(\.value).joined(separator: ", ")
      Log.shared.warning("Not waited for any longer: \(names)", id: .stopping)
      self.end()
    }
  }

  func cameToRest(_ index: Int) {
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
