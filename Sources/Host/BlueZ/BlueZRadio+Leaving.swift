import DBus
import Loop
import Radio

/// The end of what is served: first the links of those who use it, then the application.
///
/// A client that is connected when its service goes is told so (Service Changed), and its BlueZ may keep what is left as all there is,
/// beside the hash of before (docs/bluez.md, "Handles"). And bluetoothd 5.82 was seen to end by SIGSEGV where an application went amid
/// clients' writes.
extension BlueZRadio {
  /// bluetoothd waits two seconds before it cuts a link.
  static let linkEndTime = Duration.seconds(3)

  /// The application is of no use to its service any more. Its links are cut in this turn of the loop.
  func leave(_ application: ServedApplication) {
    leaving.append(application)
    // One that follows goes with the first: else somebody who stops and starts all the time would keep that here.
    if leaving.count == 1 {
      leavingTimer = scheduler.schedule(after: Self.linkEndTime) { [weak self] in self?.closeLeft() }
    }
    EventLoop.shared.soon { [weak self] in self?.closeLeftIfAlone() }
  }

  /// A link has ended, or will not be cut.
  func closeLeftIfAlone() {
    if !leaving.isEmpty, !links.all.contains(where: { $0.isBeingCut || central.isEnding($0.device) }) { closeLeft() }
  }

  private func closeLeft() {
    leavingTimer = nil
    let left = leaving
    leaving = []
    for application in left { application.close() }
    let waiting = whenLeft
    whenLeft = []
    for body in waiting { body() }
  }

  /// Calls `then` when no application is about to leave, which is after `linkEndTime` at the latest.
  func afterLeaving(_ then: @escaping @LoopActor () -> Void) {
    if leaving.isEmpty { then() } else { whenLeft.append(then) }
  }
}
