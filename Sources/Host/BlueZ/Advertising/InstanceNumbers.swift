/// The numbers of a controller's advertising instances: which are ours, which are other programs', and how many are left
/// for us. A value.
///
/// bluetoothd counts up from 1 and knows nothing of other programs' instances; ours are counted down from the highest. An
/// instance that another program adds under a number of ours takes its place on the air without a word, so a number that
/// another program may have is given up. Facts: bluez.md section 6.
struct InstanceNumbers: Hashable, Sendable {
  /// How many instances the controller has; nil until it is known.
  var limit: UInt8?
  /// Whether the kernel shows one instance at a time, each for two seconds, because the controller has a single set.
  var takesTurns = false
  /// How many instances bluetoothd has, as it says itself.
  var active = 0
  /// Instances of other programs, by the kernel's events.
  private var seen: Set<UInt8> = []
  /// Our instances by slot.
  private(set) var own: [Int: UInt8] = [:]

  init() {}

  /// Another program added an instance.
  mutating func added(_ instance: UInt8) { seen.insert(instance) }

  /// Another program removed an instance.
  mutating func removed(_ instance: UInt8) { seen.remove(instance) }

  /// The numbers that other programs have: those that were seen, and the lowest others where bluetoothd has more.
  var taken: Set<UInt8> {
    var taken = seen
    var number: UInt8 = 1
    while taken.count < active, number < .max {
      taken.insert(number)
      number += 1
    }
    return taken
  }

  /// How many advertisements we can have on the air at one time. Where instances take turns it is one, whose data is
  /// exchanged instead.
  var slots: Int {
    guard let limit, !takesTurns else { return 1 }
    return max(1, Int(limit) - taken.count)
  }

  /// Gives a slot its number: the one that the slot has, if no other program has it, or else the highest that is free.
  ///
  /// - Returns: nil where there is no room.
  mutating func number(for slot: Int) -> UInt8? {
    let taken = taken
    if let number = own[slot], !taken.contains(number) { return number }
    own[slot] = nil
    guard let limit, limit > 0 else { return nil }
    own[slot] = (1...limit).reversed().first { !taken.contains($0) && !own.values.contains($0) }
    return own[slot]
  }

  /// The slots whose numbers another program may have.
  var lost: [Int] {
    let taken = taken
    return own.filter { taken.contains($0.value) }.map(\.key).sorted()
  }

  /// A slot gives its number back.
  mutating func free(_ slot: Int) { own[slot] = nil }
}
