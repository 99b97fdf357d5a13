import Common
import Loop
import Testing

@Suite(.timeLimit(.minutes(10))) struct RegistrationTests {
  @Test("Cancelling a registration runs its handler once, and dropping it afterwards does nothing")
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

  @Test("Dropping the last reference to a registration on the event loop runs its handler at once")
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

  @Test("A registration dropped on another thread runs its handler on the event loop")
  func droppingElsewhere() async {
    await onLoop {}
    let notes = Notes()
    do { _ = Registration { notes.lines.append("\(EventLoop.shared.isCurrent)") } }
    let lines = await LoopActor.run { notes.lines }
    #expect(lines == ["true"])
  }

  @Test("Cancelling a registration in its own handler does not run the handler again")
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
