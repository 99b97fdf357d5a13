/// A file of the spool that could not be read or erased, and the reason.
public struct SpoolProblem: Sendable, Hashable {
  /// The file's name. A file with the error `damaged` was renamed to end in `.damaged`; other files were not changed.
  public let name: String
  public let error: StoreError
  /// Whether another attempt may succeed without an administrator's help.
  public let isPassing: Bool

  public init(name: String, error: StoreError) {
    self.name = name
    self.error = error
    isPassing =
      switch error.reason {
      case .damaged, .keyMissing, .tooNew, .otherRelease, .tooLarge, .wrongKind: false
      default: true
      }
  }
}
