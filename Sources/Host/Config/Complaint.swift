/// Something in the configuration that cannot be used, and where it stands. Nothing in a configuration is fatal: what
/// cannot be used is left out, and the complaint says what is in force instead.
public struct Complaint: Sendable, Equatable, CustomStringConvertible {
  /// The path of the file.
  public let file: String
  /// The line, counted from 1; nil if the file as a whole is meant.
  public let line: Int?
  /// What is wrong, and what is in force instead.
  public let sentence: String

  public init(file: String, line: Int?, sentence: String) {
    self.file = file
    self.line = line
    self.sentence = sentence
  }

  /// `/etc/earshot/earshot.conf:12: …`, as editors and compilers write it.
  public var description: String {
    line.map { "\(file):\($0): \(sentence)" } ?? "\(file): \(sentence)"
  }
}
