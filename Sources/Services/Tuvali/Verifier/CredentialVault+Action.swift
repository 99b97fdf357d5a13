import Common
import Store

extension CredentialVault {
  /// Output of the store, to be performed in order.
  enum Action: Equatable {
    // Disk operations. One at a time is in progress, until the event that answers it.

    /// Open the spool, and inspect it. `Event.opened` answers.
    case open(Look)
    /// Inspect the spool again. `Event.inspected` answers.
    case inspect(Look)
    /// Write a record. `Event.done` answers this and the next five.
    case put(SpoolID, CredentialRecord, date: Int64, isAccepted: Bool)
    /// Mark a credential in the spool as accepted.
    case accept(SpoolID)
    /// Add the checker's verdict, JSON, to a record.
    case verdict(SpoolID, [UInt8])
    /// Erase a record.
    case erase(SpoolID)
    /// Change the date of a record, in seconds since 1970.
    case redate(SpoolID, date: Int64)

    /// Write the note. `Event.done` answers.
    case note(VaultNote)

    // Notifications of the service.

    /// These numbers of transfers are free.
    case numbers(Range<Int>)

    /// Answer a caller; with an error if the credential is not stored.
    case answer(Int, StoreError?)
    /// Restore a credential of an earlier run.
    case restore(SpoolID, CredentialRecord, isAccepted: Bool)
    /// A credential has expired: the service must forget it; it is erased.
    case expire(SpoolID, isAccepted: Bool)
    /// The store no longer contains the record with this name.
    case forget(SpoolID)
    /// `trouble` has changed, or credentials were restored.
    case changed
    case log(Notice)
  }

  /// Parameters of an inspection of the spool.
  struct Look: Equatable {
    /// Records that are in the store. They are neither read nor erased, whatever their dates.
    var except: Set<SpoolID> = []
    /// Maximum bytes of files to read.
    var room: Int
    /// Records received more than `keepFor` before `date` are erased first.
    var keepFor: Duration
    /// Seconds since 1970; nil if the date is unknown, and nothing expires.
    var date: Int64?
  }

  /// Journal line.
  enum Notice: Equatable {
    /// An operation on stored credentials fails.
    case degraded(Trouble, StoreError)
    /// All operations work again.
    case recovered
    /// Number of restored credentials of an earlier run.
    case restored(Int)
    /// Number of files that stay in the spool until there is capacity for their credentials.
    case withoutRoom(Int)
    /// Number of expired credentials that were erased from disk.
    case tooOld(Int)
    /// Number of files whose date was corrected after the wall clock was set.
    case redated(Int)
  }
}
