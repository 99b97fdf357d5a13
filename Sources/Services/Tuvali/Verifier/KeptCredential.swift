import Common
import Store

/// A credential that the vault keeps: what shall become of it, and how far that is done on the disk.
struct KeptCredential: Sendable {
  enum Status { case unjudged, accepted, unwanted }

  /// What the disk has of it.
  enum File: Hashable {
    case absent
    /// An attempt to put the file was begun: it may be there.
    case uncertain
    case present(isAccepted: Bool)
  }

  /// A program, or the service itself, that waits until the disk has done what it asked for.
  struct Asker {
    let number: Int
    /// The asker is answered at this instant at the latest.
    let until: Instant
  }

  struct Failure {
    let trouble: CredentialVault.Trouble
    /// When to try again.
    let retry: Instant
  }

  /// What has to be done on the disk next.
  enum Step { case put, accept, verdict, erase }

  let id: SpoolID
  /// Grows from one kept credential to the next.
  var order: Int
  /// What the file takes of the room that there is, in bytes.
  var size: Int
  var status = Status.unjudged
  /// What is to be written; nil as soon as it is written, or not wanted any more.
  var record: CredentialRecord?
  var file = File.absent
  /// The checker's verdict as JSON, which is to be written; nil as soon as it is written.
  var verdict: [UInt8]?
  /// The part of `size` that the verdict needs, whether it is written or not.
  var verdictSize = 0
  /// When the credential was received, as its file says: seconds since 1970.
  var date: Int64
  /// When the credential was received, which may be before the start.
  var received: Instant
  /// Until this instant the wall clock may be wrong, as the file's date is in its future; nil when the date is believed.
  var doubtedUntil: Instant?
  /// What went wrong with this credential last.
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
