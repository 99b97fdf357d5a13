import Air
import Common
import DBus
import Loop
import PBLEC
import Radio
import TestSupport
import Testing

@testable import Broadcast

/// Persistence of notifications across restarts, clock changes and disk faults.
@Suite("The store of notification budgets")
struct NotifyKeepingTests {
  init() { EventLoop.shared.runInBackground() }

  private let beacons = (1...9).map { NotifyBeacon(major: UInt16($0), minor: 3) }

  @LoopActor
  private func hear(_ plaza: Plaza, _ numbers: Int...) {
    for number in numbers {
      plaza.hear(beacons[number])
      plaza.time.advance(by: .seconds(1))
    }
  }

  /// Requests a beacon, and returns the name of the error; empty on success, nil if no reply arrived in the given time.
  @LoopActor
  private func notify(_ plaza: Plaza, _ stall: Plaza.Stall, for seconds: Int = 70) -> String? {
    var answer: String?
    stall.service.notify { answer = $0.map { DBusError($0).name } ?? "" }
    plaza.time.advance(by: .seconds(seconds))
    return answer
  }

  private static func error(_ name: String) -> String { "org.earshot.Error.\(name)" }

  @Test("A restart does not refill the sending and notification budgets, and the next day refills both")
  @LoopActor
  func restart() throws {
    let (plaza, folder) = (Plaza(), try ScratchFolder())
    let stall = plaza.add(directory: folder.path)
    hear(plaza, 0, 1)
    #expect(notify(plaza, stall) == "")
    plaza.restart(stall, directory: folder.path)
    hear(plaza, 0, 2)
    #expect(stall.notifications == 2 && stall.service.notificationsLeft == 0)
    #expect(notify(plaza, stall) == Self.error("LimitExceeded"))
    stall.clock.set(by: 86_400_000)
    #expect(stall.service.notificationsLeft == 2)
    hear(plaza, 0, 2, 3)
    #expect(stall.notifications == 4)
    #expect(notify(plaza, stall) == "")
  }

  @Test("A clock that is set back refills neither budget, before or after a restart")
  @LoopActor
  func clockBack() throws {
    let (plaza, folder) = (Plaza(), try ScratchFolder())
    let stall = plaza.add(directory: folder.path)
    hear(plaza, 0, 1)
    #expect(notify(plaza, stall) == "")
    for isRestarted in [false, true] {
      if isRestarted { plaza.restart(stall, directory: folder.path) }
      stall.clock.set(by: -10 * 86_400_000)
      hear(plaza, 2)
      #expect(stall.notifications == 2)
      #expect(notify(plaza, stall) == Self.error("LimitExceeded"))
    }
  }

  @Test("With a clock before 2026 no beacon is sent, and only one is reported")
  @LoopActor
  func unsetClock() throws {
    let (plaza, folder) = (Plaza(), try ScratchFolder())
    let stall = plaza.add(directory: folder.path)
    stall.clock.set(by: -Plaza.start)
    hear(plaza, 0, 1)
    #expect(notify(plaza, stall) == Self.error("NotReady"))
    plaza.restart(stall, directory: folder.path)
    hear(plaza, 2)
    #expect(stall.notifications == 1)
  }

  @Test("If no program has set a notification limit, the limit in the settings applies after each start")
  @LoopActor
  func limitOfSettings() throws {
    let (plaza, folder) = (Plaza(), try ScratchFolder())
    let stall = plaza.add(directory: folder.path) { $0.notifyLimit = 5 }
    hear(plaza, 0)
    plaza.restart(stall, directory: folder.path) { $0.notifyLimit = 7 }
    #expect(stall.service.notifyLimit == 7 && stall.service.notificationsLeft == 6)
  }

  @Test("A notification limit set by a program is stored, and overrides the settings even after a reload")
  @LoopActor
  func limit() throws {
    let (plaza, folder) = (Plaza(), try ScratchFolder())
    let stall = plaza.add(directory: folder.path) { $0.notifyLimit = 5 }
    #expect(stall.service.notifyLimit == 5)
    var settings = stall.service.settings
    settings.notifyLimit = 4
    stall.service.apply(settings)
    #expect(stall.service.notifyLimit == 4)
    try stall.service.setNotifyLimit(1)
    plaza.time.advance(by: .seconds(1))
    settings.notifyLimit = 3
    stall.service.apply(settings)
    #expect(stall.service.notifyLimit == 1)
    plaza.restart(stall, directory: folder.path) { $0.notifyLimit = 5 }
    #expect(stall.service.notifyLimit == 1)
    hear(plaza, 0, 1)
    #expect(stall.notifications == 1)
  }

  @Test(
    "If the file of budgets is damaged, the day's budget counts as spent until the file is rewritten",
    arguments: [false, true])
  @LoopActor
  func damaged(keepsPrevious: Bool) throws {
    let (plaza, folder) = (Plaza(), try ScratchFolder())
    // The file of the previous generation has one beacon less, so that one more would be permitted.
    let stall = plaza.add(directory: folder.path) { $0.notifyLimit = 3 }
    hear(plaza, 3, 0)
    stall.service.stop()
    for name in try folder.files().keys where !(keepsPrevious && name.hasSuffix(".previous")) {
      try folder.write([UInt8](repeating: 0x55, count: 40), to: name)
    }
    plaza.restart(stall, directory: folder.path)
    #expect(stall.service.state == .degraded && !stall.service.reason.isEmpty)
    hear(plaza, 1)
    #expect(stall.notifications == 2)
    #expect(notify(plaza, stall) == Self.error("LimitExceeded"))
    stall.clock.set(by: 86_400_000)
    hear(plaza, 2)
    #expect(stall.notifications == 3 && stall.service.state == .listening)
  }

