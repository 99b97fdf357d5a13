import Database
import Store

extension StoreError {
  init(_ error: SQLiteError) {
    let reason: Reason =
      switch error.reason {
      case .full: .diskFull
      case .damaged, .notADatabase: .damaged
      case .diskFailed: .diskFailed
      case .locked: .inUse
      case .readOnly: .readOnly
      case .notPermitted: .notPermitted
      case .missing: .missing
      case .refused: .tooLarge
      case .failed: .failed
      }
    self.init(reason, error.sentence)
  }
}
