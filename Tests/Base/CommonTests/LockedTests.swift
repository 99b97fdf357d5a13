import Common
import Testing

@Suite struct LockedTests {
  struct Odd: Error, Equatable {
    let number: Int
  }

  @Test("A locked counter that eight tasks increment 8,000 times in total ends at 8,000")
  func manyThreads() async {
    let count = Locked(0)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 {
        group.addTask { for _ in 0..<1000 { count.withLock { $0 += 1 } } }
      }
    }
    #expect(count.withLock { $0 } == 8000)
  }

  @Test("`withLock` returns the result of its body and stores the change")
  func resultAndChange() {
    let words = Locked(["a"])
    #expect(words.withLock { $0.removeLast() } == "a")
    #expect(words.withLock { $0 }.isEmpty)
  }

  @Test("An error thrown inside `withLock` keeps its type, and the lock is released")
  func error() {
    let number = Locked(1)
    do throws(Odd) {
      try number.withLock { (number) throws(Odd) in
        number = 3
        throw Odd(number: number)
      }
      Issue.record("nothing was thrown")
    } catch {
      #expect(error == Odd(number: 3))
    }
    #expect(number.withLock { $0 } == 3)
  }

  @Test("The protected value is deinitialised together with its lock")
  func freed() {
    final class Guest: Sendable {}
    weak var guest: Guest?
    do {
      let made = Guest()
      guest = made
      let lock = Locked(made)
      #expect(lock.withLock { $0 === made })
    }
    #expect(guest == nil)
  }
}
