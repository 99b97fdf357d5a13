import Bitchat
import Loop
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("Files that the mesh's keeper keeps")
struct KeptFilesTests {
  init() { EventLoop.shared.runInBackground() }

  private static let secret = Array("the content of a file that nobody shall read".utf8)

  static func file(_ number: UInt32, size: Int = 44, at time: UInt64 = Sample.time) -> MeshFile {
    MeshFile(
      number: number, time: time, sender: Sample.peer(1), nickname: Sample.secretName, name: "lighthouse.png",
      mime: "image/png", size: size, packet: nil, place: UInt64(number) << 32 | 7)
  }

  static func publicFile(_ number: UInt32) throws -> MeshFile {
    var file = file(number, size: 1 << 20)
    (file.packet, file.name, file.nickname) = (try Sample.gossip().id, "", "")
    return file
  }

  @Test(
    "A file is said to be kept when content and description are on the disk; a disk that refuses either keeps nothing")
  @LoopActor
  func kept() {
    let stand = MeshKeeperTests.Stand()
    var answers: [String] = []
    stand.keeper.keep(Self.file(1), content: Self.secret) { answers.append($0?.code ?? "kept") }
    #expect(answers.isEmpty)
    stand.work()
    stand.work()
    #expect(answers == ["kept"] && stand.disk.state.withLock { $0.files.count } == 1)
    stand.disk.refuse(MeshKeeperTests.full)
    stand.keeper.keep(Self.file(2), content: Self.secret) { answers.append($0?.code ?? "kept") }
    stand.work()
    stand.work()
    #expect(answers == ["kept", "DiskFull"])
    var content: [UInt8]?
    stand.keeper.content(of: Self.file(1)) { content = try? $0.get() }
    stand.work()
    #expect(content == Self.secret)
    stand.keep("gone", .fileGone(1))
    stand.work()
    #expect(stand.answers == ["gone: kept"] && stand.disk.state.withLock { $0.files.isEmpty })
  }

  @Test("Of files that take too much together, or are too old, the oldest go, and their contents with them")
  @LoopActor
  func limits() {
    let stand = MeshKeeperTests.Stand()
    var removed: [UInt32] = []
    stand.keeper.onFilesRemoved = { removed += $0 }
    stand.keeper.settings.fileBytes = 3 << 20
    for number in 1...5 as ClosedRange<UInt32> {
      let file = Self.file(number, size: 1 << 20, at: Sample.time + UInt64(number) * 1000)
      stand.keeper.keep(file, content: [UInt8](repeating: 1, count: 1 << 20)) { _ in }
      stand.work()
      stand.work()
    }
    #expect(removed == [1, 2])
    #expect(stand.disk.state.withLock { $0.files.keys.map { $0 >> 32 }.sorted() } == [3, 4, 5])
    stand.keeper.settings.filesFor = .seconds(3600)
    stand.keeper.age(at: Sample.time + 3_600_000 + 3500)
    stand.work()
    #expect(removed == [1, 2, 3])
    stand.keeper.settings.fileBytes = 1 << 20
    stand.work()
    #expect(removed == [1, 2, 3, 4])
    #expect(stand.disk.state.withLock { $0.files.keys.map { $0 >> 32 } } == [5])
    var answer: String?
    stand.keeper.keep(Self.file(9, size: 1 << 20), content: [UInt8](repeating: 1, count: (1 << 20) + 1)) {
      answer = $0?.code
    }
    stand.work()
    #expect(answer == "TooLarge")
  }

  /// Two files with rows and one without; what is where another one belongs cannot be read.
  private func fill(_ stand: MeshFilesTests) throws {
    let files = stand.files()
    var loading = try stand.load(files)
    for number in 1...3 as ClosedRange<UInt32> { try files.write(Self.secret, to: Self.file(number).place) }
    var writes = MeshWrites()
    for number in [1, 2] as [UInt32] {
      writes.add(try loading.ledger.apply(.file(Self.file(number)), at: Sample.time))
    }
    try files.commit(writes)
    #expect(try files.read(Self.file(1).place) == Self.secret)
    for (name, bytes) in try stand.folder.files() {
      #expect(!contains(bytes, Array(Self.secret.prefix(16))) && !contains(bytes, Array("lighthouse".utf8)), "\(name)")
    }
    let names = try stand.folder.files().keys.filter { $0.contains("file-") }.sorted()
    try stand.folder.write(stand.folder.read(names[1]), to: names[0])
    #expect(throws: StoreError.self) { try files.read(Self.file(1).place) }
  }

  @Test(
    "On the disk a file is sealed and bound to its place; what has no row, and rows whose content is gone, go at the next start"
  )
  func sealed() throws {
    let stand = try MeshFilesTests()
    try fill(stand)
    let names = try stand.folder.files().keys.filter { $0.contains("file-") }.sorted()
    #expect(names.count == 3)
    try stand.folder.remove(names[1])
    let again = stand.files()
    let next = try stand.load(again)
    #expect(next.kept.files.map(\.number) == [1] && next.kept.lost == 1)
    try again.commit(next.writes)
    #expect(try stand.folder.files().keys.filter { $0.contains("file-") } == [names[0]])
    _ = try again.wipe()
    #expect(try stand.folder.files().isEmpty)
  }

  @Test("Without a disk files are in memory, 8 MiB of them at most")
  @LoopActor
  func memory() {
    let clock = HandClock()
    let keeper = MeshKeeper(NoDisk(), scheduler: clock, worker: clock, clock: SetClock())
    keeper.open { _ in }
    clock.run()
    #expect(keeper.ledger.fileBytes == 8 << 20)
    var content: [UInt8]?
    keeper.keep(Self.file(1), content: Self.secret) { _ in }
    clock.run()
    keeper.content(of: Self.file(1)) { content = try? $0.get() }
    clock.run()
    #expect(content == Self.secret)
  }
}
