import Common

/// How peers are called where people read: by nickname, made harmless, and by four digits of the peer ID more where the
/// nickname alone would not say which peer it is.
public struct MeshNameBook: Sendable, Equatable {
  /// How many Unicode scalars of a nickname are shown.
  public static let limit = 40

  private var nicknames: [String: String] = [:]
  private var holders: [String: Set<String>] = [:]

  public init() {}

  public init(_ peers: some Sequence<MeshPeerView>) {
    for peer in peers { add(peer.id, nickname: peer.nickname) }
  }

  /// Takes a peer in, or a nickname that it has now; the node itself belongs here as well, for a peer may take its name.
  public mutating func add(_ id: String, nickname: String) {
    if let old = nicknames[id] { holders[Self.key(old)]?.remove(id) }
    nicknames[id] = nickname
    holders[Self.key(nickname), default: []].insert(id)
  }

  /// Every name of a peer that was taken in, with the peer's ID.
  public var names: [(name: String, id: String)] {
    nicknames.keys.map { (name(of: $0), $0) }.sorted { ($0.name, $0.id) < ($1.name, $1.id) }
  }

  /// `alice`, or `alice#1a2b`; `#1a2b` for a peer without a nickname.
  public func name(of id: String) -> String { name(of: id, nickname: nicknames[id] ?? "") }

  /// The name of a peer that had this nickname then: another peer may have it now.
  public func name(of id: String, nickname: String) -> String {
    // A name that shows nothing is none.
    let shown = Self.key(nickname).isEmpty ? "" : Self.shown(nickname)
    let others = holders[Self.key(nickname)]?.contains { $0 != id } ?? false
    // A nickname that ends as a distinguished name does is no proof of being that peer.
    return shown.isEmpty || others || shown.contains("#") ? "\(shown)#\(id.suffix(4))" : shown
  }

  /// The peer IDs with this name: nickname in any case, name as shown, or the ID itself.
  public func peers(called name: String) -> [String] {
    let wanted = name.lowercased()
    if nicknames[wanted] != nil { return [wanted] }
    let exact = nicknames.keys.filter { self.name(of: $0).lowercased() == wanted }.sorted()
    return exact.isEmpty ? (holders[Self.key(name)] ?? []).sorted() : exact
  }

  /// One line, nothing that a terminal would obey, no blanks at the ends: they would hide that two names are one. No arrows: who has
  /// one could make a line to all look like a private one.
  private static func shown(_ nickname: String) -> String {
    let clean = PrintableText.clean(nickname, limit: limit)
    let scalars = clean.unicodeScalars.map { isArrow($0) ? "\u{FFFD}" : $0 }
    return words(of: scalars)
  }

  /// Two names with one key look the same but for case: scalars that show nothing, joiners and fillers among them, tell nobody apart.
  private static func key(_ nickname: String) -> String {
    words(of: shown(nickname).unicodeScalars.filter { !isBlank($0) }).lowercased()
  }

  private static func words(of scalars: some Sequence<Unicode.Scalar>) -> String {
    var view = String.UnicodeScalarView()
    view.append(contentsOf: scalars)
    return String(view).split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  /// The blank pattern of Braille is no white space to Unicode.
  private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.isDefaultIgnorableCodePoint || scalar == "\u{2800}"
  }

  /// The blocks of arrows, and the parts of others where there are some.
  private static func isArrow(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x2190...0x21FF, 0x2794, 0x2798...0x27BE, 0x27F0...0x27FF, 0x2900...0x297F, 0x2B00...0x2B11, 0x2B30...0x2B4F,
      0x2B5A...0x2BB9, 0xFFE9...0xFFEC, 0x1F800...0x1F8FF:
      true
    default: false
    }
  }
}
