/// The names of peers: how each peer is shown, and which peer a text means. The service, the command-line tool and the chat use the
/// same functions. A value.
///
/// A peer ID is 16 lower-case hexadecimal digits.
public struct MeshNameBook: Sendable, Equatable {
  struct Entry: Sendable, Equatable {
    var nickname: String
    /// The nickname that the peer had when it was verified; empty where it is not verified, or had none.
    var verifiedName = ""
    /// The nicknames that a favourite or verified peer has had since then.
    var heldNames: [String] = []
  }

  private(set) var entries: [String: Entry] = [:]
  /// The peers that have a nickname now, by its key.
  private var holders: [String: Set<String>] = [:]
  /// The favourite and verified peers that have or had a nickname, by its key.
  private var trustedHolders: [String: Set<String>] = [:]
  /// The ID of this node, which no text means as a peer; empty while it is not known.
  public private(set) var own = ""

  public init() {}

  /// Adds a peer, or replaces what is known of it.
  ///
  /// - Parameters:
  ///   - nickname: as the peer has announced it.
  ///   - verifiedName: the nickname that the peer had when it was verified.
  ///   - heldNames: the nicknames that a favourite or verified peer has had since then.
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

  /// Adds this node: a peer may have its name.
  public mutating func add(own id: String, nickname: String) {
    own = id
    add(id, nickname: nickname)
  }

  private static func trustedNames(of entry: Entry) -> [String] {
    (entry.heldNames + [entry.verifiedName]).filter { !NicknameText.key($0).isEmpty }
  }

  /// The peers, without this node, whose nickname has this key now.
  func holders(ofKey key: String) -> Set<String> { holders[key, default: []].subtracting([own]) }

  /// The favourite and verified peers that had a nickname with this key before, and have another one now.
  func formerHolders(ofKey key: String) -> Set<String> {
    trustedHolders[key, default: []].subtracting(holders[key, default: []])
  }

  // MARK: Names as they are shown

  /// Every name with its peer's ID, in the order of the names.
  public var names: [(name: String, id: String)] {
    entries.keys.map { (name(of: $0), $0) }.sorted { ($0.name, $0.id) < ($1.name, $1.id) }
  }

  /// The name of a peer where it stands by itself, in a list or a table: `alice`; `alice#1a2b` where another peer has or had the
  /// nickname, or where the nickname could be mistaken for another peer's name; `#1a2b` for a peer without a nickname.
  public func name(of id: String) -> String { name(of: id, nickname: nickname(of: id)) }

  /// The name of a peer that had this nickname then: another peer may have it now.
  public func name(of id: String, nickname: String) -> String {
    let key = NicknameText.key(nickname)
    let others = holders[key, default: []].union(trustedHolders[key, default: []]).subtracting([id])
    guard key.isEmpty || !others.isEmpty || NicknameText.isMisleading(key) else { return NicknameText.shown(nickname) }
    return designation(of: id, nickname: nickname)
  }

  /// The name of a peer in a line or a sentence: `<alice>`, or `<alice, verified as <mallory>>` where the peer had another nickname
  /// when it was verified. No nickname is shown with an angle bracket in it, so none can look like the end of a name.
  ///
  /// - Parameter settle: makes a name fit for a screen.
  public func label(of id: String, settle: (String) -> String = { $0 }) -> String {
    label(of: id, nickname: nickname(of: id), settle: settle)
  }

  /// The same for a peer that had this nickname then.
  public func label(of id: String, nickname: String, settle: (String) -> String = { $0 }) -> String {
    let name = settle(name(of: id, nickname: nickname))
    guard let verified = verifiedName(of: id), !NicknameText.isSame(verified, nickname) else { return "<\(name)>" }
    return "<\(name), verified as <\(settle(NicknameText.shown(verified)))>>"
  }

  /// The nickname under which a peer was verified, where that is not the nickname that it has now.
  public func formerVerifiedName(of id: String) -> String? {
    verifiedName(of: id).flatMap { NicknameText.isSame($0, nickname(of: id)) ? nil : NicknameText.shown($0) }
  }

  /// The name that means this peer alone, whatever others call themselves: `alice#1a2b`, with the whole ID where another peer of
  /// this nickname has the same last four digits.
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
