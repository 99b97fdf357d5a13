/// One portion of a list: the first names after a given one, sorted by their octets.
///
/// Names may be added in any order. The names of one directory are added in ascending order, so that reading a
/// directory stops at the end of the portion.
final class ListPage {
  /// The start of reading a directory for a portion. All names of the directory begin with the same text.
  enum Start: Equatable {
    case first
    /// Read the names of the directory that follow this one.
    case behind(String)
    /// Do not read the directory: none of its names is in the portion.
    case nowhere
  }

  private let after: [UInt8]
  /// Whether this is the first portion.
  var isFirst: Bool { after.isEmpty }
  private let limit: Int
  private var names: [[UInt8]] = []
  /// Number of matching names that were examined, whether they are in this portion or not.
  private(set) var matches = 0

  /// - Parameter limit: maximum names, at least 1.
  init(after: String, limit: Int) { (self.after, self.limit) = (Array(after.utf8), limit) }

  var lines: [String] { names.map { String(decoding: $0, as: UTF8.self) } }

  /// - Parameter prefix: the text before each name of the directory.
  func start(_ prefix: String) -> Start {
    let octets = Array(prefix.utf8)
    guard after.starts(with: octets) else { return after.lexicographicallyPrecedes(octets) ? .first : .nowhere }
    let rest = after.dropFirst(octets.count)
    return rest.isEmpty ? .first : .behind(String(decoding: rest, as: UTF8.self))
  }

  /// Counts a matching name that is not in the portion.
  func noteMatch() { matches += 1 }

  /// Whether the portion is complete without this name and all later ones.
  func isFull(before name: String) -> Bool {
    guard names.count >= limit, let last = names.last else { return false }
    return !name.utf8.lexicographicallyPrecedes(last)
  }

  /// Adds a name, unless it is not after the given start, or the portion is already full of earlier names.
  func add(_ name: String) {
    noteMatch()
    guard after.lexicographicallyPrecedes(name.utf8), !isFull(before: name) else { return }
    let octets = Array(name.utf8)
    var (low, high) = (0, names.count)
    while low < high {
      let middle = (low + high) / 2
      if names[middle].lexicographicallyPrecedes(octets) { low = middle + 1 } else { high = middle }
    }
    guard low == names.count || names[low] != octets else { return }
    names.insert(octets, at: low)
    if names.count > limit { names.removeLast() }
  }
}

extension CommandEngine {
  /// The names that a reference matches, as `ls` prints them, in the order of their octets. A directory of any size is
  /// read in portions.
  ///
  /// - Parameters:
  ///   - reference: a reference in the dialect `seed`; an empty text stands for the login's own directory.
  ///   - after: only names after this one are returned.
  ///   - limit: maximum names, at least 1.
  public func names(
    _ reference: String, by login: Login, after: String, limit: Int
  ) throws(Refusal) -> [String] {
    var query = self.query(login, .seed)
    let page = ListPage(after: after, limit: limit)
    query.page = page
    let parsed = reference.isEmpty ? Reference.own : try query.reference(reference)
    _ = try query.resolver.matches(parsed, allowsNone: true)
    let mayBeEmpty = reference.isEmpty || !after.isEmpty || parsed.since != nil
    guard mayBeEmpty || page.matches > 0 else { throw StoreView<Store>.missing }
    return page.lines
  }

  /// The contents of the blobs that a reference matches, concatenated.
  ///
  /// - Parameter limit: maximum octets.
  public func contents(_ reference: String, by login: Login, limit: Int) throws(Refusal) -> [UInt8] {
    var query = self.query(login, .seed)
    query.answer = limit
    return try query.cat([reference]).data
  }
}