  @Test("A beacon is advertised only after the disk has stored it")
  @LoopActor
  func diskFirst() throws {
    let (plaza, folder, disk) = (Plaza(), try ScratchFolder(), HeldWorker())
    let stall = plaza.add(directory: folder.path, disk: disk)
    #expect(stall.service.state == .waiting)
    #expect(stall.refusal("x") == Self.error("NotReady"))
    disk.release()
    plaza.time.advance(by: .seconds(1))
    let ear = try plaza.listen()
    #expect(notify(plaza, stall, for: 5) == nil)
    #expect(ear.packets.isEmpty)
    disk.release()
    plaza.time.advance(by: .seconds(5))
    #expect(!ear.packets.isEmpty)
  }

  @Test("A beacon whose storing takes over 30 s fails, and its budget is returned")
  @LoopActor
  func slowDisk() throws {
    let (plaza, folder, disk) = (Plaza(), try ScratchFolder(), HeldWorker())
    let stall = plaza.add(directory: folder.path, disk: disk)
    disk.release()
    plaza.time.advance(by: .seconds(1))
    let ear = try plaza.listen()
    var answer: String?
    stall.service.notify { answer = $0.map { DBusError($0).name } ?? "" }
    plaza.time.advance(by: .seconds(36))
    disk.release()
    plaza.time.advance(by: .seconds(5))
    #expect(answer == Self.error("Timeout") && ear.packets.isEmpty)
    disk.release()
    plaza.time.advance(by: .seconds(1))
    stall.service.notify { answer = $0.map { DBusError($0).name } ?? "" }
    disk.release()
    plaza.time.advance(by: .seconds(1))
    #expect(answer == "" && !ear.packets.isEmpty)
  }

  @Test("Two requests for a beacon while the disk is slow are answered separately")
  @LoopActor
  func slowDiskTwice() throws {
    let (plaza, folder, disk) = (Plaza(), try ScratchFolder(), HeldWorker())
    let stall = plaza.add(directory: folder.path, disk: disk)
    disk.release()
    plaza.time.advance(by: .seconds(1))
    let ear = try plaza.listen()
    var answers: [Int: String] = [:]
    stall.service.notify { answers[1] = $0.map { DBusError($0).name } ?? "" }
    plaza.time.advance(by: .seconds(36))
    stall.service.notify { answers[2] = $0.map { DBusError($0).name } ?? "" }
    disk.release()
    plaza.time.advance(by: .seconds(1))
    #expect(answers == [1: Self.error("Timeout")] && ear.packets.isEmpty)
    disk.release()
    plaza.time.advance(by: .seconds(1))
    #expect(answers == [1: Self.error("Timeout"), 2: ""] && !ear.packets.isEmpty)
  }

  @Test("A changed notification limit is signalled, even if no notifications are left")
  @LoopActor
  func limitIsTold() throws {
    let plaza = Plaza()
    let stall = plaza.add()
    hear(plaza, 0, 1)
    var limits: [Int] = []
    stall.service.changes.addForGood { limits.append(stall.service.notifyLimit) }
    try stall.service.setNotifyLimit(1)
    try stall.service.setNotifyLimit(0)
    #expect(limits == [1, 0] && stall.service.notificationsLeft == 0)
  }

  @Test("If the disk refuses to store a beacon, the beacon is not sent, and the status gives the reason")
  @LoopActor
  func refusingDisk() throws {
    let (plaza, folder) = (Plaza(), try ScratchFolder())
    let stall = plaza.add(directory: folder.path)
    try folder.remove("broadcast")
    let ear = try plaza.listen()
    #expect(notify(plaza, stall, for: 5) == Self.error("Failed"))
    #expect(ear.packets.isEmpty && stall.service.state == .degraded && !stall.service.reason.isEmpty)
    // The failed attempt did not use up the day's budget: the next one fails with the disk's error and not with a spent
    // budget.
    #expect(notify(plaza, stall, for: 5) == Self.error("Failed"))
  }

  @Test("Pending writes of budgets are completed when the service stops")
  @LoopActor
  func rest() throws {
    let (plaza, folder, disk) = (Plaza(), try ScratchFolder(), HeldWorker())
    let stall = plaza.add(directory: folder.path, disk: disk) { $0.notifyLimit = 3 }
    disk.release()
    // While the first write is in progress, the second one waits, and the third replaces the second.
    hear(plaza, 0, 1, 2)
    stall.service.stop()
    var isAtRest = false
    stall.service.rest(within: .seconds(5)) { isAtRest = true }
    #expect(!isAtRest)
    disk.release()
    disk.release()
    #expect(isAtRest)
    stall.service.rest(within: .seconds(5)) { isAtRest = false }
    #expect(!isAtRest)
    plaza.restart(stall, directory: folder.path) { $0.notifyLimit = 3 }
    #expect(stall.service.notificationsLeft == 0)
  }

  @Test("When the service stops while the disk does not answer, it waits only until its time limit")
  @LoopActor
  func hangingDisk() throws {
    let (plaza, folder, disk) = (Plaza(), try ScratchFolder(), HeldWorker())
    let stall = plaza.add(directory: folder.path, disk: disk)
    disk.release()
    hear(plaza, 0)
    stall.service.stop()
    var ends = 0
    stall.service.rest(within: .seconds(5)) { ends += 1 }
    plaza.time.advance(by: .seconds(5))
    #expect(ends == 1)
    disk.release()
    #expect(ends == 1)
  }
}
