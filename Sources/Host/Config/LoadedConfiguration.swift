/// A configuration, where it came from and what was wrong there.
public struct LoadedConfiguration: Sendable {
  public let configuration: Configuration
  /// Everything that could not be used; empty means that the configuration is in order.
  public let complaints: [Complaint]
  /// The files that were read, in the order in which they counted.
  public let files: [String]

  /// The same with one more complaint.
  public func adding(_ complaint: Complaint) -> LoadedConfiguration {
    LoadedConfiguration(configuration: configuration, complaints: complaints + [complaint], files: files)
  }
}
