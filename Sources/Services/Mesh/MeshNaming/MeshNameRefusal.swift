/// Error for a text that does not name exactly one peer, with possible candidates.
public struct MeshNameRefusal: Error, Hashable, Sendable {
  public enum Reason: Hashable, Sendable {
    /// No known peer has this name.
    case unknown
    /// Several peers have this name.
    case ambiguous
    /// One peer has this name, and a favourite or verified peer had it before.
    case taken
    /// Only a favourite or verified peer had this name, and has a different one now.
    case formerName
    /// It is the name of this node.
    case thisNode
  }

  public struct Candidate: Hashable, Sendable {
    public let id: String
    /// Name that identifies this peer uniquely.
    public let name: String
  }

  public let reason: Reason
  /// Text as given.
  public let text: String
  public let candidates: [Candidate]

  /// Whether no known peer has this name now.
  public var isUnknown: Bool { reason == .unknown || reason == .formerName }

  init(reason: Reason, text: String, candidates: [Candidate]) {
    (self.reason, self.text, self.candidates) = (reason, text, candidates)
  }

  /// Makes the error for an unknown name without candidates.
  public init(unknown text: String) { self.init(reason: .unknown, text: text, candidates: []) }

  /// Maximum number of candidates in the sentence.
  private static let mostListed = 8

  /// Description of the error, with the candidates.
  public var sentence: String {
    let name = "<\(NicknameText.shown(text))>"
    return switch reason {
    case .unknown: "No peer is called \(name)." + (candidates.isEmpty ? "" : " Similar: \(list).")
    case .ambiguous: "\(name) may be one of \(candidates.count) peers: \(list). Write one of these names, or the ID."
    case .taken:
      "\(name) was the name of a favourite or verified peer before another peer took it: \(list). Write one of these names, or "
        + "the ID."
    case .formerName:
      "No peer is called \(name) now. A favourite or verified peer was: \(list). Write this name, or the ID."
    case .thisNode: "\(name) is this node itself."
    }
  }

  private var list: String {
    let shown = candidates.prefix(Self.mostListed).map { "<\($0.name)> (\($0.id))" }.joined(separator: ", ")
    return candidates.count > Self.mostListed ? "\(shown) and \(candidates.count - Self.mostListed) more" : shown
  }
}
