import Common
import Store
import Testing

@testable import Verifier

/// A store, its clocks, and short names for its input.
struct CredentialStoreScript {
  typealias Action = CredentialStorePlan.Action
  typealias Event = CredentialStorePlan.Event

  static let keepFor = Duration.seconds(7200)
  /// A date in 2030.
  static let date: Int64 = 1_900_000_000

  var vault: CredentialStorePlan
  var now = Instant.zero
  /// Wall clock at the origin of time.
  var dateAtZero = Self.date

  init(room: Int = 1 << 20, hasDisk: Bool = true) {
    vault = CredentialStorePlan(CredentialStoreSettings(keepFor: Self.keepFor, maximumBytes: room), hasDisk: hasDisk)
  }

  /// A store whose spool is open and empty.
  static func opened(room: Int = 1 << 20) -> CredentialStoreScript {
    var script = CredentialStoreScript(room: room)
    _ = script.handle(.start)
    _ = script.handle(.opened(.success(Self.found())))
    return script
  }

  var date: Int64 { dateAtZero + now.nanoseconds / 1_000_000_000 }

  /// The notes that were written.
  var notes: [CredentialStoreNote] = []
  /// Whether the note is written at once and left out of the expectations.
  var writesNotes = true

  mutating func handle(_ event: Event) -> [Action] {
    var actions = vault.handle(event, at: now, date: date)
    guard writesNotes else { return actions }
    actions.removeAll { if case .numbers = $0 { true } else { false } }
    while case .note(let note)? = actions.last {
      notes.append(note)
      actions.removeLast()
      actions += vault.handle(.done(nil), at: now, date: date)
      actions.removeAll { if case .numbers = $0 { true } else { false } }
    }
    return actions.map { action in
      guard case .put(let id, var record, let date, let isAccepted) = action else { return action }
      // The running time has tests of its own.
      record.running = 0
      return .put(id, record, date: date, isAccepted: isAccepted)
    }
  }

  /// Handles an event, and expects exactly these actions.
  mutating func expect(_ event: Event, _ actions: Action..., at location: SourceLocation = #_sourceLocation) {
    let got = handle(event)
    #expect(got == actions, sourceLocation: location)
  }

  /// Advances time, with a timer event at each deadline.
  ///
  /// - Returns: all actions of these events.
  mutating func advance(by seconds: Int) -> [Action] {
    let end = now.advanced(by: .seconds(seconds))
    var actions: [Action] = []
    while let deadline = vault.deadline, deadline <= end {
      now = max(now, deadline)
      let more = handle(.timer)
      actions += more
      guard vault.deadline.map({ $0 > now }) ?? true else {
        Issue.record("the timer is due again at once")
        break
      }
    }
    now = end
    return actions
  }

  /// Advances time, and expects no action.
  mutating func pass(_ seconds: Int, at location: SourceLocation = #_sourceLocation) {
    let actions = advance(by: seconds)
    #expect(actions == [], sourceLocation: location)
  }

  // MARK: Names

  static func id(_ number: Int) -> SpoolID {
    let digits = String(number, radix: 16)
    guard let id = SpoolID(String(repeating: "0", count: 32 - digits.count) + digits) else {
      preconditionFailure("\(number) makes no id")
    }
    return id
  }

  static func record(_ size: Int = 100) -> CredentialRecord {
    do {
      return try CredentialRecord(dialect: "0.5", peer: "", credential: [UInt8](repeating: 0x78, count: size))
    } catch {
      preconditionFailure("\(error)")
    }
  }

  static func entry(
    _ number: Int, received: Int64 = date - 1000, isAccepted: Bool = false, running: UInt64 = 0
  ) -> SpoolContents<CredentialRecord>.Entry {
    let mark = CredentialRecord.Mark(isAccepted: isAccepted).rawValue
    var record = record()
    record.running = running
    return .init(id: id(number), received: received, mark: mark, value: record, size: record.fileSize)
  }

  static func found(
    _ entries: [SpoolContents<CredentialRecord>.Entry] = [], problems: [SpoolProblem] = [], withoutRoom: Int = 0,
    damaged: Int = 0, tooOld: Int = 0, running: UInt64 = 0
  ) -> CredentialStorePlan.Found {
    var contents = SpoolContents<CredentialRecord>()
    contents.entries = entries
    contents.problems = problems
    contents.withoutRoom = withoutRoom
    contents.damaged = damaged
    var note = CredentialStoreNote()
    note.running = running
    let numbers = note.takeBlock()
    return .init(contents: contents, tooOld: tooOld, note: note, numbers: numbers)
  }

  /// The inspection that is expected now.
  func look(room: Int? = nil) -> CredentialStorePlan.Look {
    .init(
      except: Set(vault.entries.keys), room: room ?? (vault.settings.maximumBytes - vault.bytes),
      keepFor: vault.settings.keepFor, date: date >= CredentialStorePlan.epoch ? date : nil)
  }

  static let failed = StoreError(.diskFailed, "The disk failed.")
  static let readOnly = StoreError(.readOnly, "It is read-only.")
  static let full = StoreError(.spoolFull, "No more.")

  /// Whether the action reports that the disk hangs.
  static func isStall(_ action: Action) -> Bool {
    if case .log(.degraded(.stalled, _)) = action { true } else { false }
  }
}
