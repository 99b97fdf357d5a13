import Common

/// Names of peers: how each peer is shown, and which peer a text names. The service, the command-line tool and the chat
/// share these functions.
///
/// A peer ID is 16 lower-case hexadecimal digits.
public struct MeshNameIndex: Sendable, Equatable {
  struct Entry: Sendable, Equatable {
    var nickname: String
    /// Nickname of the peer when it was verified; empty if it is not verified, or had none.
    var verifiedName = ""
    /// Nicknames that a favourite or verified peer has had since then.
    var nicknameHistory: [String] = []
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
  ///   - nicknameHistory: nicknames that a favourite or verified peer has had since then.
  public mutating func add(_ id: String, nickname: String, verifiedName: String = "", nicknameHistory: [String] = []) {
    if let old = entries[id] {
      holders[NicknameText.key(old.nickname)]?.remove(id)
      for name in Self.trustedNames(of: old) { trustedHolders[NicknameText.key(name)]?.remove(id) }
    }
    let entry = Entry(nickname: nickname, verifiedName: verifiedName, nicknameHistory: nicknameHistory)
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
    (entry.nicknameHistory + [entry.verifiedName]).filter { !NicknameText.key($0).isEmpty }
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

/// Finds the peer that a text names.
extension MeshNameIndex {
  /// Maximum length of a text that names a peer, in bytes: 255 of a nickname, and the digits of an ID.
  private static let longest = 300
  /// Numbers of ID digits that may follow a nickname.
  private static let digitCounts: Set<Int> = [4, 16]

  /// Returns the peer that a text names. White space around it is ignored. The rules apply in this order:
  ///
  /// 1. 16 hexadecimal digits are a peer ID, whether the peer is known or not.
  /// 2. A text that ends with `#` and 4 or 16 hexadecimal digits names a known peer by the end of its ID. If there is a
  ///    nickname before the `#`, it must match too. Such a text is never compared with whole nicknames.
  /// 3. Any other text is a nickname that one known peer has. It is rejected if several peers have it, or if a
  ///    favourite or verified peer had it before.
  ///
  /// Angle brackets around the text, as in lines and sentences, are ignored.
  public func peer(_ text: String) throws(MeshNameRefusal) -> String {
    let name = Self.bare(text)
    if let id = try explicitPeer(name) { return id }
    let key = NicknameText.key(name)
    guard !key.isEmpty, name.utf8.count <= Self.longest else { throw refusal(.unknown, name) }
    let (now, before) = (holders(ofKey: key), formerHolders(ofKey: key))
    guard let peer = now.first else {
      if !before.isEmpty { throw refusal(.formerName, name, before) }
      if entries[own].map({ NicknameText.key($0.nickname) }) == key { throw refusal(.thisNode, name) }
      throw refusal(.unknown, name, similar(to: key))
    }
    guard before.isEmpty || now.count > 1 else { throw refusal(.taken, name, now.union(before)) }
    // Four hexadecimal digits may be meant as the end of an ID.
    let meant = now.union(before).union(Self.isEnding(key) ? ending(with: key) : [])
    guard meant.count == 1 else { throw refusal(.ambiguous, name, meant) }
    return peer
  }

  /// Returns a text that is a peer ID in lower case; nil for any other text.
  public static func id(_ text: String) -> String? {
    let name = bare(text)
    return name.utf8.count == 16 && isHexadecimal(name) ? name.lowercased() : nil
  }

  /// Splits a text into the peer that it begins with, and the rest. The name ends with white space. A nickname with
  /// spaces can be in quotation marks or angle brackets. Throws if the text begins with the names of several peers.
  public func addressee(_ text: String) throws(MeshNameRefusal) -> (peer: String, rest: String) {
    if let (name, rest) = Self.quoted(text) { return (try peer(name), rest) }
    let heads = Self.heads(of: text)
    var named: [(head: String, rest: String)] = []
    for (head, rest) in heads {
      do throws(MeshNameRefusal) {
        if let peer = try explicitPeer(head) { return (peer, rest) }
        named.append((head, rest))
      } catch {
        // A text with ID digits cannot be a nickname. At the beginning nothing else can be meant.
        if head == heads.first?.head { throw error }
      }
    }
    var meant: Set<String> = []
    var longest: (head: String, rest: String)?
    for (head, rest) in named {
      let key = NicknameText.key(head)
      let peers = key.isEmpty ? [] : holders(ofKey: key).union(formerHolders(ofKey: key))
      if !peers.isEmpty { (meant, longest) = (meant.union(peers), (head, rest)) }
    }
    guard let longest else { return (try peer(heads.first?.head ?? text), heads.first?.rest ?? "") }
    guard meant.count == 1 else { throw refusal(.ambiguous, longest.head, meant) }
    return (try peer(longest.head), longest.rest)
  }

  /// Returns the peer named by digits of its ID; nil for a text without such digits, or with another number of digits.
  private func explicitPeer(_ name: String) throws(MeshNameRefusal) -> String? {
    if let id = Self.id(name) { return id }
    guard name.utf8.count <= Self.longest, let mark = name.lastIndex(of: "#") else { return nil }
    let digits = name[name.index(after: mark)...].lowercased()
    guard Self.digitCounts.contains(digits.utf8.count), Self.isHexadecimal(digits) else { return nil }
    let key = NicknameText.key(String(name[..<mark]))
    let ending = ending(with: digits)
    let meant = key.isEmpty ? ending : ending.intersection(holders(ofKey: key).union(formerHolders(ofKey: key)))
    guard let peer = meant.first else {
      if own.hasSuffix(digits), key.isEmpty || NicknameText.key(entries[own]?.nickname ?? "") == key {
        throw refusal(.thisNode, name)
      }
      throw refusal(.unknown, name, ending.union(holders(ofKey: key)).union(holders(ofKey: NicknameText.key(name))))
    }
    guard meant.count == 1 else { throw refusal(.ambiguous, name, meant) }
    return peer
  }

  /// Peers, other than this node, whose IDs end with these digits.
  private func ending(with digits: String) -> Set<String> {
    Set(entries.keys.filter { $0 != own && $0.hasSuffix(digits) })
  }

  private static func isEnding(_ key: String) -> Bool { key.utf8.count == 4 && isHexadecimal(key) }

  private static func isHexadecimal(_ text: String) -> Bool {
    text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x46).contains($0) || (0x61...0x66).contains($0) }
  }

