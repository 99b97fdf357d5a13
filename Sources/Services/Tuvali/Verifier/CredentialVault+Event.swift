import Common
import Store

extension CredentialVault {
  /// What happens to a vault. An asker is a number that the owner draws; each is answered once, by `Action.answer`.
  enum Event {
    /// The service starts, and wants the credentials of an earlier run.
    case start
    /// A credential was received, and gets this name. The asker is answered when it survives a loss of power; or with the
    /// reason why it is not kept: there is no room. A disk that fails or hangs is no reason.
    case put(SpoolID, CredentialRecord, asker: Int)
    /// A credential is accepted, and kept until a program fetches it. The asker is answered when that survives a loss of
    /// power, or the disk is in trouble.
    case accept(SpoolID, asker: Int)
    /// The checker's verdict on a credential, JSON, of which `room(for:of:)` has said that there is room for it.
    case verdict(SpoolID, [UInt8])
    /// A credential is not wanted any more. The asker is answered when it does not come back after a loss of power, or the
    /// disk is in trouble.
    case remove(SpoolID, asker: Int)
    /// The asker is answered when nothing is to be done on the disk except what it refused, after `limit` at the latest.
    case awaitIdle(asker: Int, limit: Duration)
    case settings(VaultSettings)
    /// Few numbers of transfers are free.
    case numbersWanted

    // What the disk did; each answers the action of that name.
    case opened(Result<Found, StoreError>)
    case inspected(Result<Found, StoreError>)
    /// `put`, `accept`, `verdict`, `erase`, `redate` or `note` came to its end; the error is nil if it succeeded.
    case done(StoreError?)

    /// The wall clock was set.
    case clockSet
    /// The deadline has come.
    case timer
  }

  /// What a look into the spool found.
  struct Found: Sendable {
    var contents: SpoolContents<CredentialRecord>
    /// How many records were erased because they were too old.
    var tooOld = 0
    /// The note as it is on the disk. Only `opened` is told.
    var note = VaultNote()
    /// The numbers that this note has set aside for this run; nil where the disk does not take it.
    var numbers: Range<Int>?
  }
}
