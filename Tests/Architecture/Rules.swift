/// The rules of the source tree, each a function from files to sentences about violations.
enum Rules {
  static let engineImports: Set = ["Bytes", "Common", "Compression", "Crypto", "Noise"]
  /// Engines whose wire values are a room of their own, which they may import.
  static let wireRooms = ["Bitchat": "BitchatWire"]
  static let lineLimit = 900
  /// The rooms with the list of services and the list of the tool's commands. They alone import them all, and the
  /// programs import nothing else of the services.
  static let listRooms: Set = ["Listing", "ToolList"]
  /// The programs that are a daemon of one protocol, and the room that each starts.
  static let daemonRooms = [
    "earshot-sociald": "SocialDaemon", "earshot-presenced": "Presence", "earshot-nostrd": "NostrUplink",
  ]
  /// The folders with Python: earshot-check, and the client for programs.
  static let pythonFolders: Set = ["Check", "Python"]

  /// An engine maps bytes and time to actions: it imports the base rooms and its wire values, and nothing else, in no
  /// form of import.
  static func enginesArePure(_ files: [SourceFile]) -> [String] {
    imports(of: files.filter { $0.layer == .protocols }).compactMap { file, module, line in
      engineImports.contains(module) || isWire(module, of: file.room)
        ? nil : "\(file.path):\(line): an engine imports \(module)"
    }
  }

  /// Imports go down, never up, never from one protocol to another, never between host and protocols.
  static func importsGoDown(_ files: [SourceFile], _ manifest: Manifest) -> [String] {
    imports(of: files).compactMap { file, module, line in
      guard let from = file.layer, let to = manifest[module]?.layer, module != file.room,
        !isWire(module, of: file.room)
      else { return nil }
      return from.mayImport.contains(to) ? nil : "\(file.path):\(line): \(from) imports \(module), which is of \(to)"
    }
  }

  private static func isWire(_ module: String, of room: String?) -> Bool { room.flatMap { wireRooms[$0] } == module }

  /// Dependencies in Package.swift go down as well, and a room depends on rooms listed above it.
  static func dependenciesGoDown(_ manifest: Manifest) -> [String] {
    manifest.rooms.enumerated().flatMap { index, room in
      room.dependencies.compactMap { name in
        guard let position = manifest.rooms.firstIndex(where: { $0.name == name }) else {
          return "\(room.name) depends on \(name), which is no room"
        }
        if !room.layer.mayImport.contains(manifest.rooms[position].layer), !isWire(name, of: room.name) {
          return "\(room.name) of \(room.layer) depends on \(name) of \(manifest.rooms[position].layer)"
        }
        return position < index ? nil : "\(room.name) depends on \(name), which stands below it"
      }
    }
  }

  /// Every import of a room of this project is declared: the compiler finds an undeclared module only when it happens
  /// to be built.
  static func importsAreDeclared(_ files: [SourceFile], _ manifest: Manifest) -> [String] {
    imports(of: files).compactMap { file, module, line in
      guard let name = file.room, name != module, manifest[module] != nil else { return nil }
      guard let room = manifest[name] else { return "\(file.path): \(name) is not in Package.swift" }
      return room.dependencies.contains(module)
        ? nil : "\(file.path):\(line): \(name) imports \(module) and does not declare it"
    }
  }

  /// Every declared dependency is used: one file of the room imports it. The rule also covers tests.
  static func dependenciesAreUsed(
    _ files: [SourceFile], _ tests: [SourceFile] = [], _ manifest: Manifest
  ) -> [String] {
    let rooms = manifest.rooms.flatMap { room in
      let own = files.filter { $0.layer == room.layer && $0.room == room.name }
      return unused(room.dependencies, in: own).map { "\(room.name) declares \($0) and does not import it" }
    }
    return rooms
      + manifest.tests.flatMap { target in
        let own = tests.filter { $0.path.hasPrefix("Tests/\(target.path)/") }
        return unused(target.dependencies, in: own).map { "\(target.path) declares \($0) and does not import it" }
      }
  }

