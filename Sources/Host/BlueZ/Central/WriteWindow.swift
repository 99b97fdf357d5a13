import Common
import Radio

/// The operations of a link in order, and the limit of those that bluetoothd executes at one time.
///
/// Up to `commandLimit` commands are sent together. Every other operation is sent alone: after all earlier ones were
/// answered, and before all later ones. The reason is that bluetoothd preserves the order of calls on one bearer only,
/// and with EATT it has several. Facts: bluez.md section 3.
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
    /// The event that reports the result of the operation; nil until the result is known.
    var event: LinkEvent?
  }

  /// Maximum commands of a link at one time. All links together stay below the 128 unanswered calls that the system bus
  /// allows a program.
  static let commandLimit = 8
  static let waitingLimit = 1024

  private var waiting = Fifo<Operation>()
  /// Operations that were sent, in order. An operation that was answered stays until those before it are answered.
  private var flying: [Flight] = []
  private var lastNumber: UInt64 = 0

  /// Whether no operation waits, and all that were sent are answered.
  var isEmpty: Bool { waiting.isEmpty && flying.isEmpty }

  /// Adds an operation.
  ///
  /// - Returns: false if `waitingLimit` operations wait.
  mutating func add(_ operation: Operation) -> Bool {
    guard waiting.count < Self.waitingLimit else { return false }
    waiting.append(operation)
    return true
  }

  /// The next operation to send, with the number for `finish`; nil if none may be sent.
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

  /// Records the result of an operation.
  ///
  /// - Returns: the events that can be sent now, in the order of their operations.
  mutating func finish(_ number: UInt64, _ event: LinkEvent) -> [LinkEvent] {
    guard let index = flying.firstIndex(where: { $0.number == number }) else { return [] }
    flying[index].event = event
    let told = flying.prefix { $0.event != nil }.compactMap(\.event)
    flying.removeFirst(told.count)
    return told
  }

  /// Removes all operations; later answers are ignored.
  mutating func removeAll() {
    waiting.removeAll()
    flying = []
  }
}
