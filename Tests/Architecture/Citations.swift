/// The pages of `docs`, and what the tree cites of them.
///
///     Facts: tuvali.md section 5                       docs/facts/tuvali.md, a heading that begins with 5
///     facts: tuvali.md sections 3 to 5 and 7           four of them
///     Facts: tuvali.md section 7, "Error codes"        a heading below 7 that begins so
///     docs/security.md                                 a file
struct Citations {
  /// A heading of a page: the number of its signs, and its text.
  struct Heading: Equatable {
    let level: Int
    let text: String

    /// `3.1` of `3.1 The trap` and of `3.1. The trap`; nil if the text begins with no number.
    var number: String? {
      let digits = text.prefix { $0.isWholeNumber || $0 == "." }
      guard digits.first?.isWholeNumber == true else { return nil }
      return String(digits.last == "." ? digits.dropLast() : digits)
    }
  }

  private let pages: [String: [Heading]]

  /// - Parameter files: every page that may be cited, with its path from the top of the tree.
  init(_ files: [SourceFile]) {
    pages = Dictionary(files.map { ($0.path, Self.headings($0.text)) }, uniquingKeysWith: { first, _ in first })
  }

  /// The sentences about citations in a file that lead nowhere.
  func broken(in file: SourceFile) -> [String] {
    let text = JoinedLines(file.text)
    return text.joined.matches(of: Self.mention).compactMap { match in
      let path = String(match.output.1)
      let sections = match.output.2.map(String.init)
      let name = match.output.3.map(String.init)
      let why = problem(path, sections, name, in: file.path)
      return why.map { "\(file.path):\(text.line(of: match.range.lowerBound)): \(path) \($0)" }
    }
  }

  // A page, and the sections with the heading that may follow.
  private static var mention: Regex<(Substring, Substring, Substring?, Substring?)> {
    #/([\w.\/\-]+\.md)(?!\w)(?:[,`]? sections? ([0-9][0-9., andto]*[0-9]|[0-9])(?:, "([^"]+)")?)?/#
  }

  private func problem(_ path: String, _ sections: String?, _ name: String?, in citing: String) -> String? {
    // Addresses on the web, and patterns of names.
    guard !path.hasPrefix("/"), !path.hasPrefix(".md") else { return nil }
    if let sections { return missing(sections, name, of: sheet(path)) }
    if citing.hasPrefix("docs/facts/") {
      // Fact sheets describe other source trees: only a path to a sheet is a path of this tree.
      return path.hasPrefix("docs/facts/") && pages[path] == nil ? "does not exist" : nil
    }
    if citing.hasSuffix(".md") {
      let folder = citing.split(separator: "/").dropLast().joined(separator: "/")
      return resolve(path, in: folder) ? nil : "does not exist"
    }
    guard path.contains("/") || pages["docs/facts/\(path)"] == nil else { return "is cited without a section" }
    return pages[path] == nil ? "does not exist" : nil
  }

  private func sheet(_ path: String) -> String {
    path.contains("/") ? path : "docs/facts/\(path)"
  }

  /// Whether a link in a page of `folder`, or a path from the top, leads to a page.
  private func resolve(_ path: String, in folder: String) -> Bool {
    var parts = folder.split(separator: "/").map(String.init)
    for part in path.split(separator: "/").map(String.init) {
      if part == ".." { _ = parts.popLast() } else { parts.append(part) }
    }
    return [parts.joined(separator: "/"), path, "docs/facts/\(path)"].contains { pages[$0] != nil }
  }

  private func missing(_ sections: String, _ name: String?, of page: String) -> String? {
    guard let headings = pages[page] else { return "does not exist in docs/facts" }
    for section in Self.numbers(sections) {
      guard let index = headings.firstIndex(where: { $0.number == section }) else {
        return "has no section \(section)"
      }
      guard let name else { continue }
      let below = headings[(index + 1)...].prefix { $0.level > headings[index].level }
      guard below.contains(where: { $0.text.hasPrefix(name) }) else {
        return "has no \"\(name)\" in section \(section)"
      }
    }
    return nil
  }

  /// `3 to 5 and 7` is 3, 4, 5 and 7.
  static func numbers(_ text: String) -> [String] {
    var numbers: [String] = []
    var isRange = false
    for word in text.split(whereSeparator: { " ,".contains($0) }).map(String.init) {
      switch word {
      case "to": isRange = true
      case "and": break
      default:
        if isRange, let from = numbers.last.flatMap({ Int($0) }), let to = Int(word), from < to {
          numbers += (from + 1...to).map(String.init)
        } else {
          numbers.append(word)
        }
        isRange = false
      }
    }
    return numbers
  }

  static func headings(_ text: String) -> [Heading] {
    var isCode = false
    return text.split(separator: "\n", omittingEmptySubsequences: false).compactMap { line in
      if line.hasPrefix("```") { isCode.toggle() }
      let signs = line.prefix { $0 == "#" }.count
      guard !isCode, signs > 0, line.dropFirst(signs).first == " " else { return nil }
      return Heading(level: signs, text: String(line.dropFirst(signs + 1)))
    }
  }
}

/// A text whose lines are joined, without comment markers: a citation may continue in the next line.
private struct JoinedLines {
  let joined: String
  private let starts: [String.Index]

  init(_ text: String) {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      String(line.drop { " \t/#*".contains($0) })
    }
    joined = lines.joined(separator: " ")
    var starts: [String.Index] = []
    var position = joined.startIndex
    for line in lines {
      starts.append(position)
      position = joined.index(position, offsetBy: line.count + 1, limitedBy: joined.endIndex) ?? joined.endIndex
    }
    self.starts = starts
  }

  func line(of index: String.Index) -> Int { starts.count { $0 <= index } }
}
