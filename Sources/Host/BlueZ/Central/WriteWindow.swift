import Common
import Radio

/// What was asked of a link, in its order, and how much of it may be with bluetoothd at one time.
///
/// Commands go out together, `commandLimit` of them. Everything else goes alone: after all that came before it was
/// answered, and before anything that comes behind it. bluetoothd keeps the order of calls on one bearer only, and with
/// EATT it has several. Facts: bluez.md section 3.
struct WriteWindow: Sendable {
  enum Operation: Hashable, Sendable {
    case discover
    case exchangeMTU
    case subscribe(CharacteristicID)
    case write([UInt8], CharacteristicID, WriteKind)

    var isCommand: Bool {
      if case .write(_, _, .command) = self { true } else { false }
    }
  }

  private struct Flight: Sendable {
    let number: UInt64
    let isCommand: Bool
    /// What came of it, once that is known.
    var event: LinkEvent?
  }

  /// All links together stay below the 128 unanswered calls that the system bus allows a program.
  static let commandLimit = 8
  static let waitingLimit = 1024

  private var waiting = Fifo<Operation>()
  /// In their order; those that are answered wait for those before them.
  private var flying: [Flight] = []
  private var lastNumber: UInt64 = 0

  /// Whether all that was asked for is done.
  var isEmpty: Bool { waiting.isEmpty && flying.isEmpty }

  /// - Returns: false when too many wait already.
  mutating func add(_ operation: Operation) -> Bool {
    guard waiting.count < Self.waitingLimit else { return false }
    waiting.append(operation)
    return true
  }

  /// The next operation that may go out, with the number to finish it by; nil when none may.
  mutating func next() -> (number: UInt64, operation: Operation)? {
    guard let operation = waiting.first else { return nil }
    if operation.isCommand {
      guard flying.count < Self.commandLimit, flying.allSatisfy(\.isCommand) else { return nil }
    } else {
      guard flying.isEmpty else { return nil }
    }
    waiting.popFirst()
    lastNumber += 1
    flying.append(Flight(number: lastNumber, isCommand: operation.isCommand))
    return (lastNumber, operation)
  }

  /// An operation was carried out, or refused.
  ///
  /// - Returns: what can be told now, in the order in which it was asked for.
  mutating func finish(_ number: UInt64, _ event: LinkEvent) -> [LinkEvent] {
    guard let index = flying.firstIndex(where: { $0.number == number }) else { return [] }
    flying[index].event = event
    let told = flying.prefix { $0.event != nil }.compactMap(\.event)
    flying.removeFirst(told.count)
    return told
  }

  /// Forgets everything; what comes back later means nothing any more.
  mutating func removeAll() {
    waiting.removeAll()
    flying = []
  }
}
