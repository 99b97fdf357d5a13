import Store
import Tool

/// The codes of errors of the stores, which the journal has in `EARSHOT_ERROR`.
enum StoreCodes {
  static func meaning(_ reason: StoreError.Reason) -> CodeMeaning {
    let (meaning, remedy) = words(reason)
    return CodeMeaning(reason.rawValue, kind: "error of a store", meaning, remedy: remedy)
  }

  private static func words(_ reason: StoreError.Reason) -> (meaning: String, remedy: String) {
    switch reason {
    case .diskFull: ("The disk or the quota is full.", "Free space there.")
    case .readOnly: ("The file system is read-only.", "Look for errors of the disk: journalctl -k")
    case .notPermitted: ("The service may not read or write the entry.", "Its owner must be the user of the service.")
    case .missing: ("The entry does not exist.", "systemd creates the state directory: StateDirectory= of the unit.")
    case .exists: ("An entry of this name exists already.", "")
    case .inUse: ("Another process uses the directory.", "Stop the other service: systemctl status earshotd")
    case .wrongMode:
      ("Other users can read or write the entry.", "chmod 700 for the directory, chmod 600 for the file.")
    case .wrongOwner: ("Another user owns the entry.", "chown it to the user of the service.")
    case .wrongKind: ("The entry is a link, a pipe or a directory instead of a file, or vice versa.", "Move it away.")
    case .tooLarge: ("The content is larger than its limit.", "")
    case .damaged: ("The content is damaged.", "The message states what the service does with it.")
    case .tooNew: ("A later release wrote the file.", "Install that release, or move the file away.")
    case .otherRelease: ("Another release wrote the file, and this release cannot read it.", "Move the file away.")
    case .keyMissing:
      ("The file is encrypted with a key that is not available.", "Restore the key, or erase what it encrypted.")
    case .spoolFull: ("The record does not fit into the limits of the store.", "Judge and fetch what waits.")
    case .diskFailed: ("The disk reports an error.", "Look for it with journalctl -k, and replace the disk.")
    case .diskStalled: ("The disk does not respond.", "Look for errors of the disk: journalctl -k")
    case .failed: ("The operation failed for another reason.", "The message of the journal has the reason.")
    }
  }
}
