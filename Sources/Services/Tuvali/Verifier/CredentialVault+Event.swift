import Common
import Store

extension CredentialVault {
  /// Input of the store. A caller is identified by a number of the owner's, and answered once, by `Action.answer`.
  enum Event {
    /// The service starts, and restores the credentials of an earlier run.
    case start
    /// A credential was received, and gets this name. The caller is answered when the credential is durable, or with an
    /// error if there is no capacity. A failing or hanging disk causes no error.
    case put(SpoolID, CredentialRecord, asker: Int)
    /// A credential was accepted, and is stored until a program fetches it. The caller is answered when this is
    /// durable, or the disk fails.
    case accept(SpoolID, asker: Int)
    /// The checker's verdict on a credential, JSON. `hasRoom(forVerdict:of:)` has confirmed the capacity.
    case verdict(SpoolID, [UInt8])
    /// A credential is no longer needed. The caller is answered when its removal is durable, or the disk fails.
    case remove(SpoolID, asker: Int)
    /// The caller is answered when no operation is due except failed ones, or after `limit`.
    case awaitIdle(asker: Int, limit: Duration)
    case settings(VaultSettings)
    /// Few numbers of transfers are free.
    case numbersWanted

    // Results of disk operations; each answers the action of that name.
    case opened(Result<Found, StoreError>)
    case inspected(Result<Found, StoreError>)
    /// `put`, `accept`, `verdict`, `erase`, `redate` or `note` has ended; the error is nil on success.
    case done(StoreError?)

    /// The wall clock was set.
    case clockSet
    /// The deadline has come.
    case timer
  }

  /// Result of an inspection of the spool.
  struct Found: Sendable {
    var contents: SpoolContents<CredentialRecord>
    /// Number of expired records that were erased.
    var tooOld = 0
    /// Note on disk. Set only for `opened`.
    var note = VaultNote()
    /// Numbers that this note has reserved for this run; nil if writing it failed.
    var numbers: Range<Int>?
  }
}
