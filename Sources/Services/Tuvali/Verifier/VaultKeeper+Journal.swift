import Journal
import Store
import Transfers

/// Journal lines about stored credentials.
extension VaultKeeper {
  func log(_ notice: CredentialVault.Notice) {
    switch notice {
    case .degraded(let trouble, let error):
      Log.shared.error("\(trouble.sentence): \(error)", id: .storeDegraded, .error(error))
    case .recovered: Log.shared.notice("Credentials are stored on the disk again")
    case .restored(let count):
      Log.shared.notice("\(count) stored credentials from before the start were restored", id: .storeRestored)
    case .withoutRoom(let count):
      Log.shared.warning("\(count) stored credentials wait on the disk until there is capacity to load them")
    case .tooOld(let count):
      Log.shared.warning("\(count) stored credentials waited longer than KeepFor= and were erased")
    case .redated(let count):
      Log.shared.notice("The wall clock was set: the dates of \(count) stored credentials were corrected")
    }
  }

  func log(expired transfer: Transfer, isAccepted: Bool) {
    let purpose: String = isAccepted ? "a program to fetch it" : "a verdict"
    Log.shared.warning(
      "A credential waited longer than KeepFor= for \(purpose) and was erased", .transfer("\(transfer.number)"))
  }

  /// Logs the origin of the spool's key once, and possible problems with it.
  func log(keyOf spool: RecordSpool) {
    let key = spool.key
    let origin: String =
      switch key.origin {
      case .systemCredential: "systemd's credential \(SpoolKey.credentialName)"
      case .stateDirectory: "the state directory"
      case .made: "the state directory, where it was created now"
      }
    Log.shared.info("Credentials are stored on the disk, encrypted with the key from \(origin)")
    if key.isMissingFromCredentials {
      Log.shared.warning(
        "systemd passes credentials, but none named \(SpoolKey.credentialName): the key in the state directory is used")
    }
    if key.origin == .made, spool.count > 0 {
      Log.shared.warning("Stored credentials cannot be read: they are encrypted with a different key")
    }
  }
}
