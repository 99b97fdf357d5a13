import Crypto
import TestSupport
import Testing

@testable import BlueZ

@Suite("Numbers of advertising instances")
struct InstanceNumbersTests {
  private static func numbers(_ limit: UInt8, active: Int = 0) -> InstanceNumbers {
    var numbers = InstanceNumbers()
    numbers.limit = limit
    numbers.active = active
    return numbers
  }

  @Test("The highest free instance number is given to a slot, and used again once it is free")
  func highest() {
    var numbers = Self.numbers(3)
    #expect(numbers.number(for: 0) == 3)
    #expect(numbers.number(for: 1) == 2)
    #expect(numbers.number(for: 0) == 3)
    numbers.free(0)
    #expect(numbers.number(for: 1) == 2)
    #expect(numbers.number(for: 2) == 3)
    #expect(numbers.number(for: 3) == 1)
    #expect(numbers.number(for: 4) == nil)
  }

  @Test("The slots are the instances left by other programs, at least 1, and just 1 if the kernel rotates them")
  func slots() {
    #expect(InstanceNumbers().slots == 1)
    #expect(Self.numbers(3).slots == 3)
    #expect(Self.numbers(3, active: 2).slots == 1)
    #expect(Self.numbers(3, active: 3).slots == 1)
    var turns = Self.numbers(5)
    turns.takesTurns = true
    #expect(turns.slots == 1)
  }

  @Test("Without kernel reports bluetoothd's advertising instances are assumed to have the lowest numbers")
  func taken() {
    var numbers = Self.numbers(5, active: 2)
    #expect(numbers.taken == [1, 2])
    numbers.added(1)
    numbers.added(3)
    #expect(numbers.taken == [1, 3])
    numbers.active = 3
    #expect(numbers.taken == [1, 2, 3])
    numbers.removed(1)
    numbers.active = 0
    #expect(numbers.taken == [3])
    #expect(numbers.slots == 4)
  }

  @Test("If another program takes the instance number of a slot, the slot gets the next free number")
  func lost() {
    var numbers = Self.numbers(3)
    #expect(numbers.number(for: 0) == 3)
    #expect(numbers.number(for: 1) == 2)
    numbers.active = 2
    #expect(numbers.lost == [1])
    #expect(numbers.number(for: 1) == nil)
    numbers.active = 1
    #expect(numbers.number(for: 1) == 2)
    numbers.added(3)
    #expect(numbers.lost == [0])
    // bluetoothd's instance may be the one with this number.
    #expect(numbers.number(for: 0) == 1)
  }

  @Test(
    "After random events no two slots share an instance number or use one of another program", arguments: Seeds.usual)
  func random(seed: UInt64) {
    var dice = SeededRandom(seed: seed)
    var numbers = Self.numbers(UInt8(1 + dice.bytes(1)[0] % 8))
    for _ in 0..<500 {
      let (choice, number) = (dice.bytes(1)[0] % 5, dice.bytes(1)[0] % 9)
      switch choice {
      case 0: _ = numbers.number(for: Int(number))
      case 1: numbers.free(Int(number))
      case 2: numbers.active = Int(number % 4)
      case 3: numbers.added(number + 1)
      default: numbers.removed(number + 1)
      }
      for slot in numbers.lost { numbers.free(slot) }
      #expect(Set(numbers.own.values).count == numbers.own.count)
      #expect(numbers.taken.isDisjoint(with: numbers.own.values))
      #expect(numbers.own.values.allSatisfy { $0 >= 1 && $0 <= numbers.limit ?? 0 })
      #expect(numbers.slots >= 1)
    }
  }
}
