import Bytes
import Common
import Loop
import Store
import Transfers

/// Disk operations of the credential store.
extension VaultKeeper {
  typealias Opened = Result<(spool: RecordSpool, found: CredentialVault.Found), StoreError>

  func performOnDisk(_ action: CredentialVault.Action) {
    switch action {
    case .open(let look):
      guard let open else { return }
      run({ () throws(StoreError) in try Self.open(open, look).get() }, then: { $0.opened($1) })
    case .inspect(let look):
      onSpool({ (spool) throws(StoreError) in try Self.look(look, into: spool) }, then: { $0.handle(.inspected($1)) })
    case .put(let id, let record, let date, let isAccepted):
      let mark = CredentialRecord.Mark(isAccepted: isAccepted).rawValue
      change { (spool) throws(StoreError) in
        try spool.put(SpoolRecord(received: date, mark: mark, content: record.content), as: id)
      }
    case .accept(let id):
      let mark = CredentialRecord.Mark.accepted.rawValue
      change { (spool) throws(StoreError) in try spool.mark(id, as: mark) }
    case .verdict(let id, let verdict):
      change { (spool) throws(StoreError) in
        try spool.rewrite(id) { (content) throws(WireError) in
          var record = try CredentialRecord(reading: content)
          record.verdict = verdict
          return record.content
        }
      }
    case .erase(let id): change { (spool) throws(StoreError) in try spool.remove(id) }
    case .redate(let id, let date): change { (spool) throws(StoreError) in try spool.redate(id, received: date) }
    case .note(let note): change { (spool) throws(StoreError) in try spool.write(note: note.bytes) }
    case .numbers, .answer, .restore, .expire, .forget, .changed, .log: break
    }
  }

  /// Opens the spool, inspects it, and reserves numbers for this run.
  nonisolated static func open(_ open: Opening, _ look: CredentialVault.Look) -> Opened {
    do throws(StoreError) {
      let spool = try open()
      var found = try Self.look(look, into: spool)
      found.note = try VaultNote.read(from: spool, found.contents.entries.map(\.value)) {
        UInt64(Int.random(in: TransferNumbers.strays))
      }
      var note = found.note
      let numbers = note.takeBlock()
      // If this write fails, the store retries and reports it.
      if (try? spool.write(note: note.bytes)) != nil { (found.note, found.numbers) = (note, numbers) }
      return .success((spool, found))
    } catch {
      return .failure(error)
    }
  }

  nonisolated static func look(
    _ look: CredentialVault.Look, into spool: RecordSpool
  ) throws(StoreError) -> CredentialVault.Found {
    let tooOld = look.date.map {
      spool.removeAll(olderThan: look.keepFor, now: $0, epoch: CredentialVault.epoch, except: look.except).removed.count
    }
    let contents = try spool.list(except: look.except, room: (.max, look.room)) { (record) throws(WireError) in
      try CredentialRecord(reading: record)
    }
    return CredentialVault.Found(contents: contents, tooOld: tooOld ?? 0)
  }

  func opened(_ result: Opened) {
    switch result {
    case .success(let (spool, found)):
      self.spool = spool
      log(keyOf: spool)
      handle(.opened(.success(found)))
    case .failure(let error): handle(.opened(.failure(error)))
    }
  }

  private func change(_ work: @escaping @Sendable (RecordSpool) throws(StoreError) -> Void) {
    onSpool(work) { keeper, result in
      switch result {
      case .success: keeper.handle(.done(nil))
      case .failure(let error): keeper.handle(.done(error))
      }
    }
  }

  private func onSpool<Value: Sendable>(
    _ work: @escaping @Sendable (RecordSpool) throws(StoreError) -> Value,
    then: @escaping @LoopActor (VaultKeeper, Result<Value, StoreError>) -> Void
  ) {
    guard let spool else { return }
    run({ () throws(StoreError) in try work(spool) }, then: then)
  }

  /// Runs `work` on the disk, outside of the loop.
  private func run<Value: Sendable>(
    _ work: @escaping @Sendable () throws(StoreError) -> Value,
    then: @escaping @LoopActor (VaultKeeper, Result<Value, StoreError>) -> Void
  ) {
    let attempt: @Sendable () -> Result<Value, StoreError> = {
      do throws(StoreError) { return .success(try work()) } catch { return .failure(error) }
    }
    disk.offload(attempt) { [weak self] result in
      if let self { then(self, result) }
    }
  }
}
