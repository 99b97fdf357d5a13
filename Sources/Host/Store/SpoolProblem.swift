/// A file of the spool that could not be read or erased, and why.
public struct SpoolProblem: Sendable, Hashable {
  /// The file's name. A file whose error is `damaged` was given the ending `.damaged`; any other was not touched.
  public let name: String
  public let error: StoreError
  /// Whether the next attempt may succeed without an administrator's help.
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
