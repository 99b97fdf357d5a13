import ASN
import ASNSupport
import Common
import Foundation
import Store
import TestSupport
import Testing

@testable import SocialStore

@Suite("The blob store after a power loss or SIGKILL")
struct StorePowerLossTests {
  /// The blobs and commits of a run until it ended.
  private struct Run: Sendable {
    var blobs: [Blob] = []
    /// The blobs after the last commit that returned, and those after a commit that began later.
    var committed: Set<Sum> = []
    var next: Set<Sum>?

    mutating func commit(_ store: SQLiteBlobStore, _ changes: [StoreChange], note: (Run) -> Void = { _ in }) throws {
      var after = committed
      for change in changes {
        switch change {
        case .insert(let blob):
          blobs.append(blob)
          after.insert(blob.sum)
        case .purge(let sum): after.remove(sum)
        default: break
        }
      }
      next = after
      note(self)
      try store.apply(changes)
      try store.commit()
      (committed, next) = (after, nil)
      note(self)
    }

    /// Checks the contents of a store that is opened after the end of the run.
    func check(_ store: SQLiteBlobStore, files: Set<String>?, _ comment: Comment) throws {
      var there: Set<Sum> = []
      for blob in blobs {
        guard let found = try store.blob(blob.sum) else { continue }
        #expect(found == blob, comment)
        there.insert(blob.sum)
      }
      #expect(there == committed || there == next, comment)
      #expect(store.missingFiles == 0, comment)
      let large = Set(blobs.filter { $0.bytes.count > BlobFiles.threshold && there.contains($0.sum) }.map(\.sum.hex))
      if let files { #expect(files == large, comment) }
      #expect(try store.usage().blobs == there.count, comment)
    }
  }

  /// Two large blobs come, one goes, and it comes back with a third. Each commit may be the last.
  private static func go(_ store: SQLiteBlobStore, _ run: inout Run, note: (Run) -> Void = { _ in }) throws {
    let blobs = try (0..<3).map { try StoreStand.large($0) }
    let small = try Contract.blob("small")
    try run.commit(store, [.insert(blobs[0]), .insert(small)], note: note)
    try run.commit(store, [.insert(blobs[1]), .link(Contract.link(blobs[1], "a"))], note: note)
    try run.commit(store, [.purge(blobs[0].sum)], note: note)
    try run.commit(store, [.insert(blobs[2]), .insert(blobs[0]), .purge(small.sum)], note: note)
    try run.commit(store, [.purge(blobs[0].sum), .purge(blobs[1].sum)], note: note)
  }

  @Test("A power loss at any system call leaves the committed changes, and no partial change")
  func everyCall() throws {
    var number = 1
    var isThrough = false
    while !isThrough {
      for loss in SimulatedDisk.Loss.all.prefix(6) {
        let folder = try ScratchFolder()
        try folder.write([], to: "db")
        let disk = SimulatedDisk()
        disk.placeDirectory("/blobs")
        var run = Run()
        isThrough = false
        do {
          disk.losePower(at: number)
          let store = try SQLiteBlobStore(path: folder.path("db"), files: disk.openDirectory("/blobs"))
          try Self.go(store, &run)
          isThrough = disk.calls < number
          store.close()
        } catch is ASN.StoreError {
        } catch is Store.StoreError {
        }
        disk.restart(loss)
        let store = try SQLiteBlobStore(path: folder.path("db"), files: disk.openDirectory("/blobs"))
        let files = Set(
          disk.names(in: "/blobs").flatMap { folder in disk.names(in: "/blobs/\(folder)").map { folder + $0 } })
        try run.check(store, files: files, "call \(number), \(loss)")
        store.close()
      }
      number += 1
    }
    #expect(number > 30)
  }

  /// The contents of the disk at a moment, and the changes that were acknowledged before it.
  private struct Moment: Sendable {
    let folder: ScratchFolder
    let run: Run
  }

  /// Copies the state directory before each sync of `body`: a process that is killed there leaves this copy.
  private static func moments(
    _ stand: StoreStand, _ run: @escaping @Sendable () -> Run, _ body: () throws -> Void
  ) throws -> [Moment] {
    let moments = Locked<[Moment]>([])
    let path = stand.folder.path
    _ = try SyncCalls.during(
      includingData: true,
      refusing: { synced in
        guard synced.hasPrefix(path), let copy = try? ScratchFolder() else { return nil }
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] {
          try? FileManager.default.copyItem(atPath: "\(path)/\(name)", toPath: copy.path(name))
        }
        moments.withLock { $0.append(Moment(folder: copy, run: run())) }
        return nil
      }, body)
    return moments.withLock { $0 }
  }

  @Test("After SIGKILL acknowledged stores and collections are effective, and each blob is complete or absent")
  func killed() throws {
    let stand = try StoreStand()
    let store = try stand.open()
    let current = Locked(Run())
    var run = Run()
    let now: @Sendable () -> Run = { current.withLock { $0 } }
    let moments = try Self.moments(stand, now) {
      for _ in 0..<4 {
        try Self.go(store, &run) { now in current.withLock { $0 = now } }
        let rest = run.committed.sorted()
        try run.commit(store, rest.map { .purge($0) }) { now in current.withLock { $0 = now } }
      }
    }
    store.close()
    #expect(moments.count >= 50)
    for (number, moment) in moments.enumerated() {
      let left = StoreStand(moment.folder)
      let store = try left.open()
      try moment.run.check(store, files: left.files, "moment \(number)")
      store.close()
    }
  }

  @Test("An import ended by SIGKILL leaves complete blobs, and can be repeated")
  func killedImport() throws {
    let source = try StoreStand()
    let store = try source.open()
    let blobs = try (0..<6).map { try StoreStand.large($0, name: "n\($0)", octets: 1_000_000) }
    try store.apply(blobs.flatMap { blob in [.insert(blob), .link(try Contract.link(blob, "n\(blob.header.epoch)"))] })
    try store.commit()
    let tree = try ScratchFolder()
    _ = try StoreExport.write(store, to: tree.path("tree"))
    let stand = try StoreStand()
    let target = try stand.open()
    let none: @Sendable () -> Run = { Run() }
    let moments = try Self.moments(stand, none) {
      _ = try StoreImport.read(from: tree.path("tree"), into: target)
    }
    target.close()
    #expect(moments.count > 10)
    for moment in moments {
      let left = try StoreStand(moment.folder).open()
      for blob in blobs { if let found = try left.blob(blob.sum) { #expect(found == blob) } }
      _ = try StoreImport.read(from: tree.path("tree"), into: left)
      #expect(try blobs.allSatisfy { try left.blob($0.sum) == $0 })
      #expect(try left.linkCount(Contract.key(1)) == 6)
      left.close()
    }
  }
}
