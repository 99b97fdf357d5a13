import Common

/// Resolution of texts to peers.
extension MeshNameBook {
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
