import BitchatWire
import Loop
import Store
import TestSupport
import Testing

@testable import MeshStore

@Suite("Files in the mesh store")
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

  static func privateFile(_ number: UInt32) throws -> MeshFile {
    var file = file(number)
    file.receipt = try MessageID("FILE-\(number)")
    return file
  }

  @Test(
    "A file is stored when its content and its row are on the disk, and not at all if either fails")
  @LoopActor
  func kept() {
    let stand = NodeStoreTests.Stand()
    var answers: [String] = []
    stand.keeper.keep(Self.file(1), content: Self.secret) { answers.append($0?.code ?? "kept") }
    #expect(answers.isEmpty)
    stand.work()
    stand.work()
    #expect(answers == ["kept"] && stand.disk.state.withLock { $0.files.count } == 1)
    stand.disk.refuse(NodeStoreTests.full)
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

  @Test("Mesh files above the total size or the age limit are removed with their contents, the oldest first")
  @LoopActor
  func limits() {
    let stand = NodeStoreTests.Stand()
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

  @Test("Public files are evicted before private ones, favourites' last, and greedy senders' first")
  @LoopActor
  func dearness() throws {
    let stand = NodeStoreTests.Stand()
    var removed: [UInt32] = []
    stand.keeper.onFilesRemoved = { removed += $0 }
    stand.keeper.settings.fileBytes = 8 << 20
    var friend = PeerMarks(peer: Sample.peer(2), seenAt: 1)
    friend.isFavourite = true
    stand.keep("friend", .peer(friend))
    func keep(_ number: UInt32, of sender: UInt64, isPublic: Bool) throws -> String? {
      var file = Self.file(number, size: 1 << 20)
      file.sender = Sample.peer(sender)
      if isPublic { file.packet = try Sample.gossip("\(number)").id }
      var answer: String?
      stand.keeper.keep(file, content: Self.secret) { answer = $0?.code ?? "kept" }
      for _ in 0..<3 { stand.work() }
      return answer
    }
    for (number, sender, isPublic) in [(1, 2, true), (2, 2, true), (3, 1, false), (4, 5, true)]
      as [(UInt32, UInt64, Bool)]
    {
      #expect(try keep(number, of: sender, isPublic: isPublic) == "kept")
    }
    // Public files of many strangers evict each other, and no other files.
    for number in 10..<18 as Range<UInt32> {
      #expect(try keep(number, of: UInt64(number), isPublic: true) == "kept")
    }
    #expect(removed == [4, 10, 11, 12])
    // Files of a sender with more than a quarter of the capacity are evicted first.
    for number in 20..<23 as Range<UInt32> { _ = try keep(number, of: 17, isPublic: true) }
    #expect(removed == [4, 10, 11, 12, 13, 17, 20])
    // Private files evict public ones. Where only files of higher value are left, the new file is refused.
    for number in 30..<36 as Range<UInt32> { _ = try keep(number, of: UInt64(number), isPublic: false) }
    #expect(Set(removed).isDisjoint(with: [1, 2]))
    #expect(try keep(40, of: 40, isPublic: true) == "TooLarge")
    let places = stand.disk.state.withLock { Set($0.files.keys.map { $0 >> 32 }) }
    #expect(places.count == 8 && places.isSuperset(of: [1, 2]) && !places.contains(40))
  }

  @Test("At a start file contents without rows, rows without contents and unreadable rows are removed")
  @LoopActor
  func leftovers() {
    let stand = NodeStoreTests.Stand()
    for number in 1...2 as ClosedRange<UInt32> {
      stand.keeper.keep(Self.file(number), content: Self.secret) { _ in }
      stand.work()
      stand.work()
    }
    let again = NodeStoreTests.Stand(opens: false)
    var found = stand.disk.state.withLock { $0 }
    found.files[Self.file(2).place] = nil
    found.files[99] = Self.secret
    found.rows[1000] = MeshRow(id: 1000, time: 1, content: [0xFF, 0xFF])
    again.disk.state.withLock { [found] in ($0.files, $0.rows) = (found.files, found.rows) }
    again.open()
    again.work()
    #expect(again.kept?.files.map(\.number) == [1] && again.kept?.lost == 2)
    #expect(again.disk.state.withLock { Array($0.files.keys) } == [Self.file(1).place])
    #expect(again.disk.count == 3, "identity, number and the file")
  }

  @Test("A file whose row could not be written does not reappear, and its content is erased")
  @LoopActor
  func takenBack() {
    let stand = NodeStoreTests.Stand()
    var answers: [String] = []
    stand.keeper.keep(Self.file(1), content: Self.secret) { answers.append($0?.code ?? "kept") }
    // The content is written, the description is not.
    stand.worker.release()
    stand.disk.refuse(NodeStoreTests.full)
    stand.clock.run()
    stand.work()
    #expect(answers == ["DiskFull"] && stand.keeper.trouble != nil)
    stand.clock.advance(by: .seconds(61))
    stand.work()
    stand.work()
    #expect(stand.keeper.trouble == nil)
    #expect(!stand.keeper.ledger.has(.file(1), on: .files) && stand.disk.state.withLock { $0.files.isEmpty })
    let rows = stand.disk.state.withLock { $0.rows.values.compactMap { $0.content?[1] } }
    #expect(!rows.contains(20))
  }

  @Test("While commits fail, repeated attempts leave no file contents behind, and stored files stay")
  @LoopActor
  func commitsFail() {
    let stand = NodeStoreTests.Stand()
    stand.keeper.keep(Self.file(1), content: Self.secret) { _ in }
    for _ in 0..<3 { stand.work() }
    let places = { stand.disk.state.withLock { Set($0.files.keys) } }
    #expect(places() == [Self.file(1).place])
    stand.disk.refusesCommits = true
    for number in 2...9 as ClosedRange<UInt32> {
      var answer: String?
      stand.keeper.keep(Self.file(number), content: Self.secret) { answer = $0?.code ?? "kept" }
      for _ in 0..<4 { stand.work() }
      #expect(answer == "DiskFull" && places() == [Self.file(1).place], "try \(number)")
    }
    stand.disk.refusesCommits = false
    stand.clock.advance(by: .seconds(61))
    for _ in 0..<3 { stand.work() }
    #expect(stand.keeper.trouble == nil && places() == [Self.file(1).place] && stand.disk.count == 3)
  }

  @Test("A failure to write file contents is reported")
  @LoopActor
  func contentRefused() {
    let stand = NodeStoreTests.Stand()
    stand.disk.refuse(NodeStoreTests.full)
    var answer: String?
    stand.keeper.keep(Self.file(1), content: Self.secret) { answer = $0?.code }
    stand.work()
    #expect(answer == "DiskFull" && stand.keeper.trouble != nil)
  }

  /// Stores two files with rows and one without; an unreadable entry occupies the path of another.
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
    "The content of a stored file is sealed with its row's key and cannot be exchanged between rows"
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

  @Test("Without a disk at most 8 MiB of mesh files are held in memory")
  @LoopActor
  func memory() {
    let clock = HandClock()
    let keeper = NodeStore(NoDisk(), scheduler: clock, worker: clock, clock: Sample.clock)
    keeper.open { _ in }
    clock.run()
    #expect(keeper.ledger.fileBytes == 8 << 20)
    var content: [UInt8]?
    keeper.keep(Self.file(1), content: Self.secret) { _ in }
    clock.run()
    keeper.content(of: Self.file(1)) { content = try? $0.get() }
    clock.run()
    #expect(content == Self.secret)
    keeper.settings.fileBytes = 64 << 20
    clock.run()
    #expect(keeper.ledger.fileBytes == 8 << 20)
  }
}
