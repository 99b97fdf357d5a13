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

  /// What is done when these applications have left.
  struct Successor {
    let applications: [ServedApplication]
    let begin: @LoopActor () -> Void

    @LoopActor
    func waits(for leaving: [ServedApplication]) -> Bool {
      applications.contains { application in leaving.contains { $0 === application } }
    }
  }

  /// The application is of no use to its service any more. Its links are cut in this turn of the loop.
  func leave(_ application: ServedApplication) {
    leaving.append(application)
    application.leavingTimer = scheduler.schedule(after: Self.linkEndTime) { [weak self, weak application] in
      if let application { self?.close(left: [application]) }
    }
    EventLoop.shared.soon { [weak self] in self?.closeLeftIfAlone() }
  }

  /// A link has ended, or will not be cut.
  func closeLeftIfAlone() {
    if !links.all.contains(where: { $0.isBeingCut || central.isEnding($0.device) }) { close(left: leaving) }
  }

  private func close(left: [ServedApplication]) {
    guard !left.isEmpty else { return }
    leaving.removeAll { application in left.contains { $0 === application } }
    for application in left { application.close() }
    let ready = successors.filter { !$0.waits(for: leaving) }
    successors.removeAll { !$0.waits(for: leaving) }
    for successor in ready { successor.begin() }
  }

  /// Calls `then` when those applications have left that are about to, which is after `linkEndTime` at the latest.
  func afterLeaving(_ then: @escaping @LoopActor () -> Void) {
    if leaving.isEmpty { then() } else { successors.append(Successor(applications: leaving, begin: then)) }
  }
}
