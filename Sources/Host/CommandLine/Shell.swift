/// A shell for which a completion file can be written.
public enum Shell: String, Sendable, CaseIterable {
  case bash, zsh, fish

  /// A text that the shell reads as these very characters.
  func quoted(_ text: String) -> String {
    switch self {
    case .bash, .zsh:
      "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    case .fish:
      "'" + text.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "'"
    }
  }
}
