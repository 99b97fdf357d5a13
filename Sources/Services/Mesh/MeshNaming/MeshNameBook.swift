/// Names of peers: how each peer is shown, and which peer a text names. The service, the command-line tool and the chat
/// share these functions.
///
/// A peer ID is 16 lower-case hexadecimal digits.
public struct MeshNameBook: Sendable, Equatable {
  struct Entry: Sendable, Equatable {
    var nickname: String
    /// Nickname of the peer when it was verified; empty if it is not verified, or had none.
    var verifiedName = ""
    /// Nicknames that a favourite or verified peer has had since then.
    var heldNames: [String] = []
  }

  private(set) var entries: [String: Entry] = [:]
  /// Peers by the key of their current nickname.
  private var holders: [String: Set<String>] = [:]
  /// Favourite and verified peers by the keys of their current and former nicknames.
  private var trustedHolders: [String: Set<String>] = [:]
  /// ID of this node, which no text names as a peer; empty if unknown.
  public private(set) var own = ""

  public init() {}

  /// Adds or replaces a peer.
  ///
  /// - Parameters:
  ///   - nickname: nickname as announced by the peer.
  ///   - verifiedName: nickname of the peer when it was verified.
  ///   - heldNames: nicknames that a favourite or verified peer has had since then.
  public mutating func add(_ id: String, nickname: String, verifiedName: String = "", heldNames: [String] = []) {
    if let old = entries[id] {
      holders[NicknameText.key(old.nickname)]?.remove(id)
      for name in Self.trustedNames(of: old) { trustedHolders[NicknameText.key(name)]?.remove(id) }
    }
    let entry = Entry(nickname: nickname, verifiedName: verifiedName, heldNames: heldNames)
    entries[id] = entry
    holders[NicknameText.key(nickname), default: []].insert(id)
    for name in Self.trustedNames(of: entry) { trustedHolders[NicknameText.key(name), default: []].insert(id) }
  }

  /// Adds this node, whose name a peer may have too.
  public mutating func add(own id: String, nickname: String) {
    own = id
    add(id, nickname: nickname)
  }

  private static func trustedNames(of entry: Entry) -> [String] {
    (entry.heldNames + [entry.verifiedName]).filter { !NicknameText.key($0).isEmpty }
  }

  /// Peers, other than this node, whose current nickname has this key.
  func holders(ofKey key: String) -> Set<String> { holders[key, default: []].subtracting([own]) }

  /// Favourite and verified peers that had a nickname with this key before, and now have a different one.
  func formerHolders(ofKey key: String) -> Set<String> {
    trustedHolders[key, default: []].subtracting(holders[key, default: []])
  }

  // MARK: Displayed names

  /// All names with their peers' IDs, sorted by name.
  public var names: [(name: String, id: String)] {
    entries.keys.map { (name(of: $0), $0) }.sorted { ($0.name, $0.id) < ($1.name, $1.id) }
  }

  /// Name of a peer in a list or a table.
  ///
  /// `alice` if the nickname is unambiguous. `alice#1a2b` if another peer has or had the nickname, or it could be
  /// mistaken for another peer's name. `#1a2b` without a nickname.
  public func name(of id: String) -> String { name(of: id, nickname: nickname(of: id)) }

  /// Name of a peer that had this nickname then; another peer may have it now.
  public func name(of id: String, nickname: String) -> String {
    let key = NicknameText.key(nickname)
    let others = holders[key, default: []].union(trustedHolders[key, default: []]).subtracting([id])
    guard key.isEmpty || !others.isEmpty || NicknameText.isMisleading(key) else { return NicknameText.shown(nickname) }
    return designation(of: id, nickname: nickname)
  }

  /// Name of a peer in a line or a sentence: `<alice>`, or `<alice, verified as <mallory>>` if the peer had another
  /// nickname when it was verified. Displayed nicknames contain no angle brackets, so none can imitate the end of a
  /// name.
  ///
  /// - Parameter settle: sanitises a name for a screen.
  public func label(of id: String, settle: (String) -> String = { $0 }) -> String {
    label(of: id, nickname: nickname(of: id), settle: settle)
  }

  /// Name in a line or a sentence of a peer that had this nickname then.
  public func label(of id: String, nickname: String, settle: (String) -> String = { $0 }) -> String {
    let name = settle(name(of: id, nickname: nickname))
    guard let verified = verifiedName(of: id), !NicknameText.isSame(verified, nickname) else { return "<\(name)>" }
    return "<\(name), verified as <\(settle(NicknameText.shown(verified)))>>"
  }

  /// Nickname under which a peer was verified; nil if it is not verified, or still has that nickname.
  public func formerVerifiedName(of id: String) -> String? {
    verifiedName(of: id).flatMap { NicknameText.isSame($0, nickname(of: id)) ? nil : NicknameText.shown($0) }
  }

  /// Name that identifies this peer uniquely: `alice#1a2b`, or with the whole ID if another peer of this nickname has
  /// the same last four digits.
  public func designation(of id: String) -> String { designation(of: id, nickname: nickname(of: id)) }

  private func designation(of id: String, nickname: String) -> String {
    let key = NicknameText.key(nickname)
    let isShared = holders[key, default: []].contains { $0 != id && $0.suffix(4) == id.suffix(4) }
    return "\(key.isEmpty ? "" : NicknameText.shown(nickname))#\(isShared ? id : String(id.suffix(4)))"
  }

  private func nickname(of id: String) -> String { entries[id]?.nickname ?? "" }

  private func verifiedName(of id: String) -> String? {
    entries[id].flatMap { NicknameText.key($0.verifiedName).isEmpty ? nil : $0.verifiedName }
  }
}