  private static func unused(_ dependencies: [String], in files: [SourceFile]) -> [String] {
    let imported = Set(imports(of: files).map(\.module))
    return dependencies.filter { !imported.contains($0) }
  }

  /// A service imports the rooms of its own protocol, and no other service; only the list imports them all.
  static func servicesAreApart(_ files: [SourceFile], _ manifest: Manifest) -> [String] {
    imports(of: files.filter { $0.layer == .services && !listRooms.contains($0.room ?? "") }).compactMap {
      file, module, line in
      guard let own = file.room.flatMap({ manifest[$0] }), let other = manifest[module], other.layer == .services,
        other.group != own.group
      else { return nil }
      return "\(file.path):\(line): \(own.name) imports \(module), a service of another protocol"
    }
  }

  /// A program knows services by the list alone, so that a new service changes no program. A daemon of one protocol
  /// knows its own.
  static func programsKnowTheList(_ files: [SourceFile], _ manifest: Manifest) -> [String] {
    let rooms = manifest.rooms.filter { $0.layer == .services && !listRooms.contains($0.name) }
    return files.filter { $0.layer == .programs }.flatMap { file in
      // A daemon of one protocol starts its target, and may mention the targets of this protocol.
      let own = daemonRooms[file.room ?? ""].flatMap { manifest[$0] }
      let services = rooms.filter { $0.name != own?.name && (own == nil || $0.group != own?.group) }.map(\.name)
      let imported = imports(of: [file]).filter { services.contains($0.module) }
        .map { "\(file.path):\($0.line): a program imports \($0.module), which is for the list to know" }
      // A program does not mention a service either, in names and in texts except comments.
      let words = Set((file.swift?.tokens ?? []).map(\.text))
      let literals = (file.swift?.literals ?? []).joined(separator: " ").lowercased()
      let named = services.filter { name in
        words.contains { $0.contains(name) } || literals.contains(name.lowercased())
      }
      return imported + named.map { "\(file.path): a program speaks of \($0)" }
    }
  }

  /// Each C library is imported by one room.
  static func librariesHaveOneDoor(_ files: [SourceFile], _ manifest: Manifest) -> [String] {
    manifest.rooms.filter { $0.layer == .system }.compactMap { library in
      let declared = Set(manifest.rooms.filter { $0.dependencies.contains(library.name) }.map(\.name))
      let used = Set(imports(of: files).filter { $0.module == library.name }.compactMap { $0.file.room })
      guard declared.count == 1, let door = declared.first else {
        return "\(library.name) is declared by \(declared.sorted()), not by one room"
      }
      if let other = used.subtracting([door]).min() { return "\(library.name) is imported by \(other) besides \(door)" }
      // A room that is still empty does not need its library yet.
      let isEmpty = files.contains { $0.room == door && $0.path.hasSuffix("/Placeholder.swift") }
      return used.isEmpty && !isEmpty ? "\(library.name) is declared by \(door) and imported by nobody" : nil
    }
  }

  /// Foundation links ICU, 13 MiB; FoundationEssentials is for the host alone.
  static func noFoundation(_ files: [SourceFile]) -> [String] {
    imports(of: files).compactMap { file, module, line in
      guard file.layer != nil, module.hasPrefix("Foundation") else { return nil }
      if module == "FoundationEssentials", file.layer == .host { return nil }
      return "\(file.path):\(line): imports \(module)"
    }
  }

  /// Programs do not trap on errors: no `try!`, `as!`, `fatalError(…)`, no forced unwrapping.
  static func nothingTraps(_ files: [SourceFile]) -> [String] {
    files.filter { $0.layer != nil }.flatMap { file in
      let tokens = file.swift?.tokens ?? []
      return zip(tokens, tokens.dropFirst() + [.init(text: "", line: 0, before: nil)]).compactMap { token, next in
        let place = "\(file.path):\(token.line): "
        if token.text == "fatalError", next.text == "(" { return place + "fatalError" }
        guard token.text == "!", let before = token.before else { return nil }
        // `a != b` is a comparison; `!a` follows a blank, a bracket or another operator.
        if next.text == "=", next.before == UInt8(ascii: "!") { return nil }
        return SwiftText.Token.isWordPart(before) || ")]}>?\"".utf8.contains(before)
          ? place + "something is forced with !" : nil
      }
    }
  }

