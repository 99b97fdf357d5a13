import Common
import Loop
import Testing

@Suite(.timeLimit(.minutes(10))) struct ObserversTests {
  @LoopActor
  private final class Kept {
    var registrations: [Registration] = []
  }

  @Test("Observers are called in the order in which they were added, until they are removed")
  func order() async {
    await onLoop {
      let (observers, notes) = (Observers<Int>(), Notes())
      #expect(observers.isEmpty)
      let first = observers.add { notes.lines.append("first \($0)") }
      var second: Registration? = observers.add { notes.lines.append("second \($0)") }
      let third = observers.add { notes.lines.append("third \($0)") }
      observers.call(1)
      #expect(notes.lines == ["first 1", "second 1", "third 1"])
      second = nil
      observers.call(2)
      #expect(notes.lines.suffix(2) == ["first 2", "third 2"] && second == nil)
      first.cancel()
      third.cancel()
      third.cancel()
      observers.call(3)
      #expect(notes.lines.count == 5 && observers.isEmpty)
    }
  }

  @Test("An observer that is removed during a notification is not called any more")
  func leaving() async {
    await onLoop {
      let (observers, notes) = (Observers<Void>(), Notes())
      let kept = Kept()
      kept.registrations.append(observers.add { notes.lines.append("a") })
      kept.registrations.append(
        observers.add {
          notes.lines.append("b")
          for registration in kept.registrations { registration.cancel() }
        })
      kept.registrations.append(observers.add { notes.lines.append("c") })
      let last = observers.add { notes.lines.append("d") }
      observers.call()
      #expect(notes.lines == ["a", "b", "d"])
      observers.call()
      #expect(notes.lines == ["a", "b", "d", "d"])
      last.cancel()
    }
  }

  @Test("An observer that is added during a notification is called from the next notification on")
  func joining() async {
    await onLoop {
      let (observers, notes) = (Observers<Int>(), Notes())
      let kept = Kept()
      let first = observers.add { value in
        notes.lines.append("first \(value)")
        guard kept.registrations.isEmpty else { return }
        kept.registrations.append(observers.add { notes.lines.append("added \($0)") })
      }
      observers.call(1)
      #expect(notes.lines == ["first 1"])
      observers.call(2)
      #expect(notes.lines == ["first 1", "first 2", "added 2"])
      first.cancel()
    }
  }

  @Test("If a value changes during a notification, remaining observers do not get the outdated value")
  func outdated() async {
    await onLoop {
      let (observers, notes) = (Observers<Int>(), Notes())
      var value = 0
      @LoopActor func set(_ new: Int) {
        value = new
        observers.call(new, while: { value == new })
      }
      let first = observers.add { if $0 == 1 { set(2) } }
      let second = observers.add { notes.lines.append("\($0)") }
      set(1)
      #expect(notes.lines == ["2"])
      set(3)
      #expect(notes.lines == ["2", "3"])
      withExtendedLifetime((first, second)) {}
    }
  }

  @Test("The closure of an observer is released with its registration")
  func letting() async {
    await onLoop {
      let observers = Observers<Void>()
      weak var held: Notes?
      @LoopActor func add() -> Registration {
        let notes = Notes()
        held = notes
        return observers.add { notes.lines.append("") }
      }
      var registration: Registration? = add()
      #expect(held != nil && registration != nil)
      registration = nil
      #expect(held == nil)
      let kept = add()
      #expect(held != nil)
      observers.removeAll()
      #expect(held == nil && observers.isEmpty)
      kept.cancel()
    }
  }
}
