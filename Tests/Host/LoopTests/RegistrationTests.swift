import Common
import Loop
import Testing

@Suite(.timeLimit(.minutes(10))) struct RegistrationTests {
  @Test("Cancelling takes down at once, and only the first time; dropping does nothing after it")
  func cancelling() async {
    await onLoop {
      let notes = Notes()
      do {
        let registration = Registration { notes.lines.append("down") }
        registration.cancel()
        #expect(notes.lines == ["down"])
        registration.cancel()
      }
      #expect(notes.lines == ["down"])
    }
  }

  @Test("Dropping the last reference takes down, on the loop at once")
  func dropping() async {
    await onLoop {
      let notes = Notes()
      var first: Registration? = Registration { notes.lines.append("down") }
      var second = first
      first = nil
      #expect(notes.lines.isEmpty && second != nil)
      second = nil
      #expect(notes.lines == ["down"])
      withExtendedLifetime(first) {}
    }
  }

  @Test("Dropped on another thread, it takes down on the loop")
  func droppingElsewhere() async {
    await onLoop {}
    let notes = Notes()
    do { _ = Registration { notes.lines.append("\(EventLoop.shared.isCurrent)") } }
    let lines = await LoopActor.run { notes.lines }
    #expect(lines == ["true"])
  }

  @Test("Cancelling from within what takes down does not call it again")
  func recursion() async {
    await onLoop {
      let notes = Notes()
      var registration: Registration?
      registration = Registration {
        notes.lines.append("down")
        registration?.cancel()
      }
      registration?.cancel()
      #expect(notes.lines == ["down"])
    }
  }
}
