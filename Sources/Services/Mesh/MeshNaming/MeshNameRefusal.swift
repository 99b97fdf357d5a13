/// Why a text does not name one peer, with the peers that may be meant.
public struct MeshNameRefusal: Error, Hashable, Sendable {
  public enum Reason: Hashable, Sendable {
    /// No known peer is called so.
    case unknown
    /// Several peers are called so.
    case ambiguous
    /// One peer is called so, and a favourite or verified peer was before.
    case taken
    /// Only a favourite or verified peer that has another name now was called so.
    case formerName
    /// It is the name of this node.
    case thisNode
  }

  public struct Candidate: Hashable, Sendable {
    public let id: String
    /// The name that means this peer alone.
    public let name: String
  }

  public let reason: Reason
  /// The text as it was given.
  public let text: String
  public let candidates: [Candidate]

  /// Whether no known peer is called so now.
  public var isUnknown: Bool { reason == .unknown || reason == .formerName }

  init(reason: Reason, text: String, candidates: [Candidate]) {
    (self.reason, self.text, self.candidates) = (reason, text, candidates)
  }

  /// No known peer is called so, and none has a similar name.
  public init(unknown text: String) { self.init(reason: .unknown, text: text, candidates: []) }

  /// How many candidates the sentence lists.
  private static let mostListed = 8

  /// What is wrong, and which peers may be meant.
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
