import Common
import Crypto
import Store

@testable import Verifier

/// The operations of the disk, and their failures.
extension CredentialStoreModel {
  /// Ends the pending operation of the disk.
  mutating func finish(isWell: Bool) {
    guard let action = pending else { return }
    pending = nil
    let error = isWell ? nil : Self.errors.randomElement(using: &random)
    switch action {
    case .open(let look): handle(.opened(found(look, error).map { withNote($0) }))
    case .inspect(let look): handle(.inspected(found(look, error)))
    default:
      // A refused operation may have been done nevertheless. With a full spool it has not begun.
      if error == nil || error?.reason != .spoolFull && chance(30) { carryOut(action) }
      handle(.done(error))
    }
  }

  private static let errors = [
    CredentialStoreScript.failed, CredentialStoreScript.readOnly, CredentialStoreScript.full,
  ]

  mutating func carryOut(_ action: CredentialStorePlan.Action) {
    switch action {
    case .put(let id, let record, let date, let isAccepted):
      files[id] = File(isAccepted: isAccepted, date: date, running: record.running)
    case .accept(let id): files[id]?.isAccepted = true
    case .verdict(let id, let verdict): files[id]?.verdict = verdict
    case .erase(let id): files[id] = nil
    case .redate(let id, let date): files[id]?.date = date
    case .note(let note): self.note = note
    default: break
    }
  }

  /// The spool's rule: expired files are erased, and readable files that fit are read, the earliest first.
  private mutating func found(
    _ look: CredentialStorePlan.Look, _ error: StoreError?
  ) -> Result<CredentialStorePlan.Found, StoreError> {
    if let error, error.reason != .spoolFull { return .failure(error) }
    let held = Set(script.vault.entries.values.filter(\.isOnDisk).map(\.id))
    if !held.isSubset(of: look.except) { complain("what is here is not spared") }
    var found = CredentialStoreScript.found()
    if let date = look.date {
      let age = look.keepFor.components.seconds
      let old = files.filter { !look.except.contains($0.key) && $0.value.date >= CredentialStorePlan.epoch }
        .filter { date - $0.value.date > age }
      for id in old.keys { files[id] = nil }
      found.tooOld = old.count
    }
    var room = look.room
    for (id, file) in files.sorted(by: { ($0.value.date, $0.key) < ($1.value.date, $1.key) })
    where !look.except.contains(id) {
      guard file.isReadable else {
        found.contents.problems.append(SpoolProblem(name: "\(id)", error: CredentialStoreScript.failed))
        continue
      }
      var record = Self.record
      (record.running, record.verdict) = (file.running, file.verdict)
      guard room >= record.fileSize, found.contents.withoutRoom == 0 else {
        found.contents.withoutRoom += 1
        continue
      }
      room -= record.fileSize
      let mark = CredentialRecord.Mark(isAccepted: file.isAccepted).rawValue
      found.contents.entries.append(
        .init(id: id, received: file.date, mark: mark, value: record, size: record.fileSize))
    }
    return .success(found)
  }

  /// Reserves numbers, where the disk permits it.
  private mutating func withNote(_ found: CredentialStorePlan.Found) -> CredentialStorePlan.Found {
    var (found, reserved) = (found, note)
    let numbers = reserved.takeBlock()
    found.note = note
    found.numbers = nil
    guard chance(80) else { return found }
    note = reserved
    (found.note, found.numbers) = (reserved, numbers)
    return found
  }

  /// Repairs the disk, and judges and fetches everything: nothing is left then.
  mutating func settle() {
    isFailing = false
    for id in files.keys { files[id]?.isReadable = true }
    for _ in 0..<200 where complaints.isEmpty {
      while pending != nil { finish(isWell: true) }
      // All records in memory are removed, which frees capacity for those on the disk.
      while pick(where: { $0 == .kept || $0 == .accepted || $0 == .putting }) != nil { remove() }
      while pending != nil { finish(isWell: true) }
      pass(.seconds(61))
    }
    // A write that succeeds shows that the disk works.
    put()
    while pending != nil { finish(isWell: true) }
    while pick(where: { $0 == .kept }) != nil { remove() }
    while pending != nil { finish(isWell: true) }
    if !askers.isEmpty { complain("\(askers.count) askers are never answered") }
    if !files.isEmpty { complain("\(files.count) files are left") }
    if script.vault.kept != (0, 0) { complain("the vault keeps \(script.vault.kept)") }
    if let trouble = script.vault.trouble { complain("there is trouble: \(trouble)") }
    if script.vault.deadline != nil { complain("a timer is left") }
    if !credentials.isEmpty { complain("\(credentials.count) are never forgotten") }
  }
}
