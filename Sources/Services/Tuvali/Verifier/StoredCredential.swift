import Common
import Store

/// Entry of the credential store: a credential with its intended state, and its state on disk.
struct StoredCredential: Sendable {
  enum Status { case unjudged, accepted, unwanted }

  /// State of the file on disk.
  enum File: Hashable {
    case absent
    /// Writing the file has begun and not ended, so it may exist.
    case uncertain
    case present(isAccepted: Bool)
  }

  /// Caller that waits for an operation: a program, or the service itself.
  struct Asker {
    let number: Int
    /// Latest time at which the caller is answered.
    let until: Instant
  }

  struct Failure {
    let trouble: CredentialStorePlan.Trouble
    /// Time at which the failed disk operation is tried again.
    let retry: Instant
  }

  /// Disk operation that the stored credential needs next.
  enum Step { case put, accept, verdict, erase }

  let id: SpoolID
  /// Position in the order of arrival.
  var order: Int
  /// Space that the file takes in the store, in bytes.
  var size: Int
  var status = Status.unjudged
  /// Record to write; nil once it is written or no longer needed.
  var record: CredentialRecord?
  var file = File.absent
  /// The checker's verdict to write, as JSON; nil once it is written.
  var verdict: [UInt8]?
  /// Part of `size` for the verdict, written or not.
  var verdictSize = 0
  /// Date of reception in the file, in seconds since 1970.
  var date: Int64
  /// Time of reception, which may be before the start.
  var received: Instant
  /// Time until which the wall clock counts as possibly wrong, because the file's date is in its future; nil if the
  /// date is trusted.
  var doubtedUntil: Instant?
  /// Last failure of an operation on this credential.
  var failure: Failure?
  var askers: [Asker] = []

  var isOnDisk: Bool {
    if case .present = file { true } else { false }
  }

  var step: Step? {
    switch (status, file) {
    case (.unwanted, .absent): nil
    case (.unwanted, _): .erase
    case (.accepted, .present(isAccepted: false)): .accept
    case (.unjudged, .present), (.accepted, .present): verdict == nil ? nil : .verdict
    case (_, .absent), (_, .uncertain): .put
    }
  }
}
