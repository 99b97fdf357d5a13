import Air
import Common
import Config
import DBus
import Loop
import Radio
import Sharing
import TestSupport
import Testing

@testable import Hosting

@Suite("Groups of services", .serialized)
struct ServiceGroupTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private final class Stage {
    let time = VirtualTime()
    let air: AirSpace
    let bus = BusConnection(address: .address("unix:path=/nowhere"))
    let group: ServiceGroup
    private(set) var radios: [String: any Radio] = [:]
    var ends = 0

    init(_ prepare: (Record) -> Void = { _ in }) {
      let (air, time) = (AirSpace(scheduler: time, seed: 1), time)
      self.air = air
      Record.current = Record()
      prepare(Record.current)
      var radios: [String: any Radio] = [:]
      let kinds: [any Service.Type] = [Probe<First>.self, Probe<Second>.self, Probe<Third>.self]
      group = ServiceGroup(kinds, scheduler: time) { kind in
        let radio = SharedRadio(driver: air.addNode(), scheduler: time).tenant(kind.name, share: kind.linkShare)
        radios[kind.name] = radio
        return ServiceContext(
          configuration: Configuration(of: "a test", HouseSettings.sections), radio: radio, scheduler: time,
          makeWorker: { time }, statusChanged: { Record.current.lines.append("status of \(kind.name)") })
      }
      self.radios = radios
    }

    func stop() { group.stop(within: .seconds(2)) { self.ends += 1 } }
    var lines: [String] { Record.current.lines }
  }

  @Test("Services start in order, stop in reverse order, and close in order after all have stopped")
  func order() async {
    await LoopActor.run {
      let stage = Stage()
      stage.group.begin()
      stage.group.apply(Configuration(of: "a test", []))
      stage.stop()
      #expect(
        stage.lines == [
          "First begin", "Second begin", "Third begin", "First apply", "Second apply", "Third apply",
          "Third stop", "Second stop", "First stop",
          "First rest within 2.0 seconds", "Second rest within 2.0 seconds", "Third rest within 2.0 seconds",
        ])
      #expect(stage.ends == 1)
      stage.time.advance(by: .seconds(60))
      #expect(stage.ends == 1)
    }
  }

  @Test("The start waits until all services have restored their state, up to a time limit")
  func restoring() async {
    await LoopActor.run {
      let stage = Stage()
      var begun = 0
      stage.group.begin(within: .seconds(5)) { begun += 1 }
      #expect(begun == 1)

      let slow = Stage { $0.forgetful = ["First", "Third"] }
      begun = 0
      slow.group.begin(within: .seconds(5)) { begun += 1 }
      #expect(slow.lines == ["First begin", "Second begin", "Third begin"], "none waits for another")
      Record.current.restoring["Third"]?()
      #expect(begun == 0)
      let limit = Duration.seconds(5) + ServiceGroup.grace
      slow.time.advance(by: limit - .milliseconds(1))
      #expect(begun == 0)
      slow.time.advance(by: .milliseconds(1))
      #expect(begun == 1)
      Record.current.restoring["First"]?()
      slow.time.advance(by: .seconds(60))
      #expect(begun == 1)
    }
  }

  @Test("A service that is disabled in the settings is absent, and the others are present")
  func turnedOff() async {
    await LoopActor.run {
      let stage = Stage { $0.isOff = ["Second"] }
      #expect(stage.group.names == ["First", "Third"])
      stage.group.begin()
      stage.stop()
      #expect(!stage.lines.contains { $0.hasPrefix("Second") } && stage.ends == 1)
    }
  }

  @Test("Each service of a group has its own radio and status callback")
  func contexts() async {
    await LoopActor.run {
      let stage = Stage()
      for name in ["First", "Second", "Third"] {
        #expect(Record.current.contexts[name]?.radio === stage.radios[name])
      }
      #expect(stage.radios["First"] !== stage.radios["Second"])
      Record.current.contexts["Second"]?.statusChanged()
      #expect(stage.lines == ["status of Second"])
    }
  }

  @Test("The status line contains the lines of the services in order")
  func statusLine() async {
    await LoopActor.run {
      let stage = Stage { $0.statusLines = ["Third": "Three.", "First": "One."] }
      #expect(stage.group.statusLine == "One. Three.")
      Record.current.statusLines = [:]
      #expect(stage.group.statusLine == "")
    }
  }

  @Test("A service group ends once, when its last service has closed", arguments: ["First", "Third"])
  func lastToRest(last: String) async {
    await LoopActor.run {
      let stage = Stage { $0.tired = ["First", "Third"] }
      stage.stop()
      #expect(stage.ends == 0)
      for name in ["First", "Third"].sorted(by: { first, _ in first != last }) {
        #expect(stage.ends == 0)
        Record.current.resting[name]?()
      }
      #expect(stage.ends == 1)
      // A second report by a service, and the timeout, change nothing.
      Record.current.resting[last]?()
      stage.time.advance(by: .seconds(60))
      #expect(stage.ends == 1)
    }
  }

  @Test("A service that never closes is awaited until its time limit and the grace period have passed")
  func neverAtRest() async {
    await LoopActor.run {
      let stage = Stage { $0.tired = ["Second"] }
      stage.stop()
      let limit = Duration.seconds(2) + ServiceGroup.grace
      stage.time.advance(by: limit - .milliseconds(1))
      #expect(stage.ends == 0)
      stage.time.advance(by: .milliseconds(1))
      #expect(stage.ends == 1)
      Record.current.resting["Second"]?()
      #expect(stage.ends == 1)
    }
  }

  @Test("A group without services ends at once")
  func nothingToStop() async {
    await LoopActor.run {
      let stage = Stage { $0.isOff = ["First", "Second", "Third"] }
      stage.stop()
      #expect(stage.group.names == [] && stage.ends == 1)
    }
  }

  @Test("The objects of all services are exported below the object manager")
  func faces() async {
    await LoopActor.run {
      let stage = Stage()
      stage.group.export(on: stage.bus.objects, manager: "/org/earshot")
      #expect(stage.lines == ["First", "Second", "Third"].map { "\($0) export below /org/earshot" })
    }
  }
}
