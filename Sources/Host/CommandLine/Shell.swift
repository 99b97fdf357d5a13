/// A shell with a completion file.
public enum Shell: String, Sendable, CaseIterable {
  case bash, zsh, fish

  /// Quotes a text so that the shell reads exactly these characters.
  func quoted(_ text: String) -> String {
    switch self {
    case .bash, .zsh:
      "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    case .fish:
      "'" + text.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "'"
    }
  }
}
