import ASN
import Database
import Store

extension ASN.StoreError {
  init(_ error: SQLiteError) { self.init(Store.StoreError(error)) }

  init(_ error: Store.StoreError) {
    switch error.reason {
    case .diskFull: self = .full
    case .readOnly: self = .readOnly
    default: self = .failed(error.sentence)
    }
  }
}
