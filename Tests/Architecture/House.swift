import Foundation

/// The layers, and the layers from which a room in each may import.
enum Layer: String, CaseIterable {
  case system = "System"
  case base = "Base"
  case protocols = "Protocols"
  case host = "Host"
  case services = "Services"
  case programs = "Programs"
  /// Programs that measure and simulate, and their rooms; they are not installed.
  case tools = "Tools"

  /// Engines do not import the host, nor the host engines; only the two layers that wrap C import C. Nothing that is
  /// installed imports a tool.
  var mayImport: Set<Layer> {
    switch self {
    case .system: []
    case .base: [.system, .base]
    case .protocols: [.base]
    case .host: [.system, .base, .host]
    case .services: [.base, .protocols, .host, .services]
    case .programs: [.base, .protocols, .host, .services]
    case .tools: [.base, .protocols, .host, .services, .tools]
    }
  }
}

/// A file of the tree: its path from the top, and its content.
struct SourceFile {
  let path: String
  let text: String
  private let lexed: Lexed?

  /// The file as Swift; nil for other files.
  var swift: SwiftText? { lexed?.text }

  init(path: String, text: String) {
    self.path = path
    self.text = text
    lexed = path.hasSuffix(".swift") ? Lexed(text) : nil
  }

  /// Swift that is lexed when a rule first needs it, once for all rules: most rules need some files only.
  private final class Lexed: @unchecked Sendable {
    private let source: String
    private let lock = NSLock()
    private var known: SwiftText?

    init(_ source: String) { self.source = source }

    var text: SwiftText {
      lock.withLock {
        let text = known ?? SwiftText(source)
        known = text
        return text
      }
    }
  }

  /// `Sources/Host/DBus/Messages/Message.swift` is of the layer `host` and the room `DBus`. The services of one
  /// protocol share a folder: `Sources/Services/Tuvali/Wallet/WalletAdaptor.swift` is of the room `Wallet`.
  var layer: Layer? {
    let parts = path.split(separator: "/")
    return parts.count > 3 && parts[0] == "Sources" ? Layer(rawValue: String(parts[1])) : nil
  }
  var room: String? {
    guard let layer else { return nil }
    let parts = path.split(separator: "/")
    return String(layer == .services && parts.count > 4 ? parts[3] : parts[2])
  }
}

/// The rooms in Package.swift.
struct Manifest {
  struct Room: Equatable {
    let layer: Layer
    let name: String
    let dependencies: [String]
    /// The folder that the rooms of one protocol share; its own name where a room has none.
    var group = ""
  }

  /// A target of tests, or of shared test helpers.
  struct Tests: Equatable {
    /// Its folder below `Tests`.
    let path: String
    let dependencies: [String]
    /// Whether its tests run one at a time, because they wait for the clock (`go: .realTime` or `.bluez`).
    var waits = false
  }

  let rooms: [Room]
  let tests: [Tests]

  /// Reads the calls `library(…)`, `room(…)`, `program(…)`, `tool(…)`, `tests(…)` and `support(…)`, and the lists under
  /// `Every`.
  init(_ text: String) {
    let lists = Manifest.lists(text)
    var rooms: [Room] = []
    var tests: [Tests] = []
    for line in Manifest.calls(text) {
      let literals = SwiftText(line).literals
      guard let path = literals.first else { continue }
      let shared = lists.filter { SwiftText(line).code.contains("Every.\($0.key)") }.flatMap(\.value)
      if line.hasPrefix("tests(") || line.hasPrefix("support(") {
        let waits = ["go: .realTime", "go: .bluez"].contains(where: SwiftText(line).code.contains)
        tests.append(Tests(path: path, dependencies: shared + literals.dropFirst(), waits: waits))
      } else if line.hasPrefix("library(") {
        rooms.append(Room(layer: .system, name: path, dependencies: []))
      } else if line.hasPrefix("program(") {
        rooms.append(Room(layer: .programs, name: path, dependencies: shared + literals.dropFirst()))
      } else if line.hasPrefix("tool(") {
        rooms.append(Room(layer: .tools, name: path, dependencies: shared + literals.dropFirst()))
      } else {
        let parts = path.split(separator: "/").map(String.init)
        guard (2...3).contains(parts.count), let layer = Layer(rawValue: parts[0]), let name = parts.last else {
          continue
        }
        rooms.append(
          Room(layer: layer, name: name, dependencies: shared + literals.dropFirst(), group: parts[1]))
      }
    }
    self.rooms = rooms
    self.tests = tests
  }

  subscript(name: String) -> Room? { rooms.first { $0.name == name } }

  /// `static let base = ["Common", "Bytes"]` by name.
  private static func lists(_ text: String) -> [String: [String]] {
    var lists: [String: [String]] = [:]
    for line in text.split(separator: "\n") where line.contains("static let") && line.contains("= [\"") {
      let words = line.split { " :=".contains($0) }
      if words.count > 2 { lists[String(words[2])] = SwiftText(String(line)).literals }
    }
    return lists
  }

  /// The text of each call, up to its closing parenthesis; a declaration `func room(_ …` has no literal and is no call.
  private static func calls(_ text: String) -> [String] {
    var calls: [String] = []
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      let trimmed = line.drop { $0 == " " }
      if ["library(", "room(", "program(", "tool(", "tests(", "support("].contains(where: trimmed.hasPrefix) {
        calls.append(String(trimmed))
      } else if let last = calls.last, last.filter({ $0 == "(" }).count > last.filter({ $0 == ")" }).count {
        calls[calls.count - 1] += "\n" + trimmed
      }
    }
    return calls
  }
}

/// The source tree from which this test was built.
enum House {
  static let top = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  static func read(_ path: String) throws -> SourceFile {
    SourceFile(path: path, text: String(decoding: try Data(contentsOf: top.appending(path: path)), as: UTF8.self))
  }

  static func manifest() throws -> Manifest { Manifest(try read("Package.swift").text) }

  /// All files below `folder` whose names end with `suffix`.
  static func files(below folder: String, suffix: String = "") throws -> [SourceFile] {
    let paths = FileManager.default.enumerator(atPath: top.appending(path: folder).path)
    return try (paths?.compactMap { $0 as? String } ?? []).sorted()
      .filter { $0.hasSuffix(suffix) && !isFolder("\(folder)/\($0)") }
      .map { try read("\(folder)/\($0)") }
  }

  /// The files that git tracks; without git (a source package), the files in the project's folders.
  static func tracked() throws -> [SourceFile] {
    let git = Process()
    git.executableURL = URL(filePath: "/usr/bin/env")
    git.arguments = ["git", "-c", "safe.directory=*", "-C", top.path, "ls-files", "-z"]
    let output = Pipe()
    git.standardOutput = output
    git.standardError = FileHandle.nullDevice
    try git.run()
    let names = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    git.waitUntilExit()
    let paths = names.split(separator: "\0").map(String.init)
    if git.terminationStatus == 0, !paths.isEmpty {
      // A file may be deleted and not yet committed.
      return try paths.filter { FileManager.default.fileExists(atPath: top.appending(path: $0).path) }.map(read)
    }
    return try ["Sources", "Tests", "scripts", "systemd", "dbus-policy", "config"].flatMap { try files(below: $0) }
  }

  private static func isFolder(_ path: String) -> Bool {
    (try? top.appending(path: path).resourceValues(forKeys: [.isDirectoryKey]).isDirectory) ?? false
  }
}
