import Common
import Crypto
import DBus
import Foundation
import Loop
import TestSupport
import Testing

@testable import Mesh

@Suite("SIGKILL and Wipe of a mesh node")
struct MeshKillTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("After SIGKILL at random moments no acknowledged mesh message is lost or duplicated")
  @LoopActor
  func atRandomMoments() async throws {
    var random = SeededRandom(seed: 50)
    let mesh = try await MeshProcess()
    defer { mesh.close() }
    try await mesh.process.start()
    let id = try await mesh.id()
    let first = try mesh.neighbour.messages.tell(id, "before all")
    try await mesh.delivered(first)
    var (told, answered) = (0, 0)
    let rounds = Extent.of(3, all: 50)
    for round in 1...rounds {
      let (coming, going) = ("to the service \(round)", "from the service \(round)")
      let killed = mesh.kill(
        after: Int.random(in: 1...8, using: &random), pause: .microseconds(Int.random(in: 0...3000, using: &random)))
      let number = try mesh.neighbour.messages.tell(id, coming)
      let answer = try? await mesh.call("Tell", [.string(mesh.neighbour.node.ownID.description), .string(going)])
      _ = try await killed.next()
      let wasDelivered = mesh.state(of: number) == .delivered
      try await mesh.process.start()

      // Messages that either side has confirmed are there.
      let listed = try await mesh.listed()
      #expect(listed.count { $0 == coming } <= 1)
      if wasDelivered { #expect(listed.contains(coming), "round \(round): what was delivered is lost") }
      if answer != nil { #expect(listed.contains(going), "round \(round): what Tell has taken is lost") }
      told += wasDelivered ? 1 : 0
      answered += answer != nil ? 1 : 0

      // In the end every message arrives once.
      try await mesh.delivered(number)
      #expect(try await mesh.listed().count { $0 == coming } == 1, "round \(round)")
      if answer != nil { try await mesh.told(going) }
      #expect(mesh.copies(going) <= 1, "round \(round)")
    }
    if Extent.isWhole { #expect((5..<95).contains(told + answered), "no longer spread: \(told), \(answered)") }
  }

  @Test(
    "After Wipe the state directory contains no key, name or text, and the mesh node has a new identity")
  @LoopActor
  func wipe() async throws {
    let mesh = try await MeshProcess()
    defer { mesh.close() }
    try await mesh.process.start()
    let id = try await mesh.id()
    let number = try mesh.neighbour.messages.tell(id, "a secret that nobody else may read")
    try await mesh.delivered(number)
    _ = try await mesh.call("SetNickname", [.string("somebody with a name")])
    let before = try Self.files(in: mesh.process.directory).filter { $0.key.contains("/state/mesh/") }
    #expect(before.contains { $0.key.hasSuffix("mesh.db") && !$0.value.isEmpty })

    await #expect(throws: DBusError.self) { try await mesh.call("Wipe", [.string("yes")]) }
    _ = try await mesh.call("Wipe", [.string(id)])
    #expect(try await mesh.listed() == [])
    let other = try await mesh.id()
    #expect(other != id && other.count == 16)

    mesh.process.end()
    let after = try Self.files(in: mesh.process.directory)
    let keys = before.filter { $0.key.hasSuffix(".key") }
    try #require(!keys.isEmpty)
    for (name, bytes) in after {
      for text in ["a secret that nobody else may read", "somebody with a name", "neighbour", id] {
        #expect(!bytes.contains(text.utf8), "\(name) has \(text)")
      }
      // No part of the old key and the old database is left.
      for (_, key) in keys { #expect(!bytes.contains(key.suffix(32)), "\(name) has the old key") }
      for (_, old) in before where old.count > 64 && !Self.isPlain(old) {
        #expect(!bytes.contains(old.suffix(48)), "\(name) has a part of the old database")
      }
    }
  }

  /// Whether the end of a file has no information: zeros of a database's last page.
  private static func isPlain(_ bytes: [UInt8]) -> Bool { Set(bytes.suffix(48)).count < 8 }

  /// The content of all files of the service's state, by path.
  private static func files(in directory: URL) throws -> [String: [UInt8]] {
    let state = directory.appendingPathComponent("state")
    var files: [String: [UInt8]] = [:]
    let found = try #require(FileManager.default.enumerator(at: state, includingPropertiesForKeys: [.isRegularFileKey]))
    for case let url as URL in found {
      if try url.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile == true {
        files[url.path] = Array(try Data(contentsOf: url))
      }
    }
    return files
  }
}
