import Crypto
import TestSupport
import Testing

@testable import Store

@Suite("Atomic files")
struct AtomicFileTests {
  let fixture: Fixture
  let directory: any Directory

  init() throws {
    fixture = try Fixture()
    directory = try fixture.disk.openDirectory("/state")
  }

  func file(_ name: String = "notes", version: UInt16 = 3, limit: Int = 1000, key: SecretBytes? = nil) -> AtomicFile {
    AtomicFile(name, in: directory, version: version, limit: limit, key: key)
  }

  @Test(
    "Content written to an atomic file is read back, and a file that was never written is nil",
    arguments: [0, 1, 63, 999, 1000])
  func roundTrip(count: Int) throws {
    #expect(try file().read() == nil)
    let content = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    try file().write(content)
    let reading = try file().read()
    #expect(reading?.value == content)
    #expect(reading?.damage == nil)
    #expect(fixture.disk.names(in: "/state") == ["notes"])
  }

  @Test("Content above the size limit is neither written nor read")
  func limit() throws {
    let long = [UInt8](repeating: 7, count: 1001)
    #expect(caught(StoreError.self) { try file().write(long) }?.reason == .tooLarge)
    try file(limit: 1001).write(long)
    #expect(caught(StoreError.self) { try file().read() }?.reason == .tooLarge)
    #expect(try file(limit: 1001).read()?.value == long)
  }

  @Test(
    "Any flipped bit or missing byte in an atomic file is detected, and the previous generation is read",
    arguments: [nil, "key"])
  func fallback(keyText: String?) throws {
    let file = file(key: keyText.map { SecretBytes(copying: $0.utf8) })
    try file.write("old".utf8)
    try file.write("new".utf8)
    #expect(fixture.disk.names(in: "/state") == ["notes", "notes.previous"])
    let whole = try #require(fixture.disk.content("/state/notes"))
    let broken = brokenCopies(of: whole)
    for bytes in broken {
      fixture.disk.change("/state/notes") { $0.bytes = bytes }
      let reading = try file.read()
      #expect(reading?.value == Array("old".utf8))
      #expect(reading?.damage?.reason == .damaged)
    }
    fixture.disk.change("/state/notes.previous") { $0.bytes = [] }
    #expect(caught(StoreError.self) { try file.read() }?.reason == .damaged)
  }

  @Test("A damaged file does not replace an undamaged previous generation")
  func previousIsKept() throws {
    try file().write("one".utf8)
    try file().write("two".utf8)
    fixture.disk.change("/state/notes") { $0.bytes[20] ^= 1 }
    try file().write("three".utf8)
    fixture.disk.change("/state/notes") { $0.bytes = [] }
    #expect(try file().read()?.value == Array("one".utf8))
  }

  @Test("Content that the owner of an atomic file refuses counts as damaged")
  func damagedContent() throws {
    try file().write("good".utf8)
    try file().write("bad".utf8)
    let reading = try file().read { (version, content) throws(StoreError) in
      #expect(version == 3)
      if content.elementsEqual("bad".utf8) { throw .damaged("notes", "it is bad") }
      return content.count
    }
    #expect(reading?.value == 4)
    #expect(reading?.damage?.sentence == "notes is damaged: it is bad.")
  }

  @Test("An atomic file of a later format version is refused and preserved; an earlier version is read")
  func versions() throws {
    try file(version: 4).write("later".utf8)
    #expect(caught(StoreError.self) { try file(version: 3).read() }?.reason == .tooNew)
    #expect(try file(version: 5).read()?.value == Array("later".utf8))
    try file(version: 3).write("mine".utf8)
    #expect(try file(version: 4).read()?.value == Array("mine".utf8))
    fixture.disk.change("/state/notes") { $0.bytes = [] }
    #expect(try file(version: 4).read()?.value == Array("later".utf8))
  }

  @Test("An atomic file with another key or name, or without its key, counts as damaged")
  func authenticity() throws {
    let key = SecretBytes(copying: Array("right".utf8))
    try file().write("plain".utf8)
    #expect(caught(StoreError.self) { try file(key: key).read() }?.reason == .damaged)
    try file("other", key: SecretBytes(copying: Array("wrong".utf8))).write("wrong".utf8)
    #expect(caught(StoreError.self) { try file("other", key: key).read() }?.reason == .damaged)
    fixture.disk.move("/state/notes", to: "/state/elsewhere")
    #expect(caught(StoreError.self) { try file("elsewhere").read() }?.reason == .damaged)
  }

  @Test(
    "After a power loss an atomic file contains the last generation that was written, or the next",
    arguments: SimulatedDisk.Loss.all)
  func powerLoss(loss: SimulatedDisk.Loss) throws {
    let generations = ["", "first", "second, a longer one", "third"].map { Array($0.utf8) }
    let number = try Fixture.losingPower { fixture, number in
      let file = AtomicFile("notes", in: try fixture.disk.openDirectory("/state"), version: 1)
      fixture.disk.losePower(at: number)
      var written = 0
      let isThrough =
        caughtError { () throws(StoreError) in
          for generation in generations.dropFirst() {
            try file.write(generation)
            written += 1
          }
        } == nil
      fixture.disk.restart(loss)
      let after = AtomicFile("notes", in: try fixture.disk.openDirectory("/state"), version: 1)
      let read = try after.read()?.value ?? []
      #expect(generations[written...].prefix(2).contains(read), "call \(number)")
      // A later write succeeds, whichever temporary files the interrupted one has left.
      try after.write("fourth".utf8)
      #expect(try after.read()?.value == Array("fourth".utf8))
      #expect(!fixture.disk.names(in: "/state").contains("notes.new"))
      return isThrough
    }
    #expect(number > 20)
  }

  @Test(
    "After any failing call on a full, broken or read-only disk an atomic file is readable",
    arguments: [28, 5, 30] as [Int32])
  func failures(errno: Int32) throws {
    var number = 0
    var failed = true
    while failed {
      number += 1
      let fixture = try Fixture()
      let file = AtomicFile("notes", in: try fixture.disk.openDirectory("/state"), version: 1)
      try file.write("old".utf8)
      let nth = fixture.disk.calls + number
      fixture.disk.fail { $0.number == nth ? errno : nil }
      let error = caughtError { () throws(StoreError) in try file.write("new".utf8) }
      failed = fixture.disk.calls >= nth
      fixture.disk.fail(nil)
      let read = try file.read()?.value
      #expect(error == nil ? read == Array("new".utf8) : [Array("old".utf8), Array("new".utf8)].contains(read))
    }
    #expect(number > 8)
  }

  @Test("10,000 random and mutated inputs are refused as atomic files")
  func anything() throws {
    var random = SeededRandom(seed: 11)
    let envelope = Envelope(name: "notes", key: nil)
    let whole = envelope.seal(Array("content".utf8), version: 1)
    for round in 0..<10_000 {
      var bytes = round.isMultiple(of: 2) ? whole : random.bytes(Int.random(in: 0..<80, using: &random))
      if round % 4 == 1 { bytes = Array(whole.prefix(10)) + bytes }
      if round.isMultiple(of: 2) {
        let index = Int.random(in: 0..<bytes.count, using: &random)
        bytes[index] ^= UInt8.random(in: 1...255, using: &random)
      }
      #expect(throws: (any Error).self) { try envelope.open(bytes) }
    }
    #expect(try envelope.open(whole).content.elementsEqual("content".utf8))
  }
}
