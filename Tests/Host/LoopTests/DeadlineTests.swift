import Common
import Loop
import Testing

@Suite struct DeadlineTests {
  private func second(_ number: Int) -> Instant { Instant.zero.advanced(by: .seconds(number)) }

  @Test("A deadline fires once at its time")
  func once() async {
    await onLoop {
      let time = HandTime()
      let notes = Notes()
      let deadline = Deadline(time) { notes.lines.append("late") }
      deadline.set(second(5))
      time.set(to: 4)
      #expect(notes.lines.isEmpty)
      time.set(to: 5)
      time.set(to: 50)
      #expect(notes.lines == ["late"])
    }
  }

  @Test("Postponing a deadline 1,000 times sets only two timers, and the deadline fires at the last time")
  func pushing() async {
    await onLoop {
      let time = HandTime()
      let notes = Notes()
      let deadline = Deadline(time) { notes.lines.append("late") }
      for number in 1...1000 { deadline.set(second(number)) }
      #expect(time.timersSet == 1)
      time.set(to: 999)
      #expect(notes.lines.isEmpty && time.timersSet == 2)
      time.set(to: 1000)
      #expect(notes.lines == ["late"] && time.timersLeft == 0)
    }
  }

  @Test("A deadline can be set earlier, cancelled and set again")
  func moving() async {
    await onLoop {
      let time = HandTime()
      let notes = Notes()
      let deadline = Deadline(time) { notes.lines.append("late") }
      deadline.set(second(10))
      deadline.set(second(2))
      time.set(to: 2)
      #expect(notes.lines == ["late"])
      deadline.set(second(4))
      deadline.set(nil)
      time.set(to: 20)
      #expect(notes.lines == ["late"])
      deadline.set(second(30))
      time.set(to: 30)
      #expect(notes.lines == ["late", "late"])
    }
  }

  @Test("A deadline can be set again from its own handler")
  func within() async {
    await onLoop {
      let time = HandTime()
      let notes = Notes()
      var deadline: Deadline?
      deadline = Deadline(time) {
        notes.lines.append("late")
        if notes.lines.count < 3 { deadline?.set(time.now.advanced(by: .seconds(1))) }
      }
      deadline?.set(second(1))
      for number in 1...10 { time.set(to: number) }
      #expect(notes.lines.count == 3)
      deadline = nil
    }
  }

  @Test("A cancelled deadline leaves no timer in the event loop")
  func takingAway() async {
    await onLoop {
      let time = HandTime()
      let deadline = Deadline(time) {}
      deadline.set(second(5))
      deadline.set(nil)
      time.set(to: 4)
      #expect(time.timersLeft == 0)
    }
  }

  @Test("A dropped deadline does not fire and leaves no timer in the event loop")
  func dropping() async {
    await onLoop {
      let time = HandTime()
      let notes = Notes()
      var deadline: Deadline? = Deadline(time) { notes.lines.append("late") }
      deadline?.set(second(1))
      deadline = nil
      time.set(to: 2)
      #expect(notes.lines.isEmpty && time.timersLeft == 0)
    }
  }
}
