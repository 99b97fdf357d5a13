/// A configuration, its files, and the complaints about them.
public struct LoadedConfiguration: Sendable {
  public let configuration: Configuration
  /// All complaints; empty if the configuration is valid.
  public let complaints: [Complaint]
  /// The files that were read, in the order of increasing precedence.
  public let files: [String]

  /// A copy with one more complaint.
  public func adding(_ complaint: Complaint) -> LoadedConfiguration {
    LoadedConfiguration(configuration: configuration, complaints: complaints + [complaint], files: files)
  }
}
