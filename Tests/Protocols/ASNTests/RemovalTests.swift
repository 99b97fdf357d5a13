import Bytes
import Common
import Crypto
import TestSupport
import Testing

@testable import ASN

@Suite("Removals, reversals and gc")
struct RemovalTests {
  let keys = Vectors.shared.keys

  private func result(_ world: SocialWorld, _ id: SessionID, _ arguments: String...) throws -> ResultCode {
    let before = world.peers[id]?.answers.count ?? 0
    try world.client(id) { (client) throws(ClientError) in try client.exec(Command(arguments)).actions }
    let answers = world.peers[id]?.answers ?? []
    return try #require(answers.dropFirst(before).last).result
  }

  @Test("A blob that was removed cannot be found, and has its links again when the removal itself is removed")
  func removeAndRevert() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    let sum = try world.text(bob.id, "blob", alice.key.hex, input: "oops")
    let note = try world.text(alice.id, "blob", "note", input: "kept")
    let before = world.engine.store.links(to: try Sum(Hex.decode(sum)))
    #expect(before.count == 2)
    let removal = try world.text(alice.id, "rm", sum, "note")
    for reference in [sum, "note", note, "asn/messages/" + sum.prefix(64)] {
      #expect(try result(world, alice.id, "cat", reference) == .failure)
    }
    #expect(try result(world, bob.id, "cat", sum) == .failure)
    #expect(try world.text(alice.id, "ls", "asn/removals") == "asn/removals/" + removal.prefix(64) + "\n")
    // While it is removed, the name is free.
    world.epoch += 1
    _ = try world.text(alice.id, "blob", "note", input: "newer")
    let reversal = try world.text(alice.id, "rm", "asn/removals/" + removal.prefix(12))
    #expect(try world.text(bob.id, "cat", sum) == "oops")
    #expect(world.engine.store.links(to: try Sum(Hex.decode(sum))) == before)
    // The newer blob keeps the name; the older one is back under its sum.
    #expect(try world.text(alice.id, "cat", "note") == "newer" && world.text(alice.id, "cat", note) == "kept")
    // The reversal can be reverted in its turn.
    _ = try world.text(alice.id, "rm", reversal)
    #expect(try result(world, bob.id, "cat", sum) == .failure)
    #expect(try world.text(alice.id, "cat", "note") == "newer")
  }

  @Test("Only a forum's user, its editors, the administrator and the service may remove the forum's blobs")
  func permissions() throws {
    let world = try SocialWorld()
    let (alice, bob, eve) = (try world.user(1), try world.user(2), try world.user(3))
    let forum = try world.newUser(alice.id, "forum")
    _ = try world.exec(alice.id, "blob", forum.key.hex + "/asn/editors", input: bob.key.bytes)
    let (admin, mirror) = (try world.connect(user: keys.admin), try world.connect(user: keys.server))
    for (id, isPermitted) in [
      (alice.id, true), (bob.id, true), (admin, true), (mirror, true), (eve.id, false),
    ] {
      world.epoch += 1
      _ = try world.text(alice.id, "blob", forum.key.hex + "/page", input: "text")
      #expect(try result(world, id, "rm", forum.key.hex + "/page") == (isPermitted ? .success : .denied))
    }
    let sum = try world.text(eve.id, "blob", alice.key.hex, input: "mine")
    #expect(try result(world, eve.id, "rm", sum) == .denied)
    // If one removal is not permitted, none is carried out.
    world.epoch += 1
    _ = try world.text(eve.id, "blob", "own", input: "x")
    #expect(try result(world, eve.id, "rm", "own", sum) == .denied)
    #expect(try world.text(eve.id, "cat", "own") == "x")
    let forged = Blob(
      owner: eve.key, author: eve.key, epoch: world.epoch, name: .removals, content: try Hex.decode(sum),
      random: [UInt8](repeating: 0, count: 32))
    try world.client(eve.id) { (client) throws(ClientError) in try client.send(forged) }
    #expect(world.server.counters.droppedBlobs == 1 && world.engine.store.blob(forged.sum) == nil)
    #expect(try world.text(alice.id, "cat", sum) == "mine")
  }

  @Test("gc purges only flagged blobs, only those before EPOCH if it is given, and a purged blob does not return")
  func collect() throws {
    let world = try SocialWorld()
    let (alice, admin) = (try world.user(1), try world.connect(user: keys.admin))
    let old = try world.text(alice.id, "blob", "old", input: "1")
    world.epoch += 100
    let middle = world.epoch
    let new = try world.text(alice.id, "blob", "new", input: "2")
    world.epoch += 100
    _ = try world.text(alice.id, "blob", "kept", input: "3")
    let removal = try world.text(alice.id, "rm", "old", "new")
    func path(_ sum: String) -> String { sum.prefix(2) + "/" + sum.dropFirst(2) + "\n" }
    #expect(try world.text(admin, "gc", "-n") == [old, new].sorted().map(path).joined())
    #expect(try world.text(admin, "gc", "-v", "@\(middle)") == path(old))
    #expect(world.engine.store.blob(try Sum(Hex.decode(old))) == nil)
    #expect(world.engine.store.blob(try Sum(Hex.decode(new))) != nil)
    _ = try world.text(alice.id, "rm", removal)
    #expect(try world.text(alice.id, "cat", "new") == "2" && result(world, alice.id, "cat", "old") == .failure)
    #expect(try world.text(admin, "gc", "-v") == path(removal))
    #expect(try world.text(alice.id, "ls", "kept") == "kept\n")
    #expect(try world.text(admin, "gc", "-v") == "")
    let kinds = world.engine.store.changes(after: 0, limit: 1000).map(\.kind)
    #expect(kinds.count { $0 == .purged } == 2)
  }

  /// A model that computes from all removals which are active, without remembering anything.
  private struct Model {
    /// The blobs in the order in which they were made: what a removal lists, by its index; nil for a plain blob.
    var lists: [[Int]?] = []

    /// Whether each blob is flagged: by a removal that no active removal flags. Later ones decide about earlier ones.
    var flagged: [Bool] {
      var flagged = [Bool](repeating: false, count: lists.count)
      for index in lists.indices.reversed() where !flagged[index] {
        for target in lists[index] ?? [] { flagged[target] = true }
      }
      return flagged
    }
  }

  @Test("After random removals and nested reversals the flags and links equal those of a model")
  func randomRemovals() throws {
    for seed in 0..<UInt64(Extent.of(60, all: 3000)) {
      var random = SeededRandom(seed: seed)
      let user = PermissionTests.login
      var store = MemoryBlobStore()
      let publisher = Publisher()
      var model = Model()
      var blobs: [Blob] = []
      func add(_ blob: Blob) throws {
        let publication = try #require(try publisher.publish(blob, by: Login(user), in: store, now: blob.header.epoch))
        try store.apply(publication.changes)
        blobs.append(blob)
      }
      func blob(_ name: BlobName, _ content: [UInt8]) -> Blob {
        Blob(
          owner: user, author: user, epoch: UInt64(blobs.count + 1), name: name, content: content,
          random: random.bytes(32))
      }
      for number in 0..<5 {
        try add(blob(try BlobName("n\(number % 3)"), [UInt8(number)]))
        model.lists.append(nil)
      }
      for _ in 0..<12 {
        let count = 1 + Int(random.next() % 3)
        let targets = Set((0..<count).map { _ in Int(random.next() % UInt64(blobs.count)) }).sorted()
        try add(blob(.removals, targets.flatMap { blobs[$0].sum.bytes }))
        model.lists.append(targets)
        let flagged = model.flagged
        for (index, known) in blobs.enumerated() {
          #expect(try store.isFlagged(known.sum) == flagged[index], "seed \(seed), blob \(index)")
        }
        // The name of a removal is its own, so it is linked whenever it is not flagged.
        for index in blobs.indices where model.lists[index] != nil {
          let link = store.link(user, BlobName.removals.link(blobs[index].sum))
          #expect((link == nil) == flagged[index], "seed \(seed), removal \(index)")
        }
        for known in blobs { for link in store.links(to: known.sum) { #expect(try !store.isFlagged(link.sum)) } }
      }
    }
  }

  @Test("A chain of more than 64 reversals of removals is refused and changes nothing")
  func chain() throws {
    let user = PermissionTests.login
    var store = MemoryBlobStore()
    let publisher = Publisher()
    var last = Blob(
      owner: user, author: user, epoch: 1, name: try BlobName("x"), content: [],
      random: [UInt8](repeating: 0, count: 32))
    var refused = false
    for number in 1..<80 where !refused {
      do throws(Refusal) {
        let publication = try publisher.publish(last, by: Login(user), in: store, now: 1)
        try? store.apply(publication?.changes ?? [])
        last = Blob(
          owner: user, author: user, epoch: UInt64(number), name: .removals, content: last.sum.bytes,
          random: [UInt8](repeating: 0, count: 32))
      } catch {
        refused = true
        #expect(number == 66 && error.sentence == "Too many removals remove one another")
      }
    }
    #expect(refused && store.blob(last.sum) == nil)
  }

  // MARK: A store that fails

  @Test(
    "On a full disk stores get result 2, reads continue, and the fault is reported until a minute without one")
  func fullDisk() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    _ = try world.text(alice.id, "blob", "a", input: "1")
    for isCommit in [false, true] {
      _ = world.takeBlobs(bob.id)
      world.engine.failNext(isCommit ? nil : .full, commit: isCommit ? .readOnly : nil)
      let answer = try world.exec(alice.id, "blob", bob.key.hex, input: [2])
      #expect(answer.result == .failure && answer.text == "The blob cannot be stored")
      #expect(world.server.trouble == (isCommit ? .readOnly : .full))
      #expect(world.takeBlobs(bob.id) == [])
      #expect(try world.text(alice.id, "cat", "a") == "1")
      _ = try world.text(alice.id, "blob", bob.key.hex, input: "2")
      #expect(world.server.trouble != nil && world.takeBlobs(bob.id).count == 1)
      world.wait(.seconds(59))
      _ = try world.text(alice.id, "blob", bob.key.hex, input: "3")
      #expect(world.server.trouble != nil)
      world.wait(.seconds(1))
      _ = try world.text(alice.id, "blob", bob.key.hex, input: "4")
      #expect(world.server.trouble == nil)
    }
  }

  @Test("If the commit of several requests fails, their changes are refused, and queries see the state before them")
  func failedGroup() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    world.holdsStore = true
    for command in [
      Command(["blob", "b"], input: [1]), Command(["cat", "b"]), Command(["ls", "asn/user"]),
      Command(["mark", "1", "2"]),
      Command(["ls", "asn/mark"]),
    ] {
      try world.client(alice.id) { (client) throws(ClientError) in try client.exec(command).actions }
    }
    world.engine.failNext(nil, commit: .full)
    let before = world.peers[alice.id]?.answers.count ?? 0
    world.releaseStore()
    let results = world.peers[alice.id]?.answers.dropFirst(before).map(\.result)
    #expect(results == [.failure, .failure, .success, .success, .success])
    #expect(world.engine.marks.count == 1 && world.engine.store.usage().blobs == 3)
  }

  @Test("Above a limit of blobs, users, names or bytes the result is 2; messages use at most nine tenths of the names")
  func quotas() throws {
    let world = try SocialWorld()
    let (alice, bob) = (try world.user(1), try world.user(2))
    func refusal(_ id: SessionID, _ name: String, _ count: Int) throws -> String {
      let answer = try world.exec(id, "blob", name, input: [UInt8](repeating: 0, count: count))
      return answer.result == .success ? "" : "\(answer.result): \(answer.text)"
    }
    #expect(
      try refusal(alice.id, "x", 1024 * 1024 - 115) == "failure: The blob has 1048577 octets; the limit is 1048576")
    #expect(try refusal(alice.id, "x", 1024 * 1024 - 116) == "")
    world.engine.configuration.quota.namesPerUser = 10
    // Four names so far, and room for nine with messages.
    for number in 4..<9 { #expect(try refusal(bob.id, alice.key.hex, number) == "") }
    #expect(try refusal(bob.id, alice.key.hex, 1).hasPrefix("failure: USER"))
    #expect(try refusal(alice.id, "y", 1) == "" && refusal(alice.id, "z", 1).hasPrefix("failure: USER"))
    #expect(try refusal(alice.id, "y", 1) == "")
    world.engine.configuration.quota.users = 2
    #expect(try world.exec(alice.id, "newuser", "forum").text == "The server has reached its limit of 2 users")
    world.engine.configuration.quota.store = world.engine.store.usage().bytes
    let answer = try world.exec(bob.id, "blob", "q", input: [])
    #expect(answer.result == .failure && answer.text == "The blob cannot be stored")
  }

  @Test("An answer above its size limit is a failure with a sentence that names a smaller request")
  func answers() throws {
    let world = try SocialWorld()
    let alice = try world.user(1)
    world.engine.configuration.answer = 1000
    for number in 0..<12 {
      _ = try world.exec(alice.id, "blob", "d/\(number)", input: [UInt8](repeating: 65, count: 99))
    }
    #expect(
      try world.exec(alice.id, "cat", "d").text
        == "The answer has more than 1000 octets; name fewer blobs, or use fetch")
    #expect(try world.exec(alice.id, "objdump", "d").result == .failure)
    #expect(try world.exec(alice.id, "ls", "d").result == .success)
    #expect(try world.exec(alice.id, "cat", "d/1*").data.count == 297)
  }
}
