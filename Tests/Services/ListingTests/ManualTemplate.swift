/// A text of `docs/man/text` from which a manual page is generated.
///
/// The first line is `name - summary`. Below it, `## ` begins a section, `### ` a subsection, `- term :: text` an item,
/// four spaces a line that is shown unchanged, and `@` the name of a generated part. Every other line is a paragraph.
struct ManualTemplate {
  enum Element: Equatable {
    case section(String)
    case subsection(String)
    case item(String, String)
    case code([String])
    case part(String)
    case paragraph(String)
  }

  let summary: String
  let elements: [Element]

  /// - Returns: nil if the first line is not `name - summary`.
  init?(_ text: String, name: String) {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard let first = lines.first, first.hasPrefix("\(name) - ") else { return nil }
    summary = String(first.dropFirst(name.count + 3))
    var elements: [Element] = []
    for line in lines.dropFirst() where !line.isEmpty {
      guard line.hasPrefix("    "), case .code(let above)? = elements.last else {
        elements.append(Self.element(line))
        continue
      }
      elements[elements.count - 1] = .code(above + [String(line.dropFirst(4))])
    }
    self.elements = elements
  }

  private static func element(_ line: String) -> Element {
    func rest(_ prefix: String) -> String { String(line.dropFirst(prefix.count)) }
    if line.hasPrefix("    ") { return .code([rest("    ")]) }
    if line.hasPrefix("### ") { return .subsection(rest("### ")) }
    if line.hasPrefix("## ") { return .section(rest("## ")) }
    if line.hasPrefix("@") { return .part(rest("@")) }
    let marker = Array(" :: ")
    let characters = Array(line)
    if line.hasPrefix("- "),
      let at = characters.indices.first(where: { Array(characters[$0...].prefix(marker.count)) == marker })
    {
      return .item(String(characters[2..<at]), String(characters[(at + marker.count)...]))
    }
    return .paragraph(line)
  }
}
