/// An invalid entry in the configuration, with its position. No error in a configuration is fatal: an invalid entry is
/// ignored, and the complaint states the value in force.
public struct Complaint: Sendable, Equatable, CustomStringConvertible {
  /// The path of the file.
  public let file: String
  /// The line number, from 1; nil if the complaint concerns the whole file.
  public let line: Int?
  /// The error, and the value in force.
  public let sentence: String

  public init(file: String, line: Int?, sentence: String) {
    self.file = file
    self.line = line
    self.sentence = sentence
  }

  /// Formats `/etc/earshot/earshot.conf:12: …`, like editors and compilers.
  public var description: String {
    line.map { "\(file):\($0): \(sentence)" } ?? "\(file): \(sentence)"
  }
}
