import CommandLine
import DBus
import Foundation
import Loop
import MeshViews
import TestSupport
import Testing

@testable import MeshCommands
@testable import Tool

@Suite("`earshot mesh` commands for files", .serialized)
struct FileCommandTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("`mesh send` waits until the file is sent or has failed")
  @LoopActor
  func sending() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    let folder = try ScratchFolder()
    try folder.write([7, 8, 9], to: "notes.bin")
    stand.fileStates = ["waiting", "sending", "sent"]
    let call = await stand.run("send", folder.path("notes.bin"))
    #expect(call == ToolCall(.ok, "notes.bin (1.2 KiB) was sent to everybody.\n"))
    #expect(stand.sentContent == [7, 8, 9])
    #expect(stand.calls.last?.hasSuffix("notes.bin  ") == true, "\(stand.calls)")
    stand.fileStates = ["failed"]
    let failed = await stand.run("send", folder.path("notes.bin"), "alice")
    #expect(failed.code == .failed && failed.failure == "Why.")
  }

  @Test("`mesh send` needs --large for a file too long for Android, and refuses one too long for all peers")
  @LoopActor
  func large() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    let folder = try ScratchFolder()
    try folder.write([UInt8](repeating: 1, count: 110_000), to: "small")
    try folder.write([UInt8](repeating: 1, count: 121_000), to: "large")
    try folder.write([UInt8](repeating: 1, count: (1 << 20) + 1), to: "huge")
    #expect(await stand.run("send", folder.path("small")).code == .ok)
    let calls = stand.calls.count
    let refused = await stand.run("send", folder.path("large"))
    #expect(refused.code == .usage && refused.failure?.contains("--large") == true)
    #expect(refused.failure?.contains("more than about 119 kB. ") == true)
    #expect(await stand.run("send", "--large", folder.path("huge")).code == .failed)
    #expect(stand.calls.count == calls)
    #expect(await stand.run("send", "--large", folder.path("large")).code == .ok)
    // The service reports the fragment size of its links.
    stand.sliceBytes = 140
    try folder.write([UInt8](repeating: 1, count: 35_341), to: "narrow")
    let narrow = await stand.run("send", folder.path("narrow"))
    #expect(narrow.code == .usage && narrow.failure?.contains("more than about 35 kB while a neighbour") == true)
    #expect(await stand.run("send", "--large", folder.path("narrow")).code == .ok)
    #expect(await stand.run("send", folder.path("narrow"), "alice").code == .ok, "it is cut for one link")
    let flooded = await stand.run("send", folder.path("narrow"), MeshStand.bob)
    #expect(
      flooded.failure?.contains("about 35 kB while a neighbour") == true, "to all neighbours, if there is no route")
    try folder.write([UInt8](repeating: 1, count: 35_340), to: "narrow")
    #expect(await stand.run("send", folder.path("narrow")).code == .ok)
    #expect(await stand.run("send", folder.path("narrow"), MeshStand.bob).code == .ok)
    // With a route over two hops a fragment holds less: 256 of 439 bytes, with the file's headers.
    stand.sliceBytes = 466
    try folder.write([UInt8](repeating: 1, count: 111_885), to: "routed")
    let routed = await stand.run("send", folder.path("routed"), MeshStand.bob)
    #expect(routed.code == .usage && routed.failure?.contains("about 112 kB over several hops") == true)
    #expect(await stand.run("send", folder.path("routed"), "alice").code == .ok)
    try folder.write([UInt8](repeating: 1, count: 111_884), to: "routed")
    #expect(await stand.run("send", folder.path("routed"), MeshStand.bob).code == .ok)
    #expect(await stand.run("send", folder.path("")).code == .usage)
    #expect(await stand.run("send", folder.path("none")).code == .failed)
  }

  @Test("`mesh files` lists with safe names, saves without overwriting, cancels and deletes")
  @LoopActor
  func files() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    #expect(await stand.run("files") == ToolCall(.ok, "There are no files.\n"))
    stand.addFile(3, isIncoming: true)
    stand.addFile(4, isIncoming: false)
    let list = await stand.run("files")
    #expect(list.code == .ok && list.output.contains("pic\u{FFFD}.png") && !list.output.contains("\u{1B}"))
    #expect(list.output.contains("alice") && list.output.contains("1.2 KiB"))
    let folder = try ScratchFolder()
    for name in ["pic\u{1B}.png", "pic\u{1B}.png-2"] {
      #expect(await stand.run("files", "--save", "3", "-o", folder.path("")).code == .ok)
      #expect(try folder.read(name) == [1, 2, 3])
    }
    #expect(await stand.run("files", "--cancel", "4").code == .ok)
    #expect(await stand.run("files", "--delete", "3").code == .ok)
    #expect(stand.calls.suffix(2) == ["Cancel", "Delete"])
    #expect(await stand.run("files", "--delete", "77").code == .failed)
    #expect(await stand.run("files", "--delete", "3", "--cancel", "4").code == .usage)
    #expect(await stand.run("files", "--output", "x").code == .usage)
  }

  @Test("In a folder that is not writable `mesh files --save` fails, and `mesh files` alone does not")
  @LoopActor
  func folderThatTakesNothing() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.addFile(3, isIncoming: true)
    stand.addFile(4, isIncoming: false)
    // Root may write despite permissions, but not into a folder that was removed.
    let before = FileManager.default.currentDirectoryPath
    defer { #expect(FileManager.default.changeCurrentDirectoryPath(before)) }
    let folder = try ScratchFolder()
    #expect(FileManager.default.changeCurrentDirectoryPath(folder.path))
    try FileManager.default.removeItem(atPath: folder.path)
    #expect(await stand.run("files").output.contains("alice"))
    #expect(await stand.run("files", "--json").code == .ok)
    #expect(await stand.run("files", "--cancel", "4").code == .ok)
    #expect(await stand.run("files", "--save", "3").code == .notWritten)
    #expect(await stand.run("files", "--delete", "3").code == .ok)
    #expect(stand.calls == ["Cancel", "Delete"])
  }

  @Test("`mesh ping` prints the round-trip time and the number of hops")
  @LoopActor
  func ping() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    #expect(await stand.run("ping", "alice") == ToolCall(.ok, "<alice> answered after 42 ms, over 2 hops.\n"))
    #expect(stand.calls == ["Ping \(MeshStand.alice)"])
    #expect(await stand.run("ping").code == .usage)
  }
}