  /// Every folder is a layer of Swift, or a folder with Python, which contains no Swift.
  static func foldersAreLayers(_ files: [SourceFile]) -> [String] {
    files.filter { $0.path.hasPrefix("Sources/") }.compactMap { file in
      let folder = file.path.split(separator: "/").dropFirst().first.map(String.init) ?? ""
      if pythonFolders.contains(folder) { return file.swift == nil ? nil : "\(file.path): Swift in a folder of Python" }
      return Layer(rawValue: folder) == nil ? "\(file.path): \(folder) is not a layer" : nil
    }
  }

  /// Only the room Calendar reads local time, and reads the zone each time: `localtime_r` alone keeps the zone of the
  /// program's start.
  static func localTimeHasOneRoom(_ files: [SourceFile]) -> [String] {
    let names: Set = ["localtime", "localtime_r", "mktime", "tzset"]
    return files.filter { $0.layer != nil && $0.room != "Calendar" }.flatMap { file in
      (file.swift?.tokens ?? []).filter { names.contains($0.text) }
        .map { "\(file.path):\($0.line): \($0.text) outside of Calendar" }
    }
  }

  static func filesAreShort(_ files: [SourceFile]) -> [String] {
    files.filter { $0.swift != nil }.compactMap { file in
      let lines = file.text.utf8.lazy.filter { $0 == 0x0A }.count
      return lines < lineLimit ? nil : "\(file.path): \(lines) lines"
    }
  }

  /// Tests that wait for the clock, within a limit, run apart from those that occupy the loop for any time.
  static func waitingTestsRunApart(_ files: [SourceFile], _ manifest: Manifest) -> [String] {
    let apart = manifest.tests.filter(\.waits).map { "Tests/\($0.path)/" } + ["Tests/TestSupport/"]
    return files.compactMap { file in
      guard !apart.contains(where: file.path.hasPrefix), let code = file.swift?.code else { return nil }
      guard
        let clock = ["Mailbox<", "PrivateBus", "EventLoop.shared.now", "EventLoop.shared.schedule"]
          .first(where: code.contains)
      else { return nil }
      return "\(file.path): waits with \(clock) beside tests in virtual time"
    }
  }

  /// The tree works in any folder: it contains no path of a developer's machine.
  static func noMachinePaths(_ files: [SourceFile]) -> [String] {
    // Written in pieces; otherwise this file would break the rule.
    let homes = ["work", "var/tmp", "home", "Users", "root"].map { "/" + $0 + "/" }
    return files.filter { file in homes.contains { file.text.contains($0) } }.flatMap { file in
      file.text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated().compactMap { number, bytes in
        let line = Array(bytes)
        for home in homes where starts(home, in: line) { return "\(file.path):\(number + 1): names \(home)" }
        return nil
      }
    }
  }

  /// Whether an absolute path begins with `home`, and is not the end of a longer path or of an address.
  private static func starts(_ home: String, in line: [UInt8]) -> Bool {
    let home = Array(home.utf8)
    return line.indices.contains { index in
      guard line[index] == home[0], line[index...].starts(with: home), index + home.count < line.count,
        SwiftText.Token.isWordPart(line[index + home.count])
      else { return false }
      guard index > 0 else { return true }
      return !SwiftText.Token.isWordPart(line[index - 1]) && !"./-~$}*".utf8.contains(line[index - 1])
    }
  }

  private static func imports(of files: [SourceFile]) -> [(file: SourceFile, module: String, line: Int)] {
    files.flatMap { file in (file.swift?.imports ?? []).map { (file, $0.module, $0.line) } }
  }
}
