/// The files of a configuration: one main file and any number of drop-ins.
///
/// The main file is the first one that exists in the directories. Drop-ins are the files `NAME.d/*.conf` of all
/// directories, in the order of their file names. If several have one name, the first directory's file is used: an
/// administrator's file in `/etc` replaces the vendor's in `/usr/lib`, and a link to `/dev/null` masks it. Later files
/// override earlier ones.
public struct ConfigurationFiles: Sendable, Equatable {
  /// `earshot.conf` in `/etc/earshot`, `/run/earshot` and `/usr/lib/earshot`.
  public static let standard = ConfigurationFiles(
    name: "earshot.conf", directories: ["/etc/earshot", "/run/earshot", "/usr/lib/earshot"])

  private let name: String
  private let directories: [String]
  private let only: String?

  /// - Parameter directories: in the order of precedence, highest first.
  public init(name: String, directories: [String]) {
    self.name = name
    self.directories = directories
    only = nil
  }

  /// Uses only this file, which must exist, without drop-ins.
  public init(only file: String) {
    name = ""
    directories = []
    only = file
  }

  /// Reads and parses all existing files, in the order of increasing precedence.
  func read() -> [INIResult] {
    if let only { return [Self.read(only) ?? INIResult(file: only, failure: .missing)] }
    var results: [INIResult] = []
    for directory in directories {
      guard let main = Self.read("\(directory)/\(name)") else { continue }
      results.append(main)
      break
    }
    var dropIns: [String: String] = [:]
    for directory in directories.map({ "\($0)/\(name).d" }) {
      do throws(TextFile.Failure) {
        for name in try TextFile.names(in: directory) where name.hasSuffix(".conf") && !name.hasPrefix(".") {
          dropIns[name] = dropIns[name] ?? "\(directory)/\(name)"
        }
      } catch {
        results.append(INIResult(file: directory, failure: error))
      }
    }
    let ordered = dropIns.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    return results + ordered.compactMap { Self.read($0.value) }
  }

  /// Reads and parses one file; nil if the file does not exist.
  private static func read(_ path: String) -> INIResult? {
    do throws(TextFile.Failure) {
      return INIResult(file: path, content: INI(try TextFile.read(path), file: path))
    } catch {
      return error == .missing ? nil : INIResult(file: path, failure: error)
    }
  }
}

/// A file that exists: its content, or the reason why it cannot be read.
struct INIResult {
  let file: String
  private(set) var content: INI?
  private(set) var failure: TextFile.Failure?
}
