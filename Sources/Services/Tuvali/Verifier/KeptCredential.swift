import Common
import Loop
import Store
import Transfers

/// A credential that the vault keeps: what shall become of it, and how far that is done on the disk.
@LoopActor
final class KeptCredential {
  enum Wish { case judged, taken, nobody }

  let transfer: Transfer
  /// What it takes of the room there is.
  let size: Int
  /// Who it waits for.
  var wish = Wish.judged
  /// What is to be written; nil as soon as it is.
  var content: [UInt8]?
  /// Its name in the spool, from the first attempt on.
  var id: SpoolID?
  var isOnDisk = false
  /// An attempt to put it failed, and may have left its file.
  var mayBeOnDisk = false
  var isAcceptedOnDisk = false
  /// When it was received, as its file says.
  var date: Int64
  /// When it was received, which may be before the start.
  var received: Instant
  /// Its date is later than the present one: one of the two clocks, then or now, is wrong. Until this instant the present
  /// one may be.
  var doubtedUntil: Instant?
  /// What went wrong with it last, and when to try again.
  var failure: (trouble: CredentialVault.Trouble, retry: Instant)?
  /// Those who wait for the disk, for so long.
  var askers: [(timer: Registration, body: @LoopActor (StoreError?) -> Void)] = []

  init(_ transfer: Transfer, size: Int, date: Int64, received: Instant) {
    self.transfer = transfer
    self.size = size
    self.date = date
    self.received = received
  }

  /// What has to be done on the disk next.
  enum Step {
    case put, accept, erase
  }

  var step: Step? {
    switch wish {
    case .nobody: isOnDisk || mayBeOnDisk ? .erase : nil
    case .judged: isOnDisk ? nil : .put
    case .taken: isOnDisk ? (isAcceptedOnDisk ? nil : .accept) : .put
    }
  }

  /// Whoever waited for the disk need not any longer.
  func answer(_ error: StoreError? = nil) {
    let askers = askers
    self.askers = []
    for asker in askers {
      asker.timer.cancel()
      asker.body(error)
    }
  }
}
