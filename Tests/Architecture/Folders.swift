/// The order of the folders of each room in `docs/design.md`, as a text block with the mark `folders`.
///
///     Host/Bus    .                a room, and its highest row of folders; `.` is the room's own folder
///                 Objects  Names   a lower row
struct FolderOrder {
  /// The rows of folders by room, the highest first.
  private(set) var rows: [String: [[String]]] = [:]

  /// - Parameter page: the whole page. Without a block there are no rows.
  init(_ page: String) {
    var room: String?
    let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
    let block = lines.drop { $0 != "```folders" }.dropFirst().prefix { $0 != "```" }
    for line in block {
      var words = line.split(separator: " ").map(String.init)
      if line.first != " ", !words.isEmpty { room = words.removeFirst() }
      guard let room, !words.isEmpty else { continue }
      rows[room, default: []].append(words)
    }
  }
}

extension SourceFile {
  /// The path of the room below `Sources`, and of the folder below the room: `.` for a file beside the folders.
  /// `Sources/Host/DBus/Values/DBusValue.swift` is of the room `Host/DBus` and its folder `Values`.
  var place: (room: String, folder: String)? {
    guard let layer else { return nil }
    let parts = path.split(separator: "/")
    let end = layer == .services && parts.count > 4 ? 4 : 3
    let inner = parts[end...].dropLast()
    return (parts[1..<end].joined(separator: "/"), inner.isEmpty ? "." : inner.joined(separator: "/"))
  }
}

/// Which files of a room use which others: a file uses another if it names a type that the other declares at the top
/// level and that other files can see.
struct FileUses {
  let files: [SourceFile]
  /// The types that the file at an index uses of each other file.
  private(set) var uses: [[Int: String]]

  init(_ files: [SourceFile]) {
    self.files = files
    let declared = files.map { Self.types(in: $0.swift?.tokens ?? []) }
    var owners: [String: [Int]] = [:]
    for (index, names) in declared.enumerated() {
      for name in names where name.isShared { owners[name.text, default: []].append(index) }
    }
    uses = files.enumerated().map { index, file in
      let own = Set(declared[index].map(\.text))
      var used: [Int: String] = [:]
      // A name behind a full stop is a member of another type.
      for token in file.swift?.tokens ?? [] where token.before != UInt8(ascii: ".") && !own.contains(token.text) {
        for owner in owners[token.text] ?? [] { used[owner] = token.text }
      }
      return used
    }
  }

  /// The types that a file declares outside of other declarations, and whether other files can see them.
  private static func types(in tokens: [SwiftText.Token]) -> [(text: String, isShared: Bool)] {
    let kinds: Set = ["struct", "class", "enum", "protocol", "actor", "typealias"]
    let modifiers: Set = ["final", "indirect", "private", "fileprivate", "public", "package", "internal", "open"]
    var depth = 0
    var types: [(String, Bool)] = []
    for (index, token) in tokens.enumerated() {
      if token.text == "{" { depth += 1 }
      if token.text == "}" { depth -= 1 }
      guard depth == 0, kinds.contains(token.text), index + 1 < tokens.count, tokens[index + 1].isWord else { continue }
      let before = tokens[..<index].reversed().prefix { modifiers.contains($0.text) }.map(\.text)
      types.append((tokens[index + 1].text, !before.contains("private") && !before.contains("fileprivate")))
    }
    return types
  }

  /// The groups of files of which each uses, directly or through others, each other one.
  var cycles: [[Int]] {
    let reached = files.indices.map { start in
      var seen: Set<Int> = []
      var waiting = Array(uses[start].keys)
      while let file = waiting.popLast() {
        if seen.insert(file).inserted { waiting += uses[file].keys }
      }
      return seen
    }
    var cycles: [[Int]] = []
    for index in files.indices where reached[index].contains(index) && !cycles.joined().contains(index) {
      cycles.append(files.indices.filter { $0 == index || reached[index].contains($0) && reached[$0].contains(index) })
    }
    return cycles
  }
}

extension Rules {
  /// The folders of a room form the order that the design lists: a file uses files of its own folder and of lower rows.
  static func foldersAreOrdered(_ files: [SourceFile], _ order: FolderOrder) -> [String] {
    let rooms = byRoom(files)
    let unknown = Set(order.rows.keys).subtracting(rooms.keys).sorted()
    return unknown.map { "\($0) is listed, and is not a room with folders" }
      + rooms.sorted { $0.key < $1.key }.flatMap { room, files -> [String] in
        guard let rows = order.rows[room] else { return ["\(room) has folders, and no order is listed"] }
        return violations(in: files, of: room, rows)
      }
  }

  private static func violations(in files: [SourceFile], of room: String, _ rows: [[String]]) -> [String] {
    let real = Set(files.compactMap { $0.place?.folder })
    let listed = rows.flatMap(\.self)
    func row(_ file: SourceFile) -> Int? {
      rows.firstIndex { $0.contains(file.place?.folder ?? "") }
    }
    var found = real.subtracting(listed).sorted().map { "\(room): the folder \($0) is not listed" }
    found += Set(listed).subtracting(real).sorted().map { "\(room): the folder \($0) is listed and does not exist" }
    let uses = FileUses(files)
    for (index, used) in uses.uses.enumerated() {
      for (other, type) in used.sorted(by: { $0.key < $1.key }) {
        let (from, to) = (files[index], files[other])
        guard let high = row(from), let low = row(to), from.place?.folder != to.place?.folder, low <= high else {
          continue
        }
        let folder = to.place?.folder ?? ""
        found.append("\(from.path): uses \(type) of the folder \(folder), which does not stand below it")
      }
    }
    return found
  }

  /// No files of different folders use one another in a circle.
  static func noCyclesAcrossFolders(_ files: [SourceFile]) -> [String] {
    byRoom(files).sorted { $0.key < $1.key }.flatMap { room, files in
      FileUses(files).cycles.compactMap { cycle in
        let folders = Set(cycle.compactMap { files[$0].place?.folder })
        guard folders.count > 1 else { return nil }
        let names = cycle.map { String(files[$0].path.dropFirst("Sources/\(room)/".count)) }
        return "\(room): \(names.sorted().joined(separator: ", ")) use one another across folders"
      }
    }
  }

  /// The Swift files of each room that has more than one folder.
  private static func byRoom(_ files: [SourceFile]) -> [String: [SourceFile]] {
    Dictionary(grouping: files.filter { $0.swift != nil && $0.place != nil }) { $0.place?.room ?? "" }
      .filter { Set($0.value.compactMap { $0.place?.folder }).count > 1 }
  }
}
