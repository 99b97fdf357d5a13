import Foundation
import TestSupport
import Testing

@testable import Tool

@Suite("Files written by the tool")
final class FilePlaceTests {
  let folder: String

  init() throws {
    let made = FileManager.default.temporaryDirectory.appendingPathComponent("place-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: made, withIntermediateDirectories: true)
    folder = made.resolvingSymlinksInPath().path
  }

  deinit {
    try? FileManager.default.removeItem(atPath: folder)
  }

  private var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted() }

  private func mode(_ name: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: "\(folder)/\(name)")[.posixPermissions] as? Int
  }

  @Test("The tool syncs an output file before it renames it, and then syncs its folder", arguments: [true, false])
  func synced(isForMany: Bool) throws {
    try Data("old".utf8).write(to: URL(fileURLWithPath: "\(folder)/kept"))
    let place = try FilePlace(isForMany ? "\(folder)/vc-{}.txt" : "\(folder)/kept")
    var path = ""
    let synced = try SyncCalls.during { path = try place.keep(Array("new".utf8), as: "one") }
    #expect(path == (isForMany ? "\(folder)/vc-one.txt" : "\(folder)/kept"))
    #expect(synced.count == 2 && synced.first?.hasPrefix("\(folder)/.earshot-") == true && synced.last == folder)
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "new")
    #expect(try mode(isForMany ? "vc-one.txt" : "kept") == 0o600)
    #expect(names == (isForMany ? ["kept", "vc-one.txt"] : ["kept"]))
  }

  @Test(
    "If syncing an output file fails, the tool's command fails and leaves no file", arguments: [0, 1])
  func refused(call: Int) throws {
    let place = try FilePlace(folder + "/")
    let refused: @Sendable (String) -> Int32? = { [folder] in ($0 == folder) == (call == 1) ? EIO : nil }
    var error: Failure?
    let synced = SyncCalls.during(refusing: refused) {
      do throws(Failure) { _ = try place.keep([1], as: "one") } catch let failure { error = failure }
    }
    #expect(synced.count == call + 1)
    #expect(error?.code == .notWritten)
    #expect(names == [])
  }

  @Test("Items with equal names are written to different files, and no file is overwritten")
  func sameName() throws {
    let place = try FilePlace(folder)
    let paths = try (1...3).map { try place.keep([UInt8($0)], as: "one") }
    #expect(paths == ["one", "one-2", "one-3"].map { "\(folder)/\($0)" })
    let contents = try paths.map { try Data(contentsOf: URL(fileURLWithPath: $0)) }
    #expect(contents == [Data([1]), Data([2]), Data([3])])
  }
}
