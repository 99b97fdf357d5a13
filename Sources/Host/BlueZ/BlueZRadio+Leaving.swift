import DBus
import Loop
import Radio

/// Removal of a served application: first the links of its users are ended, then the application is unregistered.
///
/// A client that is connected when its service is removed receives Service Changed. Its BlueZ may then cache the remaining services as the
/// complete database, with the former Database Hash (docs/bluez.md, "Handles").
///
/// A second reason is a crash: bluetoothd 5.82 ended with SIGSEGV when an application was removed while clients were writing.
extension BlueZRadio {
  /// Time limit for the end of the links; bluetoothd waits two seconds before it disconnects a link.
  static let linkEndTime = Duration.seconds(3)

  /// A function that runs when these applications have been removed.
  struct Successor {
    let applications: [ServedApplication]
    let begin: @LoopActor () -> Void

    @LoopActor
    func waits(for leaving: [ServedApplication]) -> Bool {
      applications.contains { application in leaving.contains { $0 === application } }
    }
  }

  /// The service has stopped using the application. Its links are ended in this loop iteration.
  func leave(_ application: ServedApplication) {
    leaving.append(application)
    application.leavingTimer = scheduler.schedule(after: Self.linkEndTime) { [weak self, weak application] in
      if let application { self?.close(left: [application]) }
    }
    EventLoop.shared.soon { [weak self] in self?.closeLeftIfAlone() }
  }

  /// A link has ended, or will not be ended.
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

  /// Calls `then` when the applications that are being removed are gone, at most `linkEndTime` later.
  func afterLeaving(_ then: @escaping @LoopActor () -> Void) {
    if leaving.isEmpty { then() } else { successors.append(Successor(applications: leaving, begin: then)) }
  }
}
