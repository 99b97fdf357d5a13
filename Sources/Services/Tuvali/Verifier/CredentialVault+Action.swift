import Common
import Store

extension CredentialVault {
  /// What the owner of a vault has to do, in this order.
  enum Action: Equatable {
    // The disk: of these one at a time is under way, until the event that answers it.

    /// Opens the spool, and looks into it. `Event.opened` answers.
    case open(Look)
    /// Looks into the spool again. `Event.inspected` answers.
    case inspect(Look)
    /// Writes a record. `Event.done` answers this and the next five.
    case put(SpoolID, CredentialRecord, date: Int64, isAccepted: Bool)
    /// Notes in the spool that a credential is accepted.
    case accept(SpoolID)
    /// Adds the checker's verdict, JSON, to a record.
    case verdict(SpoolID, [UInt8])
    /// Erases a record.
    case erase(SpoolID)
    /// Gives a record another date, in seconds since 1970.
    case redate(SpoolID, date: Int64)

    /// Writes the note. `Event.done` answers.
    case note(VaultNote)

    // The service.

    /// These numbers of transfers are free.
    case numbers(Range<Int>)

    /// Answers an asker: with an error if the credential is not kept.
    case answer(Int, StoreError?)
    /// A credential of an earlier run is there.
    case restore(SpoolID, CredentialRecord, isAccepted: Bool)
    /// A credential was kept for too long: the service forgets it, and it is erased.
    case expire(SpoolID, isAccepted: Bool)
    /// The vault has nothing to do with this name any more.
    case forget(SpoolID)
    /// `trouble` has changed, or credentials were restored.
    case changed
    case log(Notice)
  }

  /// A look into the spool.
  struct Look: Equatable {
    /// These records are in the vault: they are neither read nor erased, however old their files say they are.
    var except: Set<SpoolID> = []
    /// How many bytes of files are read at most.
    var room: Int
    /// Records that were received more than `keepFor` before `date` are erased first.
    var keepFor: Duration
    /// Seconds since 1970; nil where the date is not known, and nothing is too old.
    var date: Int64?
  }

  /// A line for the journal.
  enum Notice: Equatable {
    /// Keeping credentials on the disk does not work.
    case degraded(Trouble, StoreError)
    /// It works again.
    case recovered
    /// Credentials of an earlier run are there: how many.
    case restored(Int)
    /// Files stay in the spool until there is room for their credentials: how many.
    case withoutRoom(Int)
    /// Credentials that waited too long on the disk were erased: how many.
    case tooOld(Int)
    /// Files got another date, since the wall clock was set: how many.
    case redated(Int)
  }
}