  private static func bare(_ text: String) -> String {
    let name = PastedText.trimmed(text)
    guard name.hasPrefix("<"), name.hasSuffix(">"), name.count > 2 else { return name }
    return PastedText.trimmed(String(name.dropFirst().dropLast()))
  }

  /// Returns the prefixes of a text that end before white space, shortest first, and the whole text, each with the
  /// rest.
  private static func heads(of text: String) -> [(head: String, rest: String)] {
    var ends = text.prefix(longest).indices.filter { text[$0].isWhitespace }
    if text.count <= longest { ends.append(text.endIndex) }
    return ends.map { (String(text[..<$0]), String(text[$0...].drop(while: \.isWhitespace))) }
  }

  private static func quoted(_ text: String) -> (name: String, rest: String)? {
    let closing: Character
    switch text.first {
    case "\"": closing = "\""
    case "<": closing = ">"
    default: return nil
    }
    guard let end = text.dropFirst().firstIndex(of: closing) else { return nil }
    let rest = text[text.index(after: end)...]
    guard rest.first.map(\.isWhitespace) ?? true else { return nil }
    return (String(text[text.index(after: text.startIndex)..<end]), String(rest.drop(while: \.isWhitespace)))
  }

  // MARK: Failures

  /// Known peers whose nickname begins with the text, or whose ID ends with it.
  private func similar(to key: String) -> Set<String> {
    let beginning = entries.filter { id, entry in id != own && NicknameText.key(entry.nickname).hasPrefix(key) }
    return Set(beginning.keys).union(Self.isEnding(key) ? ending(with: key) : [])
  }

  private func refusal(
    _ reason: MeshNameRefusal.Reason, _ text: String, _ candidates: Set<String> = []
  ) -> MeshNameRefusal {
    MeshNameRefusal(
      reason: reason, text: text,
      candidates: candidates.sorted().map { MeshNameRefusal.Candidate(id: $0, name: designation(of: $0)) })
  }
}

/// Error for a text that does not name exactly one peer, with possible candidates.
public struct MeshNameRefusal: Error, Hashable, Sendable {
  public enum Reason: Hashable, Sendable {
    /// No known peer has this name.
    case unknown
    /// Several known peers have the nickname.
    case ambiguous
    /// One peer has this name, and a favourite or verified peer had it before.
    case taken
    /// Only a favourite or verified peer had this name, and has a different one now.
    case formerName
    /// The text names this node itself.
    case thisNode
  }

  public struct Candidate: Hashable, Sendable {
    public let id: String
    /// Name that identifies this peer uniquely.
    public let name: String
  }

  public let reason: Reason
  /// The text, as given by the user, that names no single peer.
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
