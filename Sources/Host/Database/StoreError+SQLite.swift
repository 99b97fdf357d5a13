import Store

extension StoreError {
  /// The error of a store for an error of its database, with the same sentence.
  public init(_ error: SQLiteError) {
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
