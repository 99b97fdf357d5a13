/// The numbers of a controller's advertising instances: ours, those of other programs, and the free ones.
///
/// bluetoothd allocates upwards from 1 and does not know other programs' instances; ours are allocated downwards from
/// the maximum. If another program adds an instance under one of our numbers, it replaces ours without notice. A number
/// that another program may use is therefore given up. Facts: bluez.md section 6.
struct InstanceNumbers: Hashable, Sendable {
  /// Number of instances of the controller; nil until it is known.
  var limit: UInt8?
  /// Whether the kernel rotates the instances, two seconds each, because the controller has a single advertising set.
  var takesTurns = false
  /// Number of bluetoothd's instances, as bluetoothd reports it.
  var active = 0
  /// Instances of other programs, from the kernel's events.
  private var seen: Set<UInt8> = []
  /// Our instances by slot.
  private(set) var own: [Int: UInt8] = [:]

  init() {}

  /// Records an instance that another program added.
  mutating func added(_ instance: UInt8) { seen.insert(instance) }

  /// Records that another program removed an instance.
  mutating func removed(_ instance: UInt8) { seen.remove(instance) }

  /// Numbers that other programs use: those from events, and the lowest others if bluetoothd reports more.
  var taken: Set<UInt8> {
    var taken = seen
    var number: UInt8 = 1
    while taken.count < active, number < .max {
      taken.insert(number)
      number += 1
    }
    return taken
  }

  /// Number of advertisements that we can have at one time. With rotated instances it is one, whose data is replaced.
  var slots: Int {
    guard let limit, !takesTurns else { return 1 }
    return max(1, Int(limit) - taken.count)
  }

  /// Assigns a number to a slot: its present number if no other program uses it, or else the highest free number.
  ///
  /// - Returns: nil if no number is free.
  mutating func number(for slot: Int) -> UInt8? {
    let taken = taken
    if let number = own[slot], !taken.contains(number) { return number }
    own[slot] = nil
    guard let limit, limit > 0 else { return nil }
    own[slot] = (1...limit).reversed().first { !taken.contains($0) && !own.values.contains($0) }
    return own[slot]
  }

  /// The slots with numbers that another program may use.
  var lost: [Int] {
    let taken = taken
    return own.filter { taken.contains($0.value) }.map(\.key).sorted()
  }

  /// Frees the number of a slot.
  mutating func free(_ slot: Int) { own[slot] = nil }
}
