import Foundation
import Testing

@testable import Config

@Suite struct ConfigurationFilesTests {
  /// A tree of directories that is deleted after the test.
  private final class Tree {
    let root = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-config-\(UUID().uuidString)").path

    init() throws {
      try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    var files: ConfigurationFiles {
      ConfigurationFiles(name: "e.conf", directories: ["\(root)/etc", "\(root)/run", "\(root)/usr"])
    }

    func write(_ path: String, _ text: String) throws {
      let whole = "\(root)/\(path)"
      let directory = (whole as NSString).deletingLastPathComponent
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      try Data(text.utf8).write(to: URL(fileURLWithPath: whole))
    }
  }

  @Test("Without configuration files the defaults apply, and nothing is reported")
  func nothing() throws {
    let loaded = Samples.defaults.load(from: try Tree().files)
    #expect(loaded.configuration.isSame(as: Samples.defaults))
    #expect(loaded.complaints == [] && loaded.files == [])
  }

  @Test("The main file is read first, then drop-ins by name, and /etc overrides /run and /usr/lib")
  func order() throws {
    let tree = try Tree()
    try tree.write("usr/e.conf", "[Shop]\nName=vendor\n")
    try tree.write("etc/e.conf", "[Shop]\nName=admin\nKept=1\n")
    try tree.write("usr/e.conf.d/50-b.conf", "[Shop]\nName=usr-b\nKept=2\n")
    try tree.write("run/e.conf.d/50-b.conf", "[Shop]\nName=run-b\n")
    try tree.write("etc/e.conf.d/40-a.conf", "[Shop]\nName=etc-a\n")
    try tree.write("usr/e.conf.d/60-c.conf", "[Sign]\nColour=green\n")
    try tree.write("usr/e.conf.d/70-d.conf~", "[Shop]\nName=backup\n")
    try tree.write("usr/e.conf.d/.hidden.conf", "[Shop]\nName=hidden\n")
    let loaded = Samples.defaults.load(from: tree.files)
    #expect(
      loaded.files.map { $0.dropFirst(tree.root.count) } == [
        "/etc/e.conf", "/etc/e.conf.d/40-a.conf", "/run/e.conf.d/50-b.conf", "/usr/e.conf.d/60-c.conf",
      ])
    #expect(loaded.configuration[Samples.Shop.self].name == "run-b")
    #expect(loaded.configuration[Samples.Shop.self].kept == 1)
    #expect(loaded.configuration[Samples.Sign.self].colour == .green)
    #expect(loaded.complaints == [])
  }

  @Test("A configuration key that is set repeatedly in a file is reported with its lines and the value in force")
  func repeated() throws {
    let tree = try Tree()
    let text =
      "[Shop]\nName=a\nX-Note=1\nX-Note=2\n[Sign]\nColour=green\n[Shop]\nName=b\nKept=3\nKept=many\nName=c\n"
    try tree.write("etc/e.conf", text)
    try tree.write("etc/e.conf.d/1.conf", "[Shop]\nKept=5\n")
    let loaded = Samples.defaults.load(from: tree.files)
    let complaints = loaded.complaints.map { String($0.description.dropFirst(tree.root.count)) }
    let expected = [
      "/etc/e.conf:10: Kept=many is not a number from 1 to 1000. Its value stays 3.",
      "/etc/e.conf:10: Kept= of section [Shop] is set more than once, on lines 9 and 10. The last valid value applies: "
        + "3.",
      "/etc/e.conf:11: Name= of section [Shop] is set more than once, on lines 2, 8 and 11. "
        + "The last valid value applies: c.",
    ]
    #expect(complaints == expected)
    // A second file may override a key on purpose.
    #expect(loaded.configuration[Samples.Shop.self].kept == 5)
  }

  @Test("A symbolic link to /dev/null masks a drop-in of the vendor")
  func masking() throws {
    let tree = try Tree()
    try tree.write("usr/e.conf.d/50.conf", "[Shop]\nName=vendor\n")
    try tree.write("etc/e.conf.d/other.conf", "")
    try FileManager.default.createSymbolicLink(
      atPath: "\(tree.root)/etc/e.conf.d/50.conf", withDestinationPath: "/dev/null")
    let loaded = Samples.defaults.load(from: tree.files)
    #expect(loaded.configuration.isSame(as: Samples.defaults))
    #expect(loaded.complaints == [])
  }

  @Test(
    "A configuration file that is too large, missing, a pipe or a directory is reported without waiting")
  func unreadable() throws {
    let tree = try Tree()
    let limit = TextFile.limit
    try tree.write("etc/e.conf", String(repeating: "#", count: limit + 1))
    try tree.write("etc/e.conf.d/1.conf", String(repeating: "#", count: limit))
    try #require(mkfifo("\(tree.root)/etc/e.conf.d/2.conf", 0o600) == 0)
    try tree.write("etc/e.conf.d/3.conf/file", "")
    let loaded = Samples.defaults.load(from: tree.files)
    let cautious = "In force until this file can be read, so that nothing is erased by mistake: Shop.Throw=2h."
    #expect(
      loaded.complaints.map { $0.description.dropFirst(tree.root.count) } == [
        "/etc/e.conf: This file is larger than 1M.",
        "/etc/e.conf.d/2.conf: This file is not a regular file.",
        "/etc/e.conf.d/3.conf: This file is not a regular file.",
        "/etc/e.conf: \(cautious)",
      ])
    #expect(loaded.files.count == 1)
    let missing = Samples.defaults.load(from: ConfigurationFiles(only: "\(tree.root)/none"))
    #expect(
      missing.complaints.map(\.description) == [
        "\(tree.root)/none: This file does not exist.", "\(tree.root)/none: \(cautious)",
      ])
  }

  @Test("A single configuration file is read without the drop-ins beside it")
  func only() throws {
    let tree = try Tree()
    try tree.write("etc/e.conf", "[Shop]\nName=main\n")
    try tree.write("etc/e.conf.d/1.conf", "[Shop]\nName=drop-in\n")
    let loaded = Samples.defaults.load(from: ConfigurationFiles(only: "\(tree.root)/etc/e.conf"))
    #expect(loaded.configuration[Samples.Shop.self].name == "main")
  }
}
