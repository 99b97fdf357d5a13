import Journal
import Store
import Transfers

/// Journal lines about stored credentials.
extension VaultKeeper {
  func log(_ notice: CredentialVault.Notice) {
    switch notice {
    case .degraded(let trouble, let error):
      Log.shared.error("\(trouble.sentence): \(error)", id: .storeDegraded, .error(error))
    case .recovered: Log.shared.notice("Keeping credentials on the disk works again")
    case .restored(let count):
      Log.shared.notice("\(count) credentials from before the start are here again", id: .storeRestored)
    case .withoutRoom(let count):
      Log.shared.warning("\(count) kept credentials wait on the disk until there is room for them")
    case .tooOld(let count): Log.shared.warning("\(count) kept credentials waited too long and are erased")
    case .redated(let count):
      Log.shared.notice("The wall clock was set: \(count) kept credentials are dated anew")
    }
  }

  func log(expired transfer: Transfer, isAccepted: Bool) {
    let purpose: String = isAccepted ? "a program to fetch it" : "a verdict"
    Log.shared.warning(
      "A credential waited too long for \(purpose) and is erased", .transfer("\(transfer.number)"))
  }

  /// Logs the origin of the spool's key once, and possible problems with it.
  func log(keyOf spool: RecordSpool) {
    let key = spool.key
    let origin: String =
      switch key.origin {
      case .systemCredential: "systemd's credential \(SpoolKey.credentialName)"
      case .stateDirectory: "the state directory"
      case .made: "the state directory, where it was made just now"
      }
    Log.shared.info("Credentials are kept on the disk, under the key from \(origin)")
    if key.isMissingFromCredentials {
      Log.shared.warning(
        "systemd hands over credentials, but none that is called \(SpoolKey.credentialName): the key is another one")
    }
    if key.origin == .made, spool.count > 0 {
      Log.shared.warning("There are credentials under another key, which cannot be read with the one that was made now")
    }
  }
}
